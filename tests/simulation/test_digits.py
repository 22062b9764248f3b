"""A sum by digits through real services: one answer, several batches, one sum that follows from their counts."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.operator.export import as_table
from hubbub.protos.records.results import QueryState, RoundResults
from hubbub.protos.records.results_document import SUMS, results_document
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Value
from hubbub.verification.certificate import Pins, VerificationError, verify
from hubbub.verification.proof import CLAIMS_OF_QUERY, prove_certificate
from hubbub.verification.results import RecomputedResults, recompute
from hubbub.verification.results_files import as_file, read_every
from support.fleets import fleet_of

DEVICES = 400
DELAY = Number("delay", -30.0, 90.0, "minutes", digits=4)
THEME = Histogram("theme", ("light", "dark"))


def answers(device: int) -> dict[str, Value]:
    return {"delay": device % 150 - 40, "theme": "dark" if device % 3 else "light"}


# tests/statistical/test_digits.py has its sums, and unit/verification/test_results.py its results made again.
@pytest.mark.exhaustive
async def test_a_sum_by_digits_is_answered_certified_published_and_verified(tmp_path: Path) -> None:
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator")
    privacy = Privacy(epsilon=4.0, delta=1e-4, epsilon_local=40.0)
    draft = Draft("delays", schedule, 350, privacy, (DELAY, THEME), noise="always")
    async with LocalPipeline(draft, tmp_path / "pipeline") as pipeline:
        async with fleet_of(pipeline) as sender:
            sent = await sender.submit_many((str(device), answers(device)) for device in range(DEVICES))
        assert sent.accepted == DEVICES
        await pipeline.close_round(0)
        results = await pipeline.results(0)
    identities = pipeline.task.task.identities
    verified = verify(results.certificate, Pins(identities.operator, identities.shuffler, identities.analyzer))
    assert verified.content["round_total"]["epsilon_upper"] <= 4.0
    assert {each["bound"] for each in verified.content["queries"]} == {"noise"}
    # Proof mode knows nothing of digits: each is a query like any other. Claims about queries come first.
    findings = list(islice(prove_certificate(verified, lambda *_: None), CLAIMS_OF_QUERY * len(results.queries)))
    assert [each.as_text() for each in findings if each.proof is None] == []
    check_sum(results)
    check_recomputed(results)
    check_table(results)


def check_sum(results: RoundResults) -> None:
    (found,) = results.sums
    assert [each.name for each in results.queries] == [*found.queries, "theme"]
    assert found.name == "delay"
    assert found.state is QueryState.PUBLISHED
    assert found.estimates is not None
    truth = DELAY.truth([answers(device)["delay"] for device in range(DEVICES)])
    compared = [row for row in found.estimates.rows if row.estimate is not None]
    assert [row.statistic for row in compared] == ["answered", "sum", "mean"]
    for row in compared:
        assert row.estimate is not None
        # Two rows of one error, each beyond twelve standard errors with TWELVE: most of it is geometric noise.
        assert abs(row.estimate.value - truth[row.key]) <= 12 * (row.estimate.standard_error or 0.0) + 1e-6
    for query in results.queries[:4]:
        assert query.estimates is not None
        assert [row.statistic for row in query.estimates.rows] == ["ones"]


def recomputed(document: dict[str, Any], certificate: bytes) -> RecomputedResults | VerificationError:
    files = read_every(Path("r.json"), json.dumps(document).encode())
    (found,) = recompute(files, {certificate})
    return found


def check_recomputed(results: RoundResults) -> None:
    """What is fetched and what is saved follow from the counts, and nothing else does."""
    certificate = results.certificate
    (found,) = recompute([as_file(results)], {certificate})
    assert isinstance(found, RecomputedResults)
    assert found.queries == (*(query.name for query in results.queries), "delay")
    document = json.loads(json.dumps(results_document(results)))
    wrong = []
    for path in (("sum", "estimate"), ("mean", "standard_error"), ("sum", "simultaneous_upper"), ("answered", "lower")):
        changed = copy.deepcopy(document)
        changed[SUMS][0][path[0]][path[1]] += 1.0
        wrong.append(changed)
    wrong += [{name: member for name, member in document.items() if name != SUMS}]
    wrong += [{**document, SUMS: []}, {**document, SUMS: document[SUMS] * 2}]
    wrong += [{**document, SUMS: [{**document[SUMS][0], "name": "speed"}]}]
    wrong += [{**document, SUMS: [{**document[SUMS][0], "queries": ["theme"]}]}]
    for each in wrong:
        assert isinstance(recomputed(each, certificate), VerificationError)


def check_table(results: RoundResults) -> None:
    rows = as_table(results).to_pylist()
    assert [row["statistic"] for row in rows[:3]] == ["answered", "sum", "mean"]
    assert [row["query"] for row in rows] == [
        *["delay"] * 3,
        *(f"delay-bit-{place}" for place in range(1, 5)),
        *["theme"] * 3,
    ]
    assert rows[1]["unit"] == "minutes"
    assert (rows[1]["clip_lower"], rows[1]["clip_upper"], rows[1]["reports"]) == (-30.0, 90.0, None)
    withheld = replace(results, sums=(replace(results.sums[0], estimates=None),))
    assert as_table(withheld).to_pylist()[0]["state"] == "withheld"
