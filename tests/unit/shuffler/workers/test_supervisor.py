"""Devices reach each, one that ends is started again, none outlives the main process."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from unit.shuffler.test_server import Deployment, analyzer_at, channel, running, seal
from unit.shuffler.test_stopping import RUN, SETTINGS

from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.transport.channels import TLS
from hubbub.service.observability.incidents import IncidentKind
from hubbub.service.runtime import memory
from hubbub.service.settings import SettingsError
from hubbub.service.transport import health
from hubbub.shuffler.settings import ShufflerSettings, load
from support.ended_with_test import started_program
from support.messages import PORT_IN_USE
from support.metrics_scrape import scrape
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.thoroughness import usually

WORKERS = 2


def with_workers(settings: ShufflerSettings, **changes: object) -> ShufflerSettings:
    changed = {"workers": WORKERS, "metrics_listen": "127.0.0.1:0", "https_listen": "127.0.0.1:0", **changes}
    return settings.model_copy(update=changed)


def workers_of(pid: int) -> list[int]:
    """The processes of a shuffler that answer devices."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"workers.worker" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return sorted(found)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


@contextlib.asynccontextmanager
async def served(deployment: Deployment, **changes: object) -> AsyncIterator[dict[str, str]]:
    async with (
        analyzer_at(deployment) as (name, _),
        running(with_workers(deployment.settings(name), **changes)) as at,
    ):
        yield at


def devices(deployment: Deployment) -> TLS:
    return TLS(deployment.tls["shuffler"].authority)


async def test_devices_are_answered_by_all_of_them_and_everybody_counts_once(deployment: Deployment) -> None:
    async with served(deployment) as addresses:
        assert {"submission", "https", "control", "metrics"} == set(addresses)
        assert len(workers_of(os.getpid())) == WORKERS
        async with channel(addresses["submission"], devices(deployment)) as first:
            assert await health.is_serving(first, CALL_SECONDS)
            to, made = await seal(SubmissionCaller(first), deployment.task, 60)
        # A connection each: the system shares them out.
        for start in range(0, 60, 6):
            async with channel(addresses["submission"], devices(deployment)) as each:
                caller = SubmissionCaller(each)
                answers = await caller.submit_batch(to, made[start : start + 6], CALL_SECONDS)
                assert answers == [Receipt(submission.id, 0) for submission in made[start : start + 6]]
        async with channel(addresses["submission"], devices(deployment)) as again:
            # A retry is a retry whoever answers it, and other bytes under an id that is held are none.
            caller = SubmissionCaller(again)
            assert await caller.submit(to, made[0], CALL_SECONDS) == Receipt(made[0].id, 0)
            with pytest.raises(Refusal) as refused:
                await caller.submit(to, type(made[0])(made[0].id, made[1].envelope), CALL_SECONDS)
            assert refused.value.reason is Reason.ID_CONFLICT
        async with channel(addresses["control"], deployment.tls["operator"]) as operator:
            control = ControlCaller(operator)
            status = await control.close_round(deployment.task.id, 0, CALL_SECONDS)
        assert status.submissions == 60
        async with channel(addresses["submission"], devices(deployment)) as late:
            caller = SubmissionCaller(late)
            assert await caller.submit(to, made[0], CALL_SECONDS) == Receipt(made[0].id, 0)
        # Each tells once a second what it has done: ten calls with six submissions, and three with one.
        timed = "hubbub_shuffler_stage_duration_seconds_count"
        while (shown := await scrape(addresses["metrics"])).value(timed, stage="admit") < 13:
            assert len(workers_of(os.getpid())) == WORKERS
            await pause()
        accepted = {"task": deployment.task.name, "result": "accepted"}
        assert shown.value("hubbub_shuffler_submissions_total", **accepted) == 60
        assert shown.value("hubbub_shuffler_calls_in_work", port="https") == 0


async def test_one_that_is_killed_is_started_again_and_nothing_is_lost(deployment: Deployment) -> None:
    async with served(deployment) as addresses:
        async with channel(addresses["submission"], devices(deployment)) as first:
            to, made = await seal(SubmissionCaller(first), deployment.task, 20)
        before = workers_of(os.getpid())
        for number, submission in enumerate(made):
            if number % usually(10, 5) == 0:
                os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
            answer = None
            while answer is None:
                async with channel(addresses["submission"], devices(deployment)) as each:
                    with contextlib.suppress(Unreachable):
                        answer = await SubmissionCaller(each).submit(to, submission, CALL_SECONDS)
                await pause()
            assert answer == Receipt(submission.id, 0)
        async with channel(addresses["control"], deployment.tls["operator"]) as operator:
            (status,) = await ControlCaller(operator).get_status(None, CALL_SECONDS)
            assert status.submissions == 20
            # What ended is told until the next one serves.
            while (
                len(workers_of(os.getpid())) < WORKERS
                or (await ControlCaller(operator).get_incidents(CALL_SECONDS)).incidents
            ):
                await pause()
        assert not set(before) <= set(workers_of(os.getpid()))


async def test_files_that_changed_since_the_start_are_for_the_again(deployment: Deployment) -> None:
    async with asyncio.timeout(PATIENCE), served(deployment, workers=1) as addresses:
        async with channel(addresses["submission"], devices(deployment)) as first:
            to, made = await seal(SubmissionCaller(first), deployment.task, 1)
        (deployment.folder / "tasks" / "task.json").write_bytes(b"not whole ye")
        (deployment.folder / "operator.pub.pem").unlink()
        os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
        answer = None
        while answer is None:
            async with channel(addresses["submission"], devices(deployment)) as again:
                with contextlib.suppress(Unreachable):
                    answer = await SubmissionCaller(again).submit(to, made[0], CALL_SECONDS)
            await pause()
        assert answer == Receipt(made[0].id, 0)


async def test_they_take_nothing_while_who_keeps_the_rounds_holds_as_much_memory_as_it_may(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        served(deployment) as addresses,
        channel(addresses["submission"], devices(deployment)) as opened,
    ):
        caller = SubmissionCaller(opened)
        to, made = await seal(caller, deployment.task, 1)
        # That process is this one.
        monkeypatch.setattr(memory, "resident", lambda: 2**50)
        with pytest.raises(Refusal) as failed:
            await again_and_again(lambda: caller.submit(to, made[0], CALL_SECONDS))
        assert failed.value.reason is Reason.OVERLOADED
        monkeypatch.undo()
        answer = None
        while answer is None:
            with contextlib.suppress(Refusal):
                answer = await caller.submit(to, made[0], CALL_SECONDS)
            await pause()
        assert answer == Receipt(made[0].id, 0)


async def again_and_again(work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await work()
        await pause()


async def refused(deployment: Deployment, **changes: object) -> str:
    with pytest.raises(HubbubError) as failed:
        async with running(with_workers(deployment.settings("127.0.0.1:1"), **changes)):
            pass
    assert not workers_of(os.getpid())
    return str(failed.value)


async def test_a_port_that_is_taken_is_refused_by_name(deployment: Deployment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {address}" in await refused(deployment, listen=address)


async def test_a_port_of_workers_is_taken_for_everybody_else(deployment: Deployment) -> None:
    async with running(with_workers(deployment.settings("127.0.0.1:1"))) as addresses:
        assert PORT_IN_USE in await refused_beside(deployment, addresses["submission"])


async def refused_beside(deployment: Deployment, address: str) -> str:
    other = Deployment(deployment.folder / "other")
    with pytest.raises(HubbubError) as failed:
        async with running(with_workers(other.settings("127.0.0.1:1"), listen=address)):
            pass
    return str(failed.value)


async def test_one_that_cannot_start_says_why(deployment: Deployment) -> None:
    """As where the key is of another certificate: the main process shows none at the devices' ports."""
    own = deployment.settings("127.0.0.1:1").tls
    other = own.model_copy(update={"key": deployment.tls["reader"].key})
    assert "key" in await refused(deployment, tls=other)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    Deployment(tmp_path)
    (tmp_path / "shuffler.toml").write_text(f"workers = {WORKERS}\n{SETTINGS}")
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "shuffler.toml")]
    with started_program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"submission" in process.stdout.readline()
        yield process


def test_one_that_is_stopped_ends_with_who_is_killed_too(process: subprocess.Popen[bytes]) -> None:
    """It would keep the port, and whoever is started next would not have it."""
    pid = workers_of(process.pid)[0]
    os.kill(pid, signal.SIGSTOP)
    descriptor = os.pidfd_open(pid)
    process.kill()
    signal_of_end(descriptor)
    os.close(descriptor)


def test_a_signal_from_a_terminal_while_they_start_drains_all(tmp_path: Path) -> None:
    Deployment(tmp_path)
    (tmp_path / "shuffler.toml").write_text(f"workers = {WORKERS}\n{SETTINGS}")
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "shuffler.toml")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started_program(command, **pipes, start_new_session=True) as process:
        while not workers_of(process.pid):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"Traceback" not in errors


def test_lines_of_their_logs_that_are_lost_are_counted_and_told(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    metrics = f'workers = {WORKERS}\nmetrics_listen = "127.0.0.1:0"\n'
    (tmp_path / "shuffler.toml").write_text(metrics + SETTINGS)
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "shuffler.toml")]
    reads, writes = os.pipe()
    # Nobody can read what is logged.
    os.close(reads)
    with started_program(command, stdout=subprocess.PIPE, stderr=writes) as process:
        os.close(writes)
        assert process.stdout is not None
        addresses: dict[str, str] = ast.literal_eval(process.stdout.readline().decode())
        asyncio.run(lost_lines(deployment, addresses))


async def lost_lines(deployment: Deployment, addresses: dict[str, str]) -> None:
    async with channel(addresses["control"], deployment.tls["operator"]) as operator:
        incident_report = await ControlCaller(operator).get_incidents(CALL_SECONDS)
        while sum(each.text.startswith("lines of its log were lost: ") for each in incident_report.incidents) < WORKERS:
            await pause()
            incident_report = await ControlCaller(operator).get_incidents(CALL_SECONDS)
    assert {each.kind for each in incident_report.incidents} >= {IncidentKind.LOG.value}
    # Those of the main process, and a line and more of each.
    shown = await scrape(addresses["metrics"])
    assert shown.value("hubbub_shuffler_log_lines_lost_total") >= incident_report.log_lines_lost + WORKERS


def awaited(pids: list[int]) -> None:
    """Wait until these processes are gone; their pipes would end with them."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                signal_of_end(descriptor)
            finally:
                os.close(descriptor)


def signal_of_end(descriptor: int) -> None:
    end = select.poll()
    end.register(descriptor, select.POLLIN)
    assert end.poll(1000 * CALL_SECONDS)


@pytest.mark.sampled("15")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_they_drain_with_who_keeps_the_rounds(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    pids = workers_of(process.pid)
    assert len(pids) == WORKERS
    for pid in pids:  # a signal to the group, or to all of a unit, is for the main process
        os.kill(pid, number)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert errors.count(b"draining") == 1 + WORKERS
    assert b"Traceback" not in errors
    awaited(pids)


def test_they_end_at_once_with_who_is_killed(process: subprocess.Popen[bytes]) -> None:
    pids = workers_of(process.pid)
    descriptors = [os.pidfd_open(pid) for pid in pids]
    process.kill()
    for descriptor in descriptors:
        signal_of_end(descriptor)
        os.close(descriptor)


def test_settings_that_leave_devices_to_frontends_have_no_workers(tmp_path: Path) -> None:
    settings = f'workers = 2\nrole = "leader"\nstore = "postgresql://h/d"\n{SETTINGS}'
    (tmp_path / "shuffler.toml").write_text(settings)
    with pytest.raises(SettingsError, match="remove one"):
        load(tmp_path / "shuffler.toml")
