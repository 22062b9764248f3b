"""How thorough a run is: a usual one, or `make exhaustive`, which a release needs."""

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

TIMES = int(os.environ.get("TEST_EXAMPLES", "1"))
"""How many times the examples of a usual run a property test draws: `make exhaustive` says 10."""

EXHAUSTIVE = TIMES > 1
"""Whether grids are whole that a usual run samples."""


def spread(cases: Sequence[Case], usual: int) -> Sequence[Case]:
    """All cases in an exhaustive run; else so many of them, evenly from the first to the last (of one, the first)."""
    if EXHAUSTIVE or len(cases) <= usual:
        return cases
    if usual == 1:
        return cases[:1]
    return [cases[index * (len(cases) - 1) // (usual - 1)] for index in range(usual)]


def thinned(cases: Sequence[Any], usual: int) -> list[Any]:
    """All cases of a test, of which those that `spread` leaves out are left to exhaustive runs, unless named by id."""
    kept = spread(range(len(cases)), usual)
    each = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*case, marks=[] if place in kept else pytest.mark.exhaustive) for place, case in enumerate(each)
    ]


def left_out_of(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """What a usual run leaves out: exhaustive tests, and most cases of those with the marker `sampled`.

    Raises:
        pytest.UsageError: if a usual run would have no case of a sampled test.
    """
    left_out = {item for item in items if item.get_closest_marker("exhaustive")}
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item not in left_out and item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, each in cases.items():
        kept = _sample(each)
        if not kept:
            raise pytest.UsageError(f"a usual run has no case of {name}")
        left_out.update(set(each) - set(kept))
    return left_out


def _sample(cases: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    """So many cases as the marker says, as `spread` has them, or those whose ids have one of its texts."""
    marker = cases[0].get_closest_marker("sampled")
    assert marker is not None
    match marker.args:
        case (int(most),):
            return spread(cases, most)
        case texts:
            ids = {case: case.nodeid.partition("[")[2].removesuffix("]") for case in cases}
            return [case for case in cases if any(text in ids[case] for text in texts)]


def usually(few: int, whole: int) -> int:
    """How many to draw: few in a usual run, and all of them in an exhaustive one."""
    return whole if EXHAUSTIVE else few
