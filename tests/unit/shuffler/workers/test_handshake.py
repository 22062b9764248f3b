"""What a worker starts with arrives as it was, whatever the files of its tasks hold by then."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from unit.protos.identity.test_successions import FIRST, NEXT, PARTIES, SECOND
from unit.shuffler.test_server import Deployment

from hubbub.protos.errors import HubbubError
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.workers import handshake
from hubbub.shuffler.workers.handshake import Served, Start, read_start, write_start
from support.samples import changed, sample_task, signed
from support.source_tree import ROOT

SIGNED = ROOT / "tests" / "vectors" / "signed"
MANY = 300
"""Tasks that are more together than a socket takes at once."""


@pytest.fixture
def settings(tmp_path: Path) -> ShufflerSettings:
    return Deployment(tmp_path).settings("127.0.0.1:1")


async def sent(start: Start) -> Start:
    here, there = socket.socketpair()
    here.setblocking(False)
    with here, there:
        read = asyncio.create_task(asyncio.to_thread(read_start, there))
        await write_start(here, start)
        return await read


def served(*tasks: Task) -> Served:
    return Served(PARTIES.operator.public, SECOND.public, {task.id: task for task in tasks})


async def test_what_is_served_arrives_with_the_successions_of_each_task(settings: ShufflerSettings) -> None:
    task = sample_task(PARTIES)
    # As it is checked where the later identity is the shuffler's own.
    succeeded = signed(task, PARTIES).check(PARTIES.operator.public, SECOND.public, [FIRST, NEXT])
    assert succeeded.lineage is not None
    stated = changed(sample_task(PARTIES, name="kiosks"), admission=ENROLLED)
    start = Start(settings, replace(served(succeeded, stated), successions=(FIRST, NEXT)), 3)
    assert await sent(start) == start


async def test_a_task_arrives_under_its_id(settings: ShufflerSettings) -> None:
    task = SignedTask.decode((SIGNED / "hubbub-task-1.json").read_bytes()).task
    assert (await sent(Start(settings, served(task), 1))).served.tasks == {task.id: task}


async def test_the_round_that_ends_a_task_arrives(settings: ShufflerSettings) -> None:
    task = sample_task(PARTIES)
    arrived = await sent(Start(settings, served(replace(task, ends_after=1)), 1))
    assert arrived.served.tasks[task.id].last_round == 1


async def test_many_tasks_arrive_without_the_event_loop_waiting_for_who_reads(settings: ShufflerSettings) -> None:
    task = sample_task(PARTIES)
    start = Start(settings, served(*(replace(task, name=f"task-{number}") for number in range(MANY))), 1)
    here, there = socket.socketpair()
    here.setblocking(False)
    with here, there:
        writing = asyncio.create_task(write_start(here, start))
        # Nobody reads yet, and all else goes on.
        assert not (await asyncio.wait([writing], timeout=0.01))[0]
        assert await asyncio.to_thread(read_start, there) == start
        await writing


async def test_a_worker_of_another_version_says_what_to_do(
    settings: ShufflerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = socket.socketpair()
    here.setblocking(False)
    with here, there:
        await write_start(here, Start(settings, served(sample_task(PARTIES)), 1))
        monkeypatch.setattr(handshake, "__version__", "99.0")
        with pytest.raises(HubbubError, match=r"hubbub 99\.0 is installed, but the running shuffler is .*restart"):
            read_start(there)
