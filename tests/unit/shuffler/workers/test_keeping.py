"""Whatever a worker does, it is ended, told or started again.

Programs stand in for workers here, each of which does one thing wrong.
"""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from unit.shuffler.test_server import Deployment

from hubbub.protos.enrollment.admitted import VERSION_BYTES, Admitted
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.transport.ports import Ports
from hubbub.shuffler.workers import supervisor
from hubbub.shuffler.workers.handshake import Served
from hubbub.shuffler.workers.ipc import Frame
from hubbub.shuffler.workers.metrics import MergedMetrics
from hubbub.shuffler.workers.store_server import StoreServer
from hubbub.shuffler.workers.supervisor import WorkerSupervisor
from support.patience import CALL_SECONDS

BEGIN = """
import json, os, socket, struct, sys
from pathlib import Path

HEAD = struct.Struct(">IBI")
line = socket.socket(fileno=0)

def exactly(count):
    return line.recv(count, socket.MSG_WAITALL) if count else b""

def send(kind, number, document):
    payload = json.dumps(document).encode()
    line.sendall(HEAD.pack(len(payload), kind, number) + payload)

def told():
    length, kind, number = HEAD.unpack(exactly(HEAD.size))
    return kind, number, exactly(length)

ANSWER, FAILED, COUNT, SERVING, REPORT, ADMITTED, STOP = 0, 1, 5, 7, 8, 9, 11
exactly(int.from_bytes(exactly(4), "big"))
lives = Path(sys.argv[1])
lives.write_text(lives.read_text() + "x" if lives.exists() else "x")
life = len(lives.read_text())
"""

ADMITTED = Admitted(bytes(VERSION_BYTES))


class Heard(StoreServer):
    """A desk that notes what is asked of it."""

    def __init__(self) -> None:
        self.heard: list[Frame] = []

    async def answer(self, frame: Frame, payload: bytes) -> bytes:  # noqa: ARG002 - what was asked is enough
        self.heard.append(frame)
        return b""


class Stage:
    """One worker that is a program of a test's own."""

    def __init__(self, folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
        path = folder / "program.py"
        path.write_text(BEGIN + textwrap.dedent(program))
        command = (sys.executable, "-I", str(path), str(folder / "lives"))
        monkeypatch.setattr(supervisor.subprocesses, "command", lambda _module: command)
        monkeypatch.setattr(supervisor, "AGAIN_SECONDS", 0.0)
        self.store_server, self.incidents = Heard(), Incidents()
        settings = Deployment(folder / "shuffler").settings("127.0.0.1:1").model_copy(update={"workers": 1})
        self.workers = WorkerSupervisor(
            settings, Served(bytes(32), bytes(32), {}), self.store_server, self.incidents, MergedMetrics()
        )

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[WorkerSupervisor]:
        await self.workers.start(Ports())
        try:
            yield self.workers
        finally:
            await self.workers.stop()

    @property
    def pid(self) -> int | None:
        (one,) = self.workers._all
        return one._process.pid if one._process is not None else None


Staged = Callable[[str], Stage]


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staged:
    return lambda program: Stage(tmp_path, program, monkeypatch)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what a process does, in turns of the loop."""
    async with asyncio.timeout(CALL_SECONDS):
        while not holds():
            await one_turn()


async def one_turn() -> None:
    await asyncio.sleep(0.01)


async def test_one_that_cannot_take_who_is_admitted_does_not_go_on(staged: Staged) -> None:
    stage = staged(
        """
        send(SERVING, 0, {})
        while True:
            kind, number, _ = told()
            if kind == STOP:
                break
            if number:
                send(FAILED if life == 1 else ANSWER, number, "it failed")
        """
    )
    async with stage.begun() as workers:
        before = stage.pid
        await workers.tell(ADMITTED)
        # Nothing that was so is used any more once the operator is answered.
        assert stage.pid != before
        await until(lambda: stage.pid is not None and not stage.incidents.now())
        after = stage.pid
        await workers.tell(ADMITTED)
        assert stage.pid == after


async def test_one_that_is_still_starting_has_longer_to_take_what_it_is_told(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(
        """
        if life == 1:
            send(SERVING, 0, {})
            told()
            sys.exit()
        kind, number, _ = told()
        send(ANSWER, number, {})
        send(SERVING, 0, {})
        while told()[0] != STOP:
            pass
        """
    )
    # As on a busy machine, where a worker loads its code for longer than one that serves may take.
    monkeypatch.setattr(supervisor, "TELL_SECONDS", 0.0)
    async with stage.begun() as workers:
        before = stage.pid
        await workers.tell(ADMITTED)
        await until(lambda: stage.pid not in {None, before} and workers._all[0]._channel is not None)
        after = stage.pid
        await workers.tell(ADMITTED)
        assert stage.pid == after
        await until(lambda: not stage.incidents.now())


async def test_one_that_cannot_serve_again_says_why(staged: Staged) -> None:
    stage = staged(
        """
        if life > 1:
            send(SERVING, 0, {"error": "the key is of another certificate"})
            sys.exit()
        send(SERVING, 0, {})
        told()
        """
    )
    async with stage.begun() as workers:
        await workers.tell(ADMITTED)
        await until(lambda: any("the key is of another certificate" in each.text for each in stage.incidents.now()))
        (incident,) = stage.incidents.now()
        assert incident.kind == IncidentKind.PORTS
        assert incident.text.startswith("worker 1 ended and is restarted: the key is of another certificate")


async def test_one_that_stands_still_is_ended_and_one_that_says_something_is_not(staged: Staged) -> None:
    stage = staged(
        """
        import signal
        send(SERVING, 0, {})
        if life == 1:
            signal.pause()
        while told()[0] != STOP:
            send(COUNT, 0, "a sign of life")
        """
    )
    async with stage.begun() as workers:
        before = stage.pid
        for _ in range(supervisor.SILENT_LOOKS):
            workers._tell_incidents(frozenset())
        await one_turn()
        assert stage.pid == before
        workers._tell_incidents(frozenset())
        await until(lambda: any("it sent nothing for 30 s" in each.text for each in stage.incidents.now()))
        await until(lambda: stage.pid not in {None, before} and not stage.incidents.now())
        after = stage.pid
        for number in range(1, 2 * supervisor.SILENT_LOOKS):
            workers._tell_incidents(frozenset())
            await until(lambda number=number: len(stage.store_server.heard) >= number)
        assert stage.pid == after


async def test_one_that_is_being_started_again_stops_as_all_do(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(
        """
        send(SERVING, 0, {})
        while told()[0] != STOP:
            if life == 1:
                sys.exit()
        send(COUNT, 0, "it was told to stop")
        """
    )
    write, stopped = supervisor.write_start, []

    async def stop_then(*given: object) -> None:
        await write(*given)  # type: ignore[arg-type]
        if (stage.workers._all) and stage.store_server.heard == [] and stage.incidents.now():
            stopped.append(asyncio.create_task(stage.workers.stop()))

    monkeypatch.setattr(supervisor, "write_start", stop_then)
    monkeypatch.setattr(supervisor, "STOP_SECONDS", CALL_SECONDS)
    async with stage.begun() as workers:
        await workers.tell(ADMITTED)
        await until(lambda: bool(stopped))
        await stopped[0]
        assert stage.store_server.heard == [Frame.COUNT]
