"""How thorough a run is: a usual one, or `make exhaustive`, which a release needs."""

import os
from collections.abc import Sequence

TIMES = int(os.environ.get("HUBBUB_EXAMPLES", "1"))
"""How many times the examples of a usual run a property test draws: `make exhaustive` says 10."""

EXHAUSTIVE = TIMES > 1
"""Whether grids are whole that a usual run samples."""


def spread(cases: Sequence[int], usual: int) -> Sequence[int]:
    """All cases in an exhaustive run; else so many of them, evenly from the first to the last."""
    if EXHAUSTIVE or len(cases) <= usual:
        return cases
    return [cases[index * (len(cases) - 1) // (usual - 1)] for index in range(usual)]
