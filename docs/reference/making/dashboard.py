"""The Grafana dashboard of deploy/alerts: panels by the operator's questions, from the metrics and the alerts.

`make reference` writes it. A panel names metrics without their service: it shows those of every service that has them.
A line marks the limit of each alert that compares the panel's number with one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from reference.making.alerts import Rule, rules
from reference.making.metrics import PROCESS, of_service
from reference.making.panels import ROWS, Panel
from reference.making.source import ROOT

FILE = ROOT / "deploy" / "alerts" / "dashboard.json"
"""The dashboard, as Grafana imports it."""

SERVICES = ("shuffler", "hop", "analyzer")

LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "process_virtual_memory_bytes": "It says nothing of memory that is used.",
    }
)
"""Metrics that no panel shows, with why."""

OF_OTHERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"up": (), "haproxy_backend_connection_errors_total": ("proxy",)}
)
"""Metrics of Prometheus and of the proxy, with the labels that panels may name."""

COLUMNS = 24
"""Columns of Grafana's grid."""

WIDTH, HEIGHT = 8, 8
"""Columns and rows of a panel."""

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_PLACED = re.compile(r"\bhubbub_SERVICE_[a-z_]+")
_NAMED = re.compile(r"\b(?:hubbub|process|haproxy)_[a-z_]+[a-z]\b|\bup\b")
_LIMIT = re.compile(r"(\w+)(?:\{[^}]*\})? ([<>]) ([0-9][0-9.e *]*)$", re.MULTILINE)


@cache
def exported() -> Mapping[str, tuple[str, ...]]:
    """Return every metric that a service exports, with its labels; those of a histogram by its three series."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(PROCESS, ())
    for each in (each for service in SERVICES for each in of_service(service)):
        if each.kind == "histogram":
            plain = tuple(label for label in each.labels if label != "le")
            found |= {f"{each.name}_bucket": (*plain, "le"), f"{each.name}_sum": plain, f"{each.name}_count": plain}
        else:
            found[each.name] = each.labels
    return found


def names(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    # What is in quotes is a label's value.
    return set(_NAMED.findall(re.sub(r'"[^"]*"', '""', expression)))


def queries(panel: Panel) -> Iterator[tuple[str, str]]:
    """Return each query of a panel, as PromQL, with its legend; one a service if it names no service itself."""
    for expression, legend in panel.queries:
        placed = _PLACED.findall(expression)
        if not placed:
            yield expression, legend
        for service in SERVICES if placed else ():
            if all(name.replace("SERVICE", service) in exported() for name in placed):
                yield expression.replace("SERVICE", service), legend.replace("SERVICE", service)


def alerts_of(panel: Panel) -> list[Rule]:
    """Return the rules of the alerts that a panel names."""
    return [rule for rule in rules() if rule.name in panel.alerts]


def text() -> str:
    """Return the file's content.

    Raises:
        ValueError: if a panel names an alert that does not exist, or a query that no service answers.
    """
    known = {rule.name for rule in rules()}
    for panel in (panel for _, panels in ROWS for panel in panels):
        if unknown := set(panel.alerts) - known:
            raise ValueError(f"panel {panel.title} names alerts that do not exist: {', '.join(sorted(unknown))}")
        if not list(queries(panel)):
            raise ValueError(f"panel {panel.title} names a metric that no service exports")
    return json.dumps(_dashboard(), indent=2, ensure_ascii=False) + "\n"


def stale() -> list[str]:
    """Return the file's name if it is not what the code gives."""
    return [] if FILE.is_file() and FILE.read_text(encoding="utf-8") == text() else [FILE.name]


def write() -> None:
    """Write the file."""
    FILE.write_text(text(), encoding="utf-8")


def _dashboard() -> dict[str, Any]:
    return {
        "uid": "hubbub",
        "title": "hubbub",
        "description": "What an operator asks of a shuffler, a hop or an analyzer. Made by `make reference`.",
        "tags": ["hubbub"],
        "timezone": "utc",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 41,
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": _variables()},
        "panels": list(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    """Return the data source, the instances and the tasks, which a reader chooses."""
    chosen = {"text": "All", "value": "$__all"}
    several = {"includeAll": True, "multi": True, "allValue": ".*", "current": chosen, "refresh": 2, "sort": 1}
    of_tasks = '{__name__=~"hubbub_(shuffler_rounds|hop_batches|analyzer_rounds)"}'
    asked = {"instance": 'label_values(up{job=~"hubbub.*"}, instance)', "task": f"label_values({of_tasks}, task)"}
    source = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"}
    return [
        source,
        *(
            {"type": "query", "name": name, "label": name.capitalize(), "datasource": _SOURCE, "query": query} | several
            for name, query in asked.items()
        ),
    ]


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for question, panels in ROWS:
        number += 1
        grid = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": question, "collapsed": False, "gridPos": grid, "panels": []}
        top += 1
        for index, panel in enumerate(panels):
            number += 1
            row, column = divmod(index * WIDTH, COLUMNS)
            grid = {"h": HEIGHT, "w": WIDTH, "x": column, "y": top + row * HEIGHT}
            yield {"id": number, "gridPos": grid, **_panel(panel)}
        top += HEIGHT * -(-len(panels) * WIDTH // COLUMNS)


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for index, (query, legend) in enumerate(queries(panel))
    ]
    found = alerts_of(panel)
    steps = _steps(panel, found)
    shown: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
        "custom": {"thresholdsStyle": {"mode": "line" if len(steps) > 1 else "off"}},
    }
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": " ".join([panel.meaning, *(f"{rule.name}: {rule.summary} {rule.remedy}" for rule in found)]),
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": shown | ({"min": 0} if panel.from_zero else {}), "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }


def _steps(panel: Panel, found: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return the colors of a panel: red beyond the limit with which an alert compares what the panel shows."""
    plain = {re.sub(r"\{[^{}]*\}", "", query) for query, _ in queries(panel)}
    limits = [found for rule in found for found in _LIMIT.findall(rule.expression) if found[0] in plain]
    for _, sign, limit in limits:
        value = math.prod(float(factor) for factor in limit.split("*"))
        first, beyond = ("green", "red") if sign == ">" else ("red", "green")
        if value:
            return [{"color": first, "value": None}, {"color": beyond, "value": value}]
    return [{"color": "green", "value": None}]
