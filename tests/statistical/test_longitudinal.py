"""Counts over time are unbiased at every period, for every strategy, and as noisy as their formula says.

Devices send through the functions that they really run. n = 20,000 people over d = 64 periods with k = 4 changes.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from hubbub.accountant.mechanisms import TreeNodes
from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled, Vector
from hubbub.queries.estimation.estimates import Row
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.over_rounds import Batch, RoundContext
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.query import Query

PERIODS, CHANGES, PEOPLE = 64, 4, 20_000
HORIZON = Horizon(PERIODS, CHANGES)
SENDINGS: Mapping[str, Any] = {
    "direct": SendingStates(2, 2**31, HORIZON),
    "vector": SendingVector(Vector.best(HORIZON, 4.0), PEOPLE),
    "sampled": SendingOneChange(Sampled(HORIZON, int(math.exp(4.0) * 2**32)), PEOPLE),
    "tree": SendingNodes(TreeNodes(PERIODS, CHANGES, 2**30, 2**27)),
}


def states_of(people: int) -> np.ndarray[Any, Any]:
    """A stream a person, shape (people, periods): up to four changes at places that depend on the person."""
    draws = np.random.default_rng(7)
    places = np.sort(draws.integers(0, 2 * PERIODS, size=(people, CHANGES)), axis=1)
    return (places[:, :, None] <= np.arange(PERIODS)).sum(axis=1) % 2 == 1


def counted(query: Query, states: np.ndarray[Any, Any], random: Any) -> dict[int, Batch]:
    """The tallies of all rounds: every device remembers from round to round."""
    symbols = np.empty(states.shape, dtype=">u4")
    for person, stream in enumerate(states.tolist()):
        memory = None
        for number, state in enumerate(stream):
            encoded = query.encode_at(state, RoundContext(number, memory), random)
            memory = encoded.memory
            report = query.randomize(encoded.symbol, random)
            symbols[person, number] = int.from_bytes(report, "big")
    return {number: Batch(query.randomizer.tally(symbols[:, number].tobytes())) for number in range(PERIODS)}


def buffered() -> Any:
    """The operating system's randomness, asked for by the megabyte: most of a device's time goes into asking."""
    pool, place = b"", 0

    def random(count: int) -> bytes:
        nonlocal pool, place
        if place + count > len(pool):
            pool, place = os.urandom(1 << 20), 0
        place += count
        return pool[place - count : place]

    return random


@pytest.mark.slow
@pytest.mark.parametrize("way", SENDINGS)
def test_every_count_is_unbiased_and_as_noisy_as_its_formula(way: str) -> None:
    query = Query(Longitudinal("active", CHANGES, way, steady_share=1.0, periods=PERIODS), SENDINGS[way])
    states = states_of(PEOPLE)
    batches = counted(query, states, buffered())
    # All 64 periods at once: a normal law passes 5.9 with chance 4·10⁻⁹, so one of 128 tails does with 5·10⁻⁷.
    for number in range(PERIODS):
        rows = query.estimates_over(number, {place: batches[place] for place in range(number + 1)}).rows
        assert abs(score(way, rows[0], number, states)) < 5.9
    for row in rows[2:]:
        assert row.estimate is not None
        place = int(row.category.removeprefix("round ")) if row.category else 0
        # Noise of one person's nodes is not independent; five per cent covers what that changes here.
        assert abs(row.estimate.value - states[:, place].sum()) < 1.05 * 5.9 * row.estimate.standard_error


def score(way: str, row: Row, number: int, states: np.ndarray[Any, Any]) -> float:
    """How many standard errors a count is off, which are the formula's for these streams."""
    truth = int(states[:, number].sum())
    strategy = SENDINGS[way].strategy
    exact = math.sqrt(strategy.variance(number + 1, len(states), ones=truth))
    if way == "tree":
        # Its noise grows with those who changed in each node, whose number is no one number for all nodes.
        ends = [0, *(place << level for level, place in strategy.horizon.cover(number + 1))]
        after = np.column_stack([np.zeros(len(states), dtype=bool), states])
        changed = [int((after[:, begin] != after[:, end]).sum()) for begin, end in itertools.pairwise(ends)]
        exact = math.sqrt(sum(strategy.node.variance(len(states), each) for each in changed))
    assert row.estimate is not None
    assert row.estimate.standard_error == pytest.approx(exact, rel=0.05)
    return (row.estimate.value - truth) / exact


def test_a_wrong_law_is_rejected() -> None:
    """Power: devices that tell the truth a quarter more often than is taken for granted are off by ten errors."""
    states = np.ones((8000, 1), dtype=bool)
    honest = SENDINGS["direct"]
    lying = Query(Longitudinal("active", CHANGES, "direct", periods=PERIODS), SendingStates(2, 2**31 - 2**29, HORIZON))
    drawn = [lying.encode_at(True, RoundContext(0), os.urandom).symbol for _ in states]
    batch = Batch(honest.tally(b"".join(lying.randomize(symbol, os.urandom) for symbol in drawn)))
    taken = Query(lying.question, honest).estimates_over(0, {0: batch}).rows[0]
    # The bias is 8000/8 = 1000, the standard error √(8000·3/4) = 77: never below 5.9, but once in 10¹¹ runs.
    assert score("direct", taken, 0, states) > 5.9
