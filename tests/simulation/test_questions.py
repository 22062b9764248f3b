"""Every kind of question through real services: devices answer, the analyzer estimates, the certificate verifies."""

from __future__ import annotations

import time
from pathlib import Path

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.records.results import QueryState
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Value
from hubbub.queries.questions.top import Top
from hubbub.queries.questions.variance import Variance
from hubbub.queries.registry import QUESTIONS
from hubbub.verification.certificate import Pins, verify
from support.fleets import fleet_of
from support.samples import FEW

DEVICES = 400
QUESTIONS_ASKED = (
    Distribution("session", (0.0, 5.0, 10.0, 60.0), (0.5,), "minutes", optional=True),
    Variance("delay", 0.0, 30.0),
    Top("site", ("a", "b", "c", "d")),
    Grouped("theme", (Histogram("region", ("north", "south")),), Histogram("theme", ("light", "dark")), optional=True),
    Grouped("age", (Histogram("region", ("north", "south")),), Number("age", 0.0, 100.0, "years")),
)


def answers(device: int) -> dict[str, Value]:
    region = "north" if device % 4 else "south"
    return {
        "session": None if device % 10 == 0 else float(device % 30),
        "delay": device % 31,
        "site": "ab"[device % 2],
        "theme": None if device % 5 == 0 else {"region": region, "theme": "dark" if device % 3 else "light"},
        "age": {"region": region, "age": 20 + device % 50},
    }


async def test_each_question_is_answered_estimated_near_its_truth_and_certified(tmp_path: Path) -> None:
    assert {question.kind for question in QUESTIONS_ASKED} | {"histogram", "sum"} <= set(QUESTIONS)
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator")
    draft = Draft(
        "kinds", schedule, 350, Privacy(epsilon=12.0, delta=1e-2, epsilon_local=20.0, large_delta=FEW), QUESTIONS_ASKED
    )
    async with LocalPipeline(draft, tmp_path / "pipeline") as pipeline:
        async with fleet_of(pipeline) as sender:
            await sender.submit_many((str(device), answers(device)) for device in range(DEVICES))
        await pipeline.close_round(0)
        results = await pipeline.results(0)
    identities = pipeline.task.task.identities
    verify(results.certificate, Pins(identities.operator, identities.shuffler, identities.analyzer))
    for question, found in zip(QUESTIONS_ASKED, results.queries, strict=True):
        assert found.state is QueryState.PUBLISHED
        assert found.estimates is not None
        truth = question.truth([answers(device)[question.name] for device in range(DEVICES)])
        compared = [row for row in found.estimates.rows if row.estimate is not None and row.key in truth]
        assert len(compared) >= 3
        for row in compared:
            assert row.estimate is not None
            # Some 60 rows, each beyond eight standard errors with probability 4e-9 at most; a quantile in its interval.
            low, high = row.estimate.simultaneous or (0.0, 0.0)
            reach = 8 * row.estimate.standard_error if row.estimate.standard_error is not None else high - low
            assert abs(row.estimate.value - truth[row.key]) <= reach + 1e-6, (question.kind, row)
