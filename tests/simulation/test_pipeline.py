"""Processes are killed and restarted, and what was acknowledged counts once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import RoundState, RoundStatus
from hubbub.protos.records.results import QueryResult, QueryState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ResultsCaller
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.estimation.estimates import Estimate
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.verification.certificate import Pins, verify
from support.fleets import fleet_of
from support.messages import DELIVERED_NOTHING, SPENT_SO_FAR
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.samples import FEW

DEVICES = 600


PROMISE = Privacy(epsilon=2.0, delta=1e-4, epsilon_local=16.0, large_delta=FEW)


def draft(minimum_reports: int = 500, rounds: int = 1, privacy: Privacy = PROMISE) -> Draft:
    return Draft(
        "kiosks",
        Schedule(int(time.time()), length=3600, grace=86_400, rounds=rounds, close="operator"),
        minimum_reports,
        privacy,
        (Histogram("theme", ("light", "dark")), Number("session", 0.0, 60.0, "minutes", optional=True)),
    )


@pytest_asyncio.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[LocalPipeline]:
    async with LocalPipeline(draft(), tmp_path / "pipeline") as running:
        yield running


def answers(first: int, last: int) -> list[tuple[str, dict[str, str | float | None]]]:
    """Device names with answers: two thirds dark, sessions of 20 minutes, every fourth without one."""
    return [
        (str(device), {"theme": "light" if device % 3 == 0 else "dark", "session": None if device % 4 == 0 else 20.0})
        for device in range(first, last)
    ]


async def submit(pipeline: LocalPipeline, first: int, last: int, name: str = "fleet") -> int:
    async with fleet_of(pipeline, name) as carrier:
        return (await carrier.submit_many(answers(first, last), 0, per_call=50)).accepted


async def test_every_acknowledged_submission_counts_once_though_both_services_die(pipeline: LocalPipeline) -> None:
    assert await submit(pipeline, 0, 200) == 200
    await pipeline.kill(Role.SHUFFLER)
    await pipeline.start(Role.SHUFFLER)
    await pipeline.kill(Role.ANALYZER)
    # Overlaps with what was sent: a device that was acknowledged is not sent again, and counts once.
    assert await submit(pipeline, 100, 400) == 300
    # A fleet that lost its memory of being done resends nothing new; one that never ran is new.
    assert await submit(pipeline, 400, DEVICES, "another") == DEVICES - 400
    status = await pipeline.close_round(0)
    assert status.submissions == DEVICES
    await pipeline.kill(Role.SHUFFLER)
    await pipeline.start(Role.SHUFFLER)
    await pipeline.start(Role.ANALYZER)
    results = await pipeline.results(0)
    assert [(query.reports, query.valid, dict(query.left_out)) for query in results.queries] == [
        (DEVICES, DEVICES, {})
    ] * 2
    identities = pipeline.task.task.identities
    verified = verify(results.certificate, Pins(identities.operator, identities.shuffler, identities.analyzer))
    assert [record.reports for record in verified.records] == [DEVICES, DEVICES]
    theme, session = results.queries
    # Four estimates, each beyond eight standard errors with probability 4e-9 at most.
    assert near(theme, {("count", "light"): 200, ("count", "dark"): 400})
    assert near(session, {("answered", None): 450, ("sum", None): 9000})


def near(result: QueryResult, truth: Mapping[tuple[str, str | None], float]) -> bool:
    """Whether each of these rows is within eight standard errors of its truth."""
    found = estimates(result)
    return all(abs(found[row].value - value) < 8 * found[row].standard_error for row, value in truth.items())


def estimates(result: QueryResult) -> dict[tuple[str, str | None], Estimate]:
    assert result.estimates is not None
    return {(row.statistic, row.category): row.estimate for row in result.estimates.rows if row.estimate is not None}


# test_processes.py kills it at a write, a sync or a send while devices submit.
@pytest.mark.exhaustive
async def test_submissions_in_flight_while_the_shuffler_is_killed_are_all_counted(pipeline: LocalPipeline) -> None:
    sending = asyncio.ensure_future(submit(pipeline, 0, DEVICES))
    await _until_some_arrived(pipeline)
    await pipeline.kill(Role.SHUFFLER)
    await pipeline.start(Role.SHUFFLER)
    assert await sending == DEVICES
    assert (await pipeline.close_round(0)).submissions == DEVICES
    assert [query.valid for query in (await pipeline.results(0)).queries] == [DEVICES, DEVICES]


async def _until_some_arrived(pipeline: LocalPipeline) -> None:
    while not any(status.submissions for status in await pipeline.status()):
        await pause()


async def test_a_round_under_its_minimum_is_not_closed_and_says_why(pipeline: LocalPipeline) -> None:
    await submit(pipeline, 0, 10)
    with pytest.raises(Refusal, match="500") as refused:
        await pipeline.close_round(0)
    assert refused.value.reason is Reason.BELOW_MINIMUM
    (status,) = await pipeline.status()
    assert (status.state, status.submissions) == (RoundState.OPEN, 10)


async def test_a_round_expires_by_itself_and_nobody_waits_for_its_results(tmp_path: Path) -> None:
    # On a busy machine a short round is over before services serve and devices have submitted.
    for length in (10, 60, 240):
        if await expires(tmp_path / f"{length}", length):
            return
    pytest.fail("nobody could submit to a round of 240 seconds")


async def expires(folder: Path, length: int) -> bool:
    """Let a round expire; return False if it was over before all had submitted."""
    schedule = Schedule(int(time.time()), length=length, grace=1, rounds=1, close="schedule")
    async with LocalPipeline(replace(draft(), schedule=schedule), folder) as pipeline:
        try:
            assert await submit(pipeline, 0, 10) == 10
        except Refusal as refusal:
            if refusal.reason is not Reason.TOO_LATE:
                raise
            return False
        with pytest.raises(Refusal, match=r"expired with 10 submissions, under its minimum .* never") as refused:
            await pipeline.results(0)
        assert refused.value.reason is Reason.NO_RESULTS
        (status,) = await pipeline.status()
        assert (status.state, status.submissions) == (RoundState.EXPIRED, 10)
    return True


async def test_garbage_on_the_devices_port_changes_nothing_and_leaves_the_log_readable(pipeline: LocalPipeline) -> None:
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        for _ in range(20):
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/hubbub.v1.SubmissionService/Submit")(b"\xff garbage", timeout=PATIENCE)
    host, _, port = pipeline.shuffler.rpartition(":")
    for _ in range(20):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"no handshake\r\n\r\n")
        writer.close()
    assert await submit(pipeline, 0, 5) == 5
    log = (pipeline.logs / "shuffler.log").read_text()
    assert "Traceback" not in log
    assert "Handshake" not in log


async def test_a_third_round_beyond_the_budget_is_erased_and_the_operator_is_told_why(tmp_path: Path) -> None:
    # At the minimum one round costs ε = 1.995, two 2.795, three 3.452.
    privacy = replace(PROMISE, epsilon_total=3.1)
    async with LocalPipeline(draft(200, 3, privacy), tmp_path / "pipeline") as pipeline:
        epsilons = []
        for number in range(2):
            async with fleet_of(pipeline) as carrier:
                assert (await carrier.submit_many(answers(0, 250), number)).accepted == 250
            await pipeline.close_round(number)
            results = await pipeline.results(number)
            assert [query.state for query in results.queries] == [QueryState.PUBLISHED] * 2
            content = verify(results.certificate, Pins()).content
            assert content["all_rounds"]["epsilon_upper_at_minimum"] <= 3.1
            epsilons.append(content["all_rounds"]["epsilon_upper"])
        assert epsilons[0] < epsilons[1] < 2 * epsilons[0]
        status = await _ended(pipeline, 2)
        assert (status.state, status.submissions) == (RoundState.EXPIRED, 0)
        async with fleet_of(pipeline) as carrier:
            with pytest.raises(Refusal, match=r"the budget is 3\.1") as over:
                await carrier.submit_many(answers(0, 250), 2)
        assert over.value.reason is Reason.ERASED
        assert f"the budget is 3.1; {SPENT_SO_FAR}: " in status.waiting_for
        assert "each group alone: rounds 0 to 1 (2)" in status.waiting_for
        await pipeline.kill(Role.SHUFFLER)
        await pipeline.start(Role.SHUFFLER)
        assert (await _ended(pipeline, 2)).waiting_for == status.waiting_for
        async with open_channel(
            pipeline.services[Role.ANALYZER].addresses["results"], pipeline.operator_tls
        ) as channel:
            with pytest.raises(Refusal, match=DELIVERED_NOTHING) as refused:
                await ResultsCaller(channel).get_results(pipeline.task.task.id, 2, 0.0, CALL_SECONDS)
        assert refused.value.reason is Reason.NO_RESULTS


async def _ended(pipeline: LocalPipeline, number: int) -> RoundStatus:
    while True:
        (status,) = [status for status in await pipeline.status() if status.round == number]
        if status.state in (RoundState.EXPIRED, RoundState.ERASED):
            return status
        await pause()


# A usual run has them without dummies, in the first test here, and dummies in tests/statistical.
@pytest.mark.exhaustive
async def test_estimates_with_dummies_are_near_the_truth(tmp_path: Path) -> None:
    privacy = replace(PROMISE, dummies=20)
    async with LocalPipeline(draft(privacy=privacy), tmp_path / "pipeline") as pipeline:
        assert await submit(pipeline, 0, DEVICES) == DEVICES
        await pipeline.close_round(0)
        results = await pipeline.results(0)
        theme, session = results.queries
        assert [(query.reports, query.valid) for query in results.queries] == [(DEVICES, DEVICES)] * 2
        # Four estimates, each beyond eight standard errors with probability 4e-9 at most.
        assert near(theme, {("count", "light"): 200, ("count", "dark"): 400})
        assert near(session, {("answered", None): 450, ("sum", None): 9000})
        verified = verify(results.certificate, Pins())
        assert [(record.reports, record.dummies) for record in verified.records] == [(DEVICES, 20)] * 2
        assert verified.content["round_total"]["epsilon_upper"] <= 2.0


UNARY = (
    Number("session", 0.0, 60.0, "minutes", optional=True, randomizer="unary"),
    Histogram("color", ("red", "green", "blue")),
)


# Dummies beside unary encoding: tests/statistical/test_estimates.py, and oracle/test_unary_dummies_brute_force.py.
# tests/unit/planning/test_plan.py plans each, and unit/analyzer/test_certifier.py counts and publishes two.
@pytest.mark.exhaustive
@pytest.mark.parametrize("dummies", [0, pytest.param(20, marks=pytest.mark.exhaustive)])
async def test_queries_through_several_randomizers_are_answered_counted_and_certified_together(
    tmp_path: Path, dummies: int
) -> None:
    devices = [
        (name, {"session": given["session"], "color": ("red", "green", "blue")[min(int(name) % 6, 2)]})
        for name, given in answers(0, DEVICES)
    ]
    several = replace(draft(privacy=replace(PROMISE, dummies=dummies)), questions=UNARY)
    async with LocalPipeline(several, tmp_path / "pipeline") as pipeline:
        async with fleet_of(pipeline) as carrier:
            assert (await carrier.submit_many(devices, 0, per_call=50)).accepted == DEVICES
        await pipeline.close_round(0)
        async with asyncio.timeout(PATIENCE):
            results = await pipeline.results(0)
        task = pipeline.task.task
    assert [(query.reports, query.valid, dict(query.left_out)) for query in results.queries] == [
        (DEVICES, DEVICES, {})
    ] * 2
    session, color = results.queries
    # Five estimates, each beyond eight standard errors with probability 4e-9 at most.
    assert near(session, {("answered", None): 450, ("sum", None): 9000})
    assert near(color, {("count", "red"): 100, ("count", "green"): 100, ("count", "blue"): 400})
    identities = task.identities
    verified = verify(results.certificate, Pins(identities.operator, identities.shuffler, identities.analyzer))
    assert verified.pinned
    assert [(record.reports, record.dummies) for record in verified.records] == [(DEVICES, dummies)] * 2
    stated = verified.content["queries"]
    assert [query["mechanism"] for query in stated] == ["unary", "krr"]
    for query, certified in zip(task.queries, stated, strict=True):
        assert {key: certified[key] for key in query.mechanism.content()} == query.mechanism.content()
    assert {"truthful", "other"} <= set(stated[0])
    assert "gamma" not in stated[0]
    assert verified.content["round_total"]["epsilon_upper"] <= 2.0


async def test_a_service_that_ends_by_itself_is_named_with_its_log(tmp_path: Path) -> None:
    async with LocalPipeline(draft(), tmp_path / "pipeline") as pipeline:
        waiting = asyncio.ensure_future(pipeline.results(0))
        await asyncio.sleep(0)
        await pipeline.kill(Role.ANALYZER)
        with pytest.raises(ServiceError, match="analyzer was ended by SIGKILL"):
            await waiting


async def test_a_device_is_answered_by_the_first_receipt(pipeline: LocalPipeline) -> None:
    async with pipeline.device("kiosk") as device:
        first = await device.submit({"theme": "dark", "session": 12.5})
        assert await device.submit({"theme": "light"}) == first
    (status,) = await pipeline.status()
    assert status.submissions == 1
