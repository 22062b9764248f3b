"""How thorough a run is: a usual one, or `make exhaustive`, which a release needs."""

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

TIMES = int(os.environ.get("HUBBUB_EXAMPLES", "1"))
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


def usually(few: int, whole: int) -> int:
    """How many to draw: few in a usual run, and all of them in an exhaustive one."""
    return whole if EXHAUSTIVE else few
