"""A task's reports are drawn one by one, all of their query's length; the laws are tested with the randomizers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from hubbub.client import HubbubError
from hubbub.client.randomize import randomize_all
from hubbub.protos.task.task import Task
from hubbub.queries.query import Query
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random
from support.queries import report, unary_query
from support.samples import HALF


def draws(*values: int) -> Callable[[int], bytes]:
    left = list(values)
    return lambda count: left.pop(0).to_bytes(count, "big")


def test_a_tasks_reports_are_drawn_one_by_one(task: Task) -> None:
    reports = randomize_all(task, (2, 8), draws(2**32 - 1, 0, 5))
    assert reports == (report(2), report(5))


def test_each_query_has_its_own_randomizer_and_report(task: Task) -> None:
    mixed = replace(task, queries=(task.queries[0], unary_query(task.queries[1].question, HALF, 1, levels=7)))
    highest, lowest = 2 ** (9 * 32) - 1, 0  # nine bits, a 32-bit draw for each
    assert randomize_all(mixed, (2, 0), draws(2**32 - 1, highest)) == (report(2), bytes(2))
    assert randomize_all(mixed, (2, 0), draws(2**32 - 1, lowest)) == (report(2), b"\xff\x01")


def test_a_tasks_reports_need_one_symbol_per_query(task: Task) -> None:
    with pytest.raises(ValueError, match="shorter"):
        randomize_all(task, (2,), os.urandom)


@dataclass(frozen=True)
class Faulty(KRandomizedResponse):
    """Writes a symbol as short as it is."""

    def randomize(self, symbol: int, random: Random) -> bytes:  # noqa: ARG002 - the randomizer's signature
        return bytes(1 + symbol % 2)


@pytest.mark.parametrize("symbol", [0, 1])
def test_a_report_of_another_length_is_never_sealed(task: Task, symbol: int) -> None:
    """It would tell its device apart: nothing at the shuffler or in the seal looks at it again."""
    faulty = Query(task.queries[1].question, Faulty(9, HALF))
    with pytest.raises(HubbubError, match=rf"delay has {1 + symbol} bytes, but 4 are expected; nothing was sent"):
        randomize_all(replace(task, queries=(task.queries[0], faulty)), (2, symbol), os.urandom)
