"""Defines the charges of a task's ledger as stores keep them, without loading the accountant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.protos.errors import HubbubError
from hubbub.protos.task.task import Task


@dataclass(frozen=True)
class Charge:
    """A link of a task's ledger: its position from 0, the entry in canonical form, and the chained digest (hex)."""

    position: int
    entry: str
    digest: str


Charges = Sequence[Charge]


class LedgerMoved(HubbubError):
    """Charges no longer follow the task's last one, since another process has charged meanwhile. Nothing was stored.

    The caller reads the ledger again and makes new charges: their digests chain all earlier charges.
    """


def check_follows(stored: int, charges: Charges) -> None:
    """Check that charges follow the `stored` ones of their task, without a gap.

    Raises:
        LedgerMoved: if they do not.
    """
    positions = [charge.position for charge in charges]
    if positions != list(range(stored, stored + len(charges))):
        named = ", ".join(map(str, positions))
        raise LedgerMoved(
            f"the ledger has {stored} charges, but these are for positions {named}; read the ledger again"
        )


class TaskLocks:
    """Serializes the charging of one task's rounds, within this process.

    A charge chains the digest of the one before, so of two made at the same time only one can be stored. The store
    detects that (`LedgerMoved`); the lock only saves composing (0.1 s) in vain.
    """

    def __init__(self) -> None:
        self._locks: dict[bytes, asyncio.Lock] = {}

    def charging(self, task: Task) -> asyncio.Lock:
        """Return the lock to keep from reading a task's ledger until its new charges are on disk."""
        return self._locks.setdefault(task.id, asyncio.Lock())
