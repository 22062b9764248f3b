"""What a task's ledger is made of, as a store keeps it. Loads nothing of the accountant's numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.protos.errors import HubbubError
from hubbub.protos.task.task import Task


@dataclass(frozen=True)
class Charge:
    """A link of a task's ledger: its position from 0, the entry in canonical form, the digest that chains it (hex)."""

    position: int
    entry: str
    digest: str


Charges = Sequence[Charge]


class LedgerMoved(HubbubError):
    """Charges do not follow the task's last one any more: somebody else has charged meanwhile. Nothing was stored.

    Whoever gets this reads the ledger again and makes the charges anew: their digests chain what came before.
    """


def check_follows(stored: int, charges: Charges) -> None:
    """Return only if charges follow the `stored` ones of their task, without a gap.

    Raises:
        LedgerMoved: if they do not.
    """
    positions = [charge.position for charge in charges]
    if positions != list(range(stored, stored + len(charges))):
        raise LedgerMoved(f"the ledger holds {stored} charges, these are for positions {positions}; read it again")


class TaskLocks:
    """Holds the rounds of one task apart while they are charged, within this process.

    Charges chain the digest of what came before, so two that are made at once would both fit, but only one be stored.
    The store finds that out (`LedgerMoved`); with a lock nobody has to compose (0.1 s) in vain.
    """

    def __init__(self) -> None:
        self._locks: dict[bytes, asyncio.Lock] = {}

    def charging(self, task: Task) -> asyncio.Lock:
        """Return the lock that is held from reading a task's ledger until its new charges are on disk."""
        return self._locks.setdefault(task.id, asyncio.Lock())
