"""What many tests ask for again, computed once: compositions, and intervals of sums of reports."""

from __future__ import annotations

import contextlib
import pickle
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hubbub.accountant import composition

if TYPE_CHECKING:
    import pytest

    from hubbub.queries.estimation.count_law import CountLaw, Whole

COMPUTED = ("_composed", "_smaller_epsilon", "_composed_delta")
"""What `compose`, `compose_upper` and `compose_delta` compute with, after they have checked what they are given."""

_known: dict[tuple[Any, ...], Any] = {}


def remembering(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is called once for the same arguments: equal ones that also print the same."""

    def answer(parts: Sequence[Any], *rest: float) -> Any:
        key = (name, tuple(parts), repr(parts), *rest)
        if key not in _known:
            _known[key] = function(parts, *rest)
        return _known[key]

    return answer


def remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute no composition twice, for as long as `monkeypatch` holds. What is computed stays for later tests."""
    for name in COMPUTED:
        monkeypatch.setattr(composition, name, remembering(name, getattr(composition, name)))


def remembering_in(folder: Path, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is called once for the same arguments by all processes that remember in this folder."""

    def answer(parts: Sequence[Any], *rest: float) -> Any:
        # What composes prints all that it is made of.
        place = folder / sha256(repr((name, tuple(parts), rest)).encode()).hexdigest()
        with contextlib.suppress(FileNotFoundError):
            return pickle.loads(place.read_bytes())  # noqa: S301 - these tests wrote it
        found = function(parts, *rest)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(pickle.dumps(found))
        Path(file.name).replace(place)
        return found

    return answer


@cache
def shared() -> Path:
    """Where services and commands of pages find what others composed: each service checks what its task promises."""
    return Path(tempfile.mkdtemp(prefix="hubbub-remembered-"))


def forget() -> None:
    """Remove what was remembered for them, at the end of all tests."""
    shutil.rmtree(shared())
    shared.cache_clear()


def remember_in(folder: Path) -> None:
    """Compute no composition of those that are remembered in this folder, until this process ends."""
    for name in COMPUTED:
        setattr(composition, name, remembering_in(folder, name, getattr(composition, name)))


BLOCK = 64
"""So many neighboring sums have their intervals computed in one call, which takes hardly longer than one sum's."""

_ends: WeakKeyDictionary[CountLaw, dict[tuple[float, int], tuple[Whole, Whole]]] = WeakKeyDictionary()


def remember_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute no interval of a sum of reports twice, for as long as `monkeypatch` holds.

    Thousands of batches under one law have some hundred different sums. An interval depends on its own sum alone.
    """
    import numpy as np

    from hubbub.queries.estimation.count_law import CountLaw

    computed = CountLaw.intervals

    def intervals(law: CountLaw, observed: Whole, rate: float) -> tuple[Whole, Whole]:
        # Beside noise there is a law for each sum of it, and few batches have the same one.
        known, size = _ends.setdefault(law, {}), BLOCK if law.noise is None else 1
        blocks = observed // size
        missing = [block for block in np.unique(blocks).tolist() if (rate, block) not in known]
        if missing:
            sums = np.concatenate([np.arange(block * size, (block + 1) * size) for block in missing])
            low, high = (ends.reshape(-1, size) for ends in computed(law, sums, rate))
            known |= {(rate, block): (lows, highs) for block, lows, highs in zip(missing, low, high, strict=True)}
        found = [known[rate, block] for block in blocks.tolist()]
        low, high = (
            np.array([ends[side][place] for ends, place in zip(found, observed % size, strict=True)]) for side in (0, 1)
        )
        return low, high

    monkeypatch.setattr(CountLaw, "intervals", intervals)
