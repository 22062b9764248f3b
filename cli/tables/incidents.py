"""Conditions: what holds the services up, as JSON and as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hubbub.protos.messages import Condition
from hubbub.protos.task.schedule import at


def condition_document(condition: Condition) -> dict[str, Any]:
    """Return what holds a service up as JSON."""
    return {
        "troubles": [
            {"kind": each.kind, "text": each.text, "since": at(each.since), "count": each.count}
            for each in condition.troubles
        ],
        "log_lines_lost": condition.log_lines_lost,
    }


def condition_lines(conditions: Mapping[str, Condition]) -> Iterator[str]:
    """Give a line for each trouble of each service, and one where lines of its log were lost."""
    for service, condition in conditions.items():
        for each in condition.troubles:
            times = "" if each.count == 1 else f", met {each.count} times"
            yield f"the {service} is in trouble ({each.kind}) since {at(each.since)}{times}: {each.text}"
        if condition.log_lines_lost:
            yield f"the {service} lost {condition.log_lines_lost} lines of its log since it started"
