"""What the shuffler shows its monitoring."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import itertools
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.shuffler.test_server import Deployment, analyzer_at, channel, running, seal
from unit.shuffler.world import BY_OPERATOR, World, unreachable

from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import CredentialAction, RoundState, RoundStatus, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.transport.channels import TLS
from hubbub.service.observability import logs
from hubbub.service.observability.rounding import CountRounding
from hubbub.service.settings import LogSettings
from hubbub.shuffler.admit import checks
from hubbub.shuffler.metrics import REFUSED, ShufflerCollector
from hubbub.shuffler.rounds.control import Control
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.metrics_scrape import Scraped, fetch, scrape
from support.patience import CALL_SECONDS, pause

TIMINGS = "hubbub_shuffler_stage_duration_seconds_count"
SUBMISSIONS = "hubbub_shuffler_submissions_total"


async def shown(world: World) -> Scraped:
    """What a collector over the world shows now."""
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    queues = {"store": lambda: world.store.waiting}
    registry.register(ShufflerCollector(world.tasks, world.store, world.rounds, queues, world.clock))
    return Scraped((await asyncio.to_thread(prometheus_client.generate_latest, registry)).decode())


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


MOST_AT_ONCE = 4
"""Pieces of one stage's work that are under way together at most: the openers are a process for each core, or two."""


async def test_a_round_is_seen_from_its_first_submission_to_its_end(deployment: Deployment) -> None:
    started = time.perf_counter()
    async with contextlib.AsyncExitStack() as stack:
        name, _ = await stack.enter_async_context(analyzer_at(deployment))
        settings = deployment.settings(name).model_copy(update={"metrics_listen": "127.0.0.1:0"})
        addresses = await stack.enter_async_context(running(settings))
        devices = TLS(deployment.tls["shuffler"].authority)
        caller = SubmissionCaller(await stack.enter_async_context(channel(addresses["submission"], devices)))
        destination, submissions = await seal(caller, deployment.task, 30)
        await caller.submit_batch(destination, submissions, CALL_SECONDS)
        await caller.submit_batch(destination, submissions[:5], CALL_SECONDS)
        await caller.submit_batch(destination, [Submission(os.urandom(16), b"short")], CALL_SECONDS)
        before = await scrape(addresses["metrics"])
        control = await stack.enter_async_context(channel(addresses["control"], deployment.tls["operator"]))
        await ControlCaller(control).close_round(deployment.task.id, 0, CALL_SECONDS)
        while (after := await scrape(addresses["metrics"])).value(TIMINGS, stage="erase") == 0:
            await pause()
    assert before.value(SUBMISSIONS, result="accepted") == 30
    assert before.value(SUBMISSIONS, result="retried") == 5
    assert before.total(SUBMISSIONS, result="refused", task="flights") == 1
    assert before.value(SUBMISSIONS, reason="wrong_size") == 1
    assert before.value("hubbub_shuffler_rounds", state="open") == 1
    assert after.value("hubbub_shuffler_rounds", state="finished") == 1
    assert before.total("hubbub_shuffler_queue_depth") == 0
    assert before.value("hubbub_shuffler_epsilon_spent") == 0
    assert [after.value(TIMINGS, stage=stage) for stage in ("mix", "release", "erase")] == [1, 1, 1]
    assert after.value(TIMINGS, stage="admit") == 3
    assert after.value(TIMINGS, stage="open") >= 1
    assert after.value(TIMINGS, stage="store") >= 2
    # Each stage's work was a part of the time that passed: calls of one client, one after the other.
    passed = time.perf_counter() - started
    for stage in ("admit", "open", "store", "mix", "release", "erase"):
        assert 0 < after.took("shuffler", stage) < passed * MOST_AT_ONCE
    assert after.value("hubbub_shuffler_epsilon_spent") > 0
    assert after.matching("hubbub_shuffler_epsilon_budget") == []
    assert after.value(SUBMISSIONS, result="accepted") == 30


WINDOWS = 20
"""Persons who are looked at, until one leaves everything as it was."""


def differing(one: Any, other: Any) -> list[str]:
    """The lines of which one has what the other has not."""
    return sorted(set(str(one).splitlines()) ^ set(str(other).splitlines()))


async def test_nothing_that_is_shown_tells_that_one_person_submitted(
    deployment: Deployment, capfd: pytest.CaptureFixture[str]
) -> None:
    """All metrics, the status, what closing says and the log, before and after one person: no difference."""
    async with contextlib.AsyncExitStack() as stack:
        name, _ = await stack.enter_async_context(analyzer_at(deployment))
        log = LogSettings(level="debug")
        changes = {"metrics_listen": "127.0.0.1:0", "count_step": 100, "log": log}
        addresses = await stack.enter_async_context(running(deployment.settings(name).model_copy(update=changes)))
        devices = TLS(deployment.tls["shuffler"].authority)
        port = await stack.enter_async_context(channel(addresses["control"], deployment.tls["operator"]))
        control = ControlCaller(port)

        async def looked() -> tuple[Any, ...]:
            with pytest.raises(Refusal) as refused:
                await control.close_round(deployment.task.id, 0, CALL_SECONDS)
            rounds, condition = await control.get_status(None, CALL_SECONDS), await control.get_incidents(CALL_SECONDS)
            credentials = await control.manage_credentials(CredentialAction.STATUS, [], CALL_SECONDS)
            paths = ("/metrics", f"/metrics?name[]={SUBMISSIONS}&name[]=process_open_fds")
            scraped = [(await asyncio.to_thread(fetch, addresses["metrics"], path))[1] for path in paths]
            # How long certificates are still good for changes with the time alone.
            scraped = [re.sub(r"(remaining_seconds\{.*\}) .*", r"\1", text) for text in scraped]
            logs.flush()
            shown = (rounds, condition, credentials, str(refused.value), capfd.readouterr().err)
            return *scraped, *shown

        async def person(caller: SubmissionCaller, places: slice) -> None:
            destination, submissions = await seal(caller, deployment.task, places.stop)
            await caller.submit_batch(destination, submissions[places], CALL_SECONDS)
            await caller.submit_batch(destination, submissions[places], CALL_SECONDS)
            await caller.submit_batch(destination, [Submission(os.urandom(16), b"short")], CALL_SECONDS)

        # The first one opens a connection, starts a process and fills tables; nobody can tell it from a probe.
        caller = SubmissionCaller(await stack.enter_async_context(channel(addresses["submission"], devices)))
        await person(caller, slice(0, 1))
        await looked()
        looks = [await looked()]
        for _ in range(WINDOWS):
            await person(caller, slice(0, 1))
            looks.append(await looked())
            if looks[-1] == looks[-2]:
                break
    # What is rounded changes at a step, which any one of them may be beside; and on a machine that others use, the room
    # on its disk and the process's memory change by themselves. A person who showed would show each time.
    differences = [
        [differing(one, other) for one, other in zip(before, after, strict=True) if one != other]
        for before, after in itertools.pairwise(looks)
    ]
    assert [] in differences, differences
    assert (looks[-1][2][0].submissions, looks[-1][2][0].refusals) == (0, {})


async def test_counts_are_exact_from_the_cut_on_and_what_comes_later_is_not(tmp_path: Path) -> None:
    world = World(tmp_path, BY_OPERATOR)
    await world.start()
    control = Control(world.tasks, world.store, world.rounds, world.clock, world.enrollment, CountRounding(100))

    async def status() -> RoundStatus:
        return (await control.get_status(None))[0]

    submissions = await world.fill()
    destination = await world.destination()
    world.admission.refused(destination, Reason.WRONG_SIZE, 130)
    before = await status()
    assert (before.submissions, before.refusals) == (0, {"wrong_size": 100})
    assert before.waiting_for.endswith("; its minimum is reached")
    await control.close_round(world.task.id, 0)
    await world.over()
    world.admission.refused(destination, Reason.WRONG_SIZE, 99)
    after = await status()
    assert (after.submissions, after.refusals) == (len(submissions), {"wrong_size": 130})
    world.admission.refused(destination, Reason.WRONG_SIZE, 1)
    assert (await status()).refusals == {"wrong_size": 230}
    await world.stop()


async def test_nobody_makes_labels_from_outside_and_nothing_of_a_submission_is_shown(world: World) -> None:
    submissions = await world.fill()
    destination = await world.destination()
    names = {(sample.name, *sorted(sample.labels.items())) for sample in (await shown(world)).samples()}
    for number in range(20):
        unknown = replace(destination, task_id=os.urandom(32), round=number)
        await world.admission.submit(unknown, submissions[:1])
        await world.admission.submit(replace(destination, round=1000 + number), submissions[:1])
        world.admission.refused(unknown, Reason.MALFORMED, 1)
    scraped = await shown(world)
    assert {(sample.name, *sorted(sample.labels.items())) for sample in scraped.samples()} == names
    assert scraped.value(SUBMISSIONS, task="(unknown)", reason="unknown_task") == 20
    assert scraped.value(SUBMISSIONS, task="(unknown)", reason="malformed") == 20
    assert scraped.value(SUBMISSIONS, task="flights", reason="unknown_round") == 20
    for submission in submissions:
        assert submission.id.hex() not in scraped.text


async def test_a_round_that_the_analyzer_does_not_take_is_seen_to_age(world: World) -> None:
    await world.fill()
    world.analyzer.incident = unreachable("begin")
    await world.cut()
    await world.over(RoundState.MIXED)
    await world.until(lambda: "begin" in world.analyzer.calls)
    world.clock.now += 500
    scraped = await shown(world)
    assert scraped.value("hubbub_shuffler_rounds_with_incidents") == 1
    assert scraped.value("hubbub_shuffler_rounds", state="mixed") == 1
    assert scraped.value("hubbub_shuffler_round_age_seconds", state="mixed") == 500
    world.analyzer.incident = lambda _call: None
    await world.over()
    scraped = await shown(world)
    assert scraped.value("hubbub_shuffler_rounds_with_incidents") == 0
    assert scraped.total("hubbub_shuffler_round_age_seconds") == 0


def test_each_reason_that_admission_may_give_is_shown_from_the_start() -> None:
    admission = Path(checks.__file__).parents[1]
    given = {
        Reason[node.attr]
        for path in (*admission.glob("checks/*.py"), admission / "admission.py", admission / "openers.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason"
    }
    assert Reason.REVOKED in given
    assert given <= set(REFUSED)


async def test_counts_go_on_after_a_restart(world: World) -> None:
    submissions = await world.fill()
    await world.send(submissions[:3])
    before = await shown(world)
    await world.stop()
    await world.start()
    after = await shown(world)
    for result in ("accepted", "retried", "refused"):
        assert after.total(SUBMISSIONS, result=result) == before.total(SUBMISSIONS, result=result)
    assert after.value(SUBMISSIONS, result="accepted") == len(submissions)


async def test_a_metrics_port_in_use_stops_the_start(deployment: Deployment) -> None:
    async with running(deployment.settings("127.0.0.1:1")) as addresses:
        assert "metrics" not in addresses
        taken = addresses["submission"]
        settings = deployment.settings("127.0.0.1:1")
        changes = {"metrics_listen": taken, "data": ShufflerSqliteStore.create(deployment.folder / "other").parent}
        with pytest.raises(HubbubError, match=f"cannot listen on {taken} for metrics"):
            async with running(settings.model_copy(update=changes)):
                pass


async def test_the_port_goes_with_the_service(deployment: Deployment) -> None:
    settings = deployment.settings("127.0.0.1:1").model_copy(update={"metrics_listen": "127.0.0.1:0"})
    async with running(settings) as addresses:
        assert (await scrape(addresses["metrics"])).value("hubbub_shuffler_build_info") == 1
    with pytest.raises(OSError, match="refused"):
        await scrape(addresses["metrics"])
