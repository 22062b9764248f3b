"""The task that a client is tried with unless a draft is given."""

from __future__ import annotations

import time
from dataclasses import replace

from hubbub.protos.task.schedule import DAY, Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number


def default_draft() -> Draft:
    """Return a draft of two questions: one of categories, and an optional one of a number."""
    queries = (
        Histogram("theme", ("light", "dark", "system")),
        Number("session", 0.0, 120.0, "minutes", optional=True),
    )
    schedule = Schedule(0, length=DAY, grace=600, rounds=1, close="operator")
    return beginning_now(Draft("conformance", schedule, 1000, Privacy(1.0, 1e-6, 8.0), queries))


def beginning_now(draft: Draft) -> Draft:
    """Return the draft with round 0 open now: a client answers the round of its clock."""
    return replace(draft, schedule=replace(draft.schedule, start=int(time.time())))
