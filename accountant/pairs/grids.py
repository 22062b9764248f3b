"""Caches the losses of one round on a grid, as composing asks for the same round many times."""

from __future__ import annotations

from functools import lru_cache

from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.registry import pairs_of


@lru_cache(maxsize=64)
def dominating_grid(part: Part, log_tail: float) -> LossGrid:
    """Return the losses of a pair that dominates one round of `part` (`rounds` must be 1)."""
    return _frozen(pairs_of(part.mechanism).dominating_grid(part, log_tail))


@lru_cache(maxsize=64)
def played_grids(part: Part, log_tail: float) -> tuple[tuple[LossGrid, int], ...] | None:
    """Return pairs of several rounds of `part`, each with its number; see `LocalPairs.played_grids`."""
    found = pairs_of(part.mechanism).played_grids(part, log_tail)
    return None if found is None else tuple((_frozen(grid), times) for grid, times in found)


@lru_cache(maxsize=64)
def attack_grid(part: Part, log_tail: float) -> LossGrid | None:
    """Return losses that an attack on one round of `part` reaches; None if no attack is known."""
    # A batch drawn from more clients is a different data set.
    if part.clients is not None:
        return None
    found = pairs_of(part.mechanism).attack_grid(part, log_tail)
    return None if found is None else _frozen(found)


@lru_cache(maxsize=64)
def dominated_grid(part: Part, log_tail: float) -> LossGrid:
    """Return losses below those of `dominating_grid`, of the same pair; for kRR itself, of the attack."""
    pairs = pairs_of(part.mechanism)
    if pairs.is_attack_on_itself(part):
        attack = attack_grid(part, log_tail)
        if attack is not None:
            return attack
    return _frozen(pairs.dominated_grid(part, log_tail))


def is_attack_on_itself(part: Part) -> bool:
    """Whether the attack is on the same mechanism and batch: kRR, everybody's report, no dummies."""
    return pairs_of(part.mechanism).is_attack_on_itself(part)


def _frozen(grid: LossGrid) -> LossGrid:
    """Make a grid read-only, as many callers share it."""
    grid.masses.setflags(write=False)
    return grid
