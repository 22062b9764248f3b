"""Makes the panels of the demo's plot from its JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hubbub.cli.plots.comparison import CategoryPanel, Comparison, OverRoundsPanel, Panel, PlotPoint
from hubbub.deploy.demo.scenarios.scenario import Scenario
from hubbub.queries.estimation.estimates import SHOWN_COUNTS


def by_category(document: Mapping[str, Any]) -> tuple[Panel, ...]:
    """Return a panel for each query with counts: the last round's, the largest first.

    If no query has counts, a panel for each statistic.
    """
    found = []
    for query in document["rounds"][-1]["queries"]:
        rows = [row for row in query["estimates"] if row["category"] is not None]
        rows.sort(key=lambda row: -row["estimate"])
        # Of texts, and of the top of many categories, only significant counts are estimated: there may be none.
        if rows or {row["statistic"] for row in query["estimates"]} <= {"answered"}:
            points = tuple(_point(row["category"], row) for row in rows[:SHOWN_COUNTS])
            found.append(CategoryPanel(query["name"], "devices", points))
    return tuple(found) or over_rounds(document)


def by_group(document: Mapping[str, Any]) -> tuple[Panel, ...]:
    """Return a panel for the mean of each query: the last round's, everybody's first."""
    found = []
    for query in document["rounds"][-1]["queries"]:
        rows = [row for row in query["estimates"] if row["statistic"] == "mean"]
        points = tuple(_point(", ".join(row.get("group", {}).values()) or "everybody", row) for row in rows)
        found.append(CategoryPanel(query["name"], f"mean, {query['unit']}" if query.get("unit") else "mean", points))
    return tuple(found)


def over_rounds(document: Mapping[str, Any]) -> tuple[Panel, ...]:
    """Return a panel for each statistic without a category: its course over the rounds."""
    found = []
    for query, statistic in _statistics(document):
        points = tuple(
            _point(float(each["round"]), row) for each in document["rounds"] for row in _rows(each, query, statistic)
        )
        found.append(OverRoundsPanel(f"{query}: {statistic}", statistic, points))
    return tuple(found)


def _statistics(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for query in document["rounds"][0]["queries"]:
        for row in query["estimates"]:
            if row["category"] is None:
                yield query["name"], row["statistic"]


def _rows(round_document: Mapping[str, Any], query: str, statistic: str) -> Iterator[Mapping[str, Any]]:
    for each in round_document["queries"]:
        if each["name"] == query:
            yield from (row for row in each["estimates"] if (row["statistic"], row["category"]) == (statistic, None))


def _point(at: str | float, row: Mapping[str, Any]) -> PlotPoint:
    return PlotPoint(at, row["truth"], row["estimate"], row["lower"], row["upper"])


PANELS: Mapping[str, Callable[[Mapping[str, Any]], tuple[Panel, ...]]] = MappingProxyType(
    {"longitudinal": over_rounds, "groups": by_group}
)
"""What a scenario's plot shows, by its name, if that is not `by_category`."""


def plot_of(shown: Scenario, document: Mapping[str, Any]) -> Comparison:
    """Return the plot of a demo that was run: truth, estimates and their intervals."""
    said = f"{document['devices']} devices, ε ≤ {document['epsilon']:g} at δ = {document['delta']:g} a round"
    panels = PANELS.get(shown.name, by_category)
    return Comparison(f"hubbub demo: {document['task']}", f"{shown.about}; {said}", panels(document))
