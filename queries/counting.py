"""Counting: draws by the million, with numpy. Services load this; a device does not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hubbub.queries.draws import Random


def uniform_symbols(count: int, symbols: int, random: Random) -> npt.NDArray[np.uint32]:
    """Return `count` symbols from range(`symbols`): exactly uniform and independent if the bytes of `random` are.

    32-bit draws from the last, incomplete stretch of `symbols` numbers are rejected.
    """
    limit = 2**32 - 2**32 % symbols
    found = np.empty(0, dtype=np.uint64)
    while len(found) < count:
        draws = np.frombuffer(random(4 * (count - len(found))), dtype="<u4").astype(np.uint64)
        found = np.concatenate([found, draws[draws < limit] % symbols])
    return found.astype(np.uint32)
