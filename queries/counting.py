"""Counting: uniform draws by the million, with numpy. Services import this module; devices do not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hubbub.queries.draws import Random


def uniform_symbols(count: int, symbols: int, random: Random) -> npt.NDArray[np.uint32]:
    """Return `count` symbols from range(`symbols`): exactly uniform and independent if the bytes of `random` are.

    32-bit draws at or above the largest multiple of `symbols` are rejected: taken modulo `symbols`, they would make the
    first symbols more likely than the last.
    """
    limit = 2**32 - 2**32 % symbols
    found = np.empty(0, dtype=np.uint64)
    # Less than half of the draws are rejected, whatever `symbols` is, so this soon ends.
    while len(found) < count:
        draws = np.frombuffer(random(4 * (count - len(found))), dtype="<u4").astype(np.uint64)
        found = np.concatenate([found, draws[draws < limit] % symbols])
    return found.astype(np.uint32)
