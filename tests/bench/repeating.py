"""What one round of 10⁶ devices costs the analyzer once its reports are opened."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from row import Outcome, Row, timed
from sample_task import HALF

from hubbub.accountant.mechanisms.longitudinal import Horizon, Vector
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.signs import SendingVector
from hubbub.queries.query import Query
from hubbub.queries.randomizers.randomizer import Tally

DEVICES, HORIZON = 10**6, Horizon(64, 4)
"""Devices of a round, and the rounds and changes of the question; the last round has the most behind it."""

SECONDS = 1.0

SENT = (SendingStates(2, HALF, HORIZON), SendingVector(Vector.best(HORIZON, 4.0), DEVICES))


def repeating() -> Iterator[Outcome]:
    """Count the reports of the last round, and estimate it and all before."""
    for sending in SENT:
        strategy = sending.strategy.kind
        question = Longitudinal("active", HORIZON.changes, steady_share=1.0)
        query = Query(question.frozen(strategy, HORIZON.periods), sending)
        drawn = np.random.default_rng(1).integers(0, sending.symbols, DEVICES)
        reports = drawn.astype(">u4").tobytes()
        before = {number: Batch(sending.tally(reports)) for number in range(HORIZON.periods - 1)}

        def last(query: Query = query, before: dict[int, Batch] = before, reports: bytes = reports) -> Tally:
            tally = query.randomizer.tally(reports)
            query.estimates_over(HORIZON.periods - 1, {**before, HORIZON.periods - 1: Batch(tally)})
            return tally

        seconds, tally = timed(last)
        if tally.valid != DEVICES:
            raise RuntimeError(f"{tally.valid} of {DEVICES} reports were counted")
        yield Row.of(f"round_{strategy}", "s", seconds, SECONDS)


ROWS = (repeating,)
