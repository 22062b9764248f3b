"""What a signer is shown of a task: whatever the parties agree on changes the text if it changes in the task."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hubbub.cli.tables.signed_task import every_member, print_task
from hubbub.deploy.files import signed_task_in
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import Task, task_content
from hubbub.queries.errors import HubbubError

KINDS = sorted(path.parent for path in (Path(__file__).parents[3] / "vectors/kinds").glob("*/task.json"))

CHECKED = {
    "gamma",
    "noise",
    "mechanism",
    "cells",
    "rows",
    "odds",
    "minuses",
    "steady",
    "truthful",
    "other",
    "side",
    "format",
}
"""Exact numbers of randomizers and noise: who signs cannot judge them, and every service checks what they promise."""


def shown(task: Task, width: int = 100) -> str:
    console = Console(file=StringIO(), width=width)
    print_task(console, task)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def values(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each single value of a task's JSON, with its path."""
    if isinstance(content, dict | list):
        for key, each in content.items() if isinstance(content, dict) else enumerate(content):
            yield from values(each, (*path, key))
    else:
        yield path, content


def changed(content: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(content)
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return found


def others(value: Any) -> list[Any]:
    """Return values of the same type, of which a task may take one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value * 2, value / 2, value - 1, value // 2 + 1]
    if isinstance(value, str):
        return [{"schedule": "operator", "operator": "schedule"}.get(value, f"{value}x"), f"{value[:-1]}0"]
    return []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_agreed_on_is_shown(kind: Path) -> None:
    task = signed_task_in(kind / "task.json").task
    content, text = task_content(task), shown(task)
    tried = 0
    for path, value in values(content):
        if CHECKED & set(path):
            continue
        for other in others(value):
            try:
                changed_task = read_task(changed(content, path, other))
            except HubbubError:
                continue
            if task_content(changed_task) == content:
                continue
            tried += 1
            assert shown(changed_task) != text, (path, value, other)
            break
    assert tried > 10


def test_nothing_is_left_out_if_every_member_is_asked_for() -> None:
    content = task_content(signed_task_in(KINDS[0] / "task.json").task)
    lines = list(every_member(content))
    assert {line.partition(" = ")[0].partition(".")[0] for line in lines} == set(content)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_nothing_is_cut_however_narrow_the_terminal_is(width: int) -> None:
    for kind in KINDS:
        task = signed_task_in(kind / "task.json").task
        joined = "".join(shown(task, width).split())
        for identity in task.identities.named.values():
            assert fingerprint(identity) in joined


def test_a_number_without_a_unit_has_no_word_for_it() -> None:
    tried = 0
    for kind in KINDS:
        content = task_content(signed_task_in(kind / "task.json").task)
        for path, _ in values(content):
            if path[-1] == "unit":
                content, tried = changed(content, path, ""), tried + 1
        assert " unit" not in shown(read_task(content), 400), kind
    assert tried > 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("variance", "variance; from -30 to 180 minutes, rounded at random to 7 steps of 30; a device"),
        ("digits", "sum by digits; from 0 to 10 floors, by 1 binary digit; a device"),
        ("distribution", "in buckets between 0, 5, 10, 30, 60 minutes; with the quantiles 0.5, 0.9; optional; a"),
        ("grouped", "grouped; for each region (north, south); histogram, one of light, dark; a device"),
        ("text", "text; of any text; optional; a device"),
    ],
)
def test_a_question_is_said_as_people_say_it(kind: str, words: str) -> None:
    (found,) = [each for each in KINDS if each.name == kind]
    assert words in " ".join(shown(signed_task_in(found / "task.json").task, 1000).split())
