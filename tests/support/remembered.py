"""Many tests of budgets, ledgers and certificates ask for the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hubbub.accountant import composition

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
