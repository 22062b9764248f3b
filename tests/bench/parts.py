"""Parties and a task of one query, made afresh."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hubbub.protos.keys import Identity
from hubbub.protos.signed_task import SignedTask
from hubbub.protos.task import Histogram, Identities, Privacy, Query, Schedule, Task

HALF = 2**31
"""γ = 1/2."""


@dataclass(frozen=True)
class Parts:
    """Three identities, and the task that two of them signed."""

    shuffler: Identity
    analyzer: Identity
    signed: SignedTask

    @property
    def task(self) -> Task:
        """What the signed task says."""
        return self.signed.task

    @classmethod
    def generate(cls) -> Parts:
        """Make identities, and a task that is closed by the operator."""
        operator, shuffler, analyzer = Identity.generate(), Identity.generate(), Identity.generate()
        schedule = Schedule(int(time.time()), 3600, 60, 1, "operator")
        query = Query(Histogram("theme", ("dark", "light")), HALF)
        identities = Identities(operator.public, shuffler.public, analyzer.public)
        task = Task("speed", schedule, 1000, Privacy(1.0, 1e-6), (query,), identities)
        return cls(shuffler, analyzer, SignedTask(task).signed_by(operator).signed_by(shuffler))
