"""A usual run leaves out exhaustive tests, and of sampled ones all cases but so many, or but those that are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from support import thoroughness


@dataclass(eq=False)
class Case:
    """What is asked of a collected test."""

    nodeid: str
    marks: tuple[Any, ...] = ()

    def get_closest_marker(self, name: str) -> Any:
        """The mark of that name, if it has one."""
        return next((each.mark for each in self.marks if each.name == name), None)


def cases(count: int, *marks: Any, name: str = "test_many") -> list[Case]:
    return [Case(f"tests/test_a.py::{name}[kind-{number}]", marks) for number in range(count)]


def kept(items: list[Case]) -> list[str]:
    left_out = cast(set[Any], thoroughness.left_out_of(cast(Any, items)))
    return [item.nodeid.partition("::")[2] for item in items if item not in left_out]


def test_so_many_are_kept_from_the_first_to_the_last_of_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thoroughness, "EXHAUSTIVE", False)
    items = [*cases(9, pytest.mark.sampled(3)), *cases(2, pytest.mark.sampled(3), name="test_few"), *cases(1, name="b")]
    assert kept(items) == [
        *(f"test_many[kind-{number}]" for number in (0, 4, 8)),
        *(f"test_few[kind-{number}]" for number in (0, 1)),
        "b[kind-0]",
    ]


def test_exhaustive_cases_are_left_out_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thoroughness, "EXHAUSTIVE", False)
    first, *others = cases(4, pytest.mark.sampled(2))
    dear = Case(first.nodeid, (*first.marks, pytest.mark.exhaustive))
    assert kept([dear, *others]) == ["test_many[kind-1]", "test_many[kind-3]"]


def test_those_with_a_text_in_their_ids_are_kept_and_a_text_that_none_has_is_a_fault() -> None:
    assert kept(cases(12, pytest.mark.sampled("-0", "kind-11"))) == ["test_many[kind-0]", "test_many[kind-11]"]
    with pytest.raises(pytest.UsageError, match=r"a usual run has no case of tests/test_a\.py::test_many"):
        kept(cases(12, pytest.mark.sampled("many")))
