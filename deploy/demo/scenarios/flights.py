"""Demonstrates a histogram and a sum, in one round."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.deploy.demo.scenarios.flights_data import flights_table
from hubbub.deploy.demo.scenarios.scenario import Scenario
from hubbub.planning.simulate.dataset import Dataset
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number


def flights() -> Dataset:
    """Return the flights that left New York City's airports in 2013: carrier, and departure delay in minutes.

    Raises:
        HubbubError: if the package with the data is not installed.
    """
    table = flights_table(["carrier", "dep_delay"])
    carriers, delays = table["carrier"], table["dep_delay"].cast(pa.float64())
    questions = (
        Histogram("carrier", tuple(sorted(pc.unique(carriers).to_pylist()))),
        Number("departure_delay", -30.0, 180.0, "minutes", optional=True),
    )
    return Dataset("flights", questions, pa.table({"carrier": carriers, "departure_delay": delays}))


FLIGHTS = Scenario(
    "flights",
    "each flight is a device, which reports its carrier and, if it has one, its departure delay",
    flights,
)
"""The default scenario of `hubbub demo`."""
