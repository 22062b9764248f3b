"""A longitudinal question through real services, beside an ordinary one, from the draft to the certificate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from hubbub.accountant.certificate.ladder import ALONE
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.records.results import RoundResults
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.question import Value
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.fleets import fleet_of
from support.samples import FEW

DEVICES, ROUNDS = 240, 2
STRATEGIES = ("direct", "vector", "tree")


NOISY = ("direct", "tree")
"""The strategies that the shuffler adds noise to."""


def draft(strategies: tuple[str, ...] = STRATEGIES, noise: Literal["none", "always"] = "none") -> Draft:
    over_time = tuple(Longitudinal(name, 1, name, steady_share=1.0, epsilon_local=20.0) for name in strategies)
    # All rounds began before now and are cut long after it, so they can be answered one after the other at once.
    schedule = Schedule(int(time.time()) - 3600 * ROUNDS, 3600, 30 * 86_400, ROUNDS, "operator")
    privacy = Privacy(epsilon=8.0, delta=1e-2, epsilon_local=20.0, epsilon_total=40.0, large_delta=FEW)
    questions = (*over_time, Histogram("theme", ("light", "dark")))
    return Draft("fleet", schedule, 200, privacy, questions, noise=noise)


def answers(number: int, strategies: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Value]]]:
    """Half of the devices change to yes in round 1; every eighth joins then; the histogram is constant."""
    for device in range(DEVICES):
        if number or device % 8:
            state = number == 1 and device % 2 == 0
            yield str(device), {**dict.fromkeys(strategies, state), "theme": "dark"}


async def test_every_strategy_runs_to_a_certificate_that_holds(tmp_path: Path) -> None:
    async with LocalPipeline(draft(), tmp_path / "pipeline") as pipeline:
        check_certificate(pipeline, (await run(pipeline, STRATEGIES, 8)).certificate)


# tests/unit/verification/test_noise_beside_reports.py certifies a tree beside noise, and test_chain.py noise of running
# services.
@pytest.mark.exhaustive
async def test_noise_in_every_round_is_certified_beside_any_liars(tmp_path: Path) -> None:
    async with LocalPipeline(draft(NOISY, "always"), tmp_path / "pipeline") as pipeline:
        # Geometric noise has longer tails than the normal law: twelve errors are passed once in 10¹⁴ runs.
        results = await run(pipeline, NOISY, 12)
        task = pipeline.task.task
    assert all(query.noise is not None for query in task.queries)
    identities = task.identities
    content = verify(results.certificate, Pins(identities.operator, identities.shuffler, identities.analyzer)).content
    direct, tree, _ = content["queries"]
    assert [each["randomizer"]["mechanism"] for each in (direct, tree)] == ["krr", "tree-nodes"]
    for stated, query in zip(content["queries"], task.queries, strict=True):
        least, most = query.noise_range or (0, 0)
        assert least <= stated["dummies"] <= most
        assert stated["epsilon_upper"] <= stated[ALONE] <= 8.0
    assert content["horizon"]["epsilon_upper"] <= content["horizon"][ALONE] <= 40.0


async def run(pipeline: LocalPipeline, strategies: tuple[str, ...], most: int) -> RoundResults:
    """Answer and publish all rounds; counts are at most so many standard errors off. Return what the last one shows."""
    for number in range(ROUNDS):
        async with fleet_of(pipeline) as carrier:
            summary = await carrier.submit_many(answers(number, strategies), number)
        assert summary.accepted == (DEVICES if number else DEVICES * 7 // 8)
        await pipeline.close_round(number)
        results = await pipeline.results(number)
        check_results(results, number, len(strategies), most)
    return results


def check_results(results: RoundResults, number: int, strategies: int, most: int) -> None:
    people = DEVICES if number else DEVICES * 7 // 8
    truth = (0.0, DEVICES / 2)[number]
    for query in results.queries[:strategies]:
        assert query.estimates is not None
        rows = {(row.statistic, row.category): row.estimate for row in query.estimates.rows}
        count, answered = rows["count", None], rows["answered", None]
        assert count is not None
        assert answered is not None
        assert answered.value == people
        # Four estimates: eight standard errors are passed less than once in 10⁷ runs. Where who joins late is counted
        # from the nodes that they answered, these are all there are, so nothing is missing.
        assert abs(count.value - truth) < most * count.standard_error
        series = [category for statistic, category in rows if statistic == "smoothed_count"]
        assert series == ([] if query.name == "direct" else [f"round {place}" for place in range(number + 1)])


def check_certificate(pipeline: LocalPipeline, certificate: bytes) -> None:
    identities = pipeline.task.task.identities
    verified = verify(certificate, Pins(identities.operator, identities.shuffler, identities.analyzer))
    content = verified.content
    horizon, rounds = content["horizon"], content["all_rounds"]
    assert horizon["rounds"] == ROUNDS
    assert content["round_total"]["epsilon_upper"] <= rounds["epsilon_upper"] <= horizon["epsilon_upper"] <= 40.0
    assert rounds["epsilon_local"] <= horizon["epsilon_local"]
    steady = next(query["steady"] for query in content["queries"] if "steady" in query)
    fewer, more = f'"steady":{steady}'.encode(), f'"steady":{steady + 1}'.encode()
    for old, new in ((b'"rounds":2', b'"rounds":3'), (fewer, more), (b'"periods":2', b'"periods":3')):
        assert old in certificate
        with pytest.raises(VerificationError):
            verify(certificate.replace(old, new), Pins())
    stated = json.loads(certificate)["body"]
    assert {query["mechanism"] for query in stated["queries"]} == {"krr", "sequence", "tree-nodes"}
    assert len(rounds["history"]) == ROUNDS
