"""Demonstrates a yes-or-no question to the same devices over a year, in sixteen rounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hubbub.deploy.demo.scenarios.flights_data import flights_table
from hubbub.deploy.demo.scenarios.scenario import Scenario
from hubbub.planning.simulate.dataset import Dataset
from hubbub.queries.longitudinal.question import Longitudinal

PERIODS = 16
"""Rounds: parts of the year, of about 23 days each."""

REMEMBERED = 3
"""How many periods an airplane's worst delay counts for."""

LATE_MINUTES = 120

QUESTION = Longitudinal("late", changes=6, epsilon_local=40.0)
"""One airplane in a thousand changes more often, and is clipped. The cap is on the total of one's reports."""


def lateness() -> Dataset:
    """Return whether each airplane arrived over two hours late in the last ten weeks, after each period of 2013.

    Raises:
        HubbubError: if the package with the data is not installed.
    """
    flights = flights_table(["month", "day", "tailnum", "arr_delay"]).drop_null()
    planes = flights["tailnum"].combine_chunks().dictionary_encode()
    months, days = (flights[name].to_numpy() for name in ("month", "day"))
    dates = (np.datetime64("2013-01") + (months - 1)).astype("datetime64[D]") + (days - 1)
    period = (dates - np.datetime64("2013-01-01")).astype(int) * PERIODS // 365
    late = flights["arr_delay"].to_numpy() > LATE_MINUTES
    seen = np.zeros((len(planes.dictionary), PERIODS), dtype=bool)
    seen[planes.indices.to_numpy()[late], period[late]] = True
    tables = [_states(np.any(seen[:, max(0, end - REMEMBERED) : end], axis=1)) for end in range(1, PERIODS + 1)]
    return Dataset("longitudinal", (QUESTION,), tables[0], later=tuple(tables[1:]))


def _states(late: np.ndarray) -> pa.Table:
    return pa.table({QUESTION.name: pa.array(np.where(late, "yes", "no"))})


LONGITUDINAL = Scenario(
    "longitudinal",
    "each airplane is a device, which reports sixteen times whether it was two hours late in the last ten weeks",
    lateness,
    devices=1250,
    rounds=PERIODS,
)
"""One answer a period, of a state that changes six times at most; the budget is that of the whole year."""
