"""A signed task of one query with its parties' keys, made afresh: for rows that measure a store or a party by itself.

Rows that measure running services have the task and the keys of a deployment (`calls.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from hubbub.protos.identity.keys import Identity
from hubbub.protos.sealing.envelope import inner_bytes
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Privacy, Task
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.krr import SYMBOL_BYTES, KRandomizedResponse

HALF = 2**31
"""γ = 1/2."""

THEME = Query(Histogram("theme", ("dark", "light")), KRandomizedResponse(2, HALF))
"""What is asked where nothing else is said."""

INNER_BYTES = inner_bytes(SYMBOL_BYTES)
"""Length of an inner envelope of an answer through kRR, as everybody's is where nothing else is said."""


@dataclass(frozen=True)
class SampleTask:
    """A task that the operator and the shuffler signed, and the keys of its shuffler and its analyzer."""

    shuffler: Identity
    analyzer: Identity
    signed: SignedTask

    @property
    def task(self) -> Task:
        """What the signed task says."""
        return self.signed.task

    @property
    def inner_bytes(self) -> int:
        """Length of an inner envelope of its query."""
        return inner_bytes(self.task.queries[0].report_bytes)

    @classmethod
    def generate(cls, query: Query = THEME) -> SampleTask:
        """Make identities, and a task of one query that is closed by the operator."""
        operator, shuffler, analyzer = Identity.generate(), Identity.generate(), Identity.generate()
        schedule = Schedule(int(time.time()), 3600, 60, 1, "operator")
        identities = Identities(operator.public, shuffler.public, analyzer.public)
        task = Task("speed", schedule, 1000, Privacy(1.0, 1e-6), (query,), identities, OPEN, 1_000_000)
        return cls(shuffler, analyzer, SignedTask(task).signed_by(operator).signed_by(shuffler))
