"""Every write and sync is traced, and after a power cut at any of them all is there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from simulation import disk
from simulation.world import MINIMUM

from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.client.errors import NoRound
from hubbub.client.state.rounds import DONE, RoundRef
from hubbub.client.state.store import State
from hubbub.protos.messages import RoundState
from hubbub.protos.records.batch import BatchId
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.errors import StoreError
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore, tables
from support.krr_queries import INNER_BYTES
from support.patience import PATIENCE
from support.store_contents import store_in

TESTS = Path(__file__).parents[1]
Marks = list[dict[str, Any]]
Image = dict[str, bytes]
Trace = tuple[list[disk.Event], bytes]
"""Everything that was done, and the task's file."""

MEMORY = Path("/dev/shm")  # noqa: S108 - nothing here has to outlive the test


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("library"))


def trace(library: Path, folder: Path, before: str = "") -> Trace:
    """Run the simulated pipeline under the tracer, after some other code; return all events, and the task."""
    data, log = folder / "data", folder / "log"
    data.mkdir()
    program = f"{before}\nfrom pathlib import Path\nfrom simulation import traced\ntraced.main(Path({str(data)!r}))"
    environment = {
        **disk.environment(library, data, log),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=PATIENCE)
    return list(disk.events(log)), (data / "task.json").read_bytes()


@pytest.fixture(scope="module")
def traced(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return trace(library, tmp_path_factory.mktemp("traced"))


def cuts(events: list[disk.Event], folder: str, random: Random | None = None) -> Iterator[tuple[Image, Marks]]:
    """What is in a folder after a power cut at each moment at which that may make a difference, and what was promised.

    Without `random` nothing is there that was not synced; with it, any part of that is.
    """
    platter, marks = disk.Platter(), []
    for event in events:
        platter.take(event)
        if event.path == "marks" and event.kind == "W":
            marks.append(json.loads(event.data))
        elif not event.path.startswith(folder) or (event.kind == "S") is (random is not None):
            continue
        if random is None or random.random() < 0.2:
            yield platter.after_power_cut(folder, random), marks


@contextlib.contextmanager
def restored(folder: Path, image: Image) -> Iterator[Path]:
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def check_shuffler(folder: Path, task: bytes, marks: Marks) -> None:
    task_id = SignedTask.decode(task).task.id
    with contextlib.closing(store_in(ShufflerSqliteStore, folder)) as store:
        asyncio.run(_check_acknowledged(store, task_id, marks))


async def _check_acknowledged(store: ShufflerSqliteStore, task_id: bytes, marks: Marks) -> None:
    for mark in (mark for mark in marks if mark["name"] == "acknowledged" and mark["ids"]):
        round_ = await store.find(task_id, mark["round"])
        assert round_ is not None
        if round_.state in (RoundState.RELEASED, RoundState.ERASED):
            # It may be erased now: the analyzer has said that it counted every query.
            committed = [each for each in marks if (each["name"], each["round"]) == ("committed", mark["round"])]
            assert {each["query"] for each in committed} == {0, 1}
            continue
        if round_.state is not RoundState.OPEN and round_.submissions < MINIMUM:
            continue
        assert None not in await store.known(round_, [bytes.fromhex(each) for each in mark["ids"]])
        assert _held(store, round_) == await store.submissions(round_)


def _held(store: ShufflerSqliteStore, round_: Any) -> int:
    """How many submissions' envelopes are there, as they came or permuted."""
    connection = store._database.writer
    if round_.state in (RoundState.OPEN, RoundState.CUT):
        query = "SELECT coalesce(sum(length(inners)), 0) FROM arrived WHERE key >> 32 = ?"
        return int(connection.execute(query, (round_.key,)).fetchone()[0]) // (2 * INNER_BYTES)
    return len(tables.envelopes(connection, round_, 0, 0, INNER_BYTES))


def check_analyzer(folder: Path, task: bytes, marks: Marks) -> None:
    task_id = SignedTask.decode(task).task.id
    with contextlib.closing(store_in(AnalyzerStore, folder)) as store:
        asyncio.run(_check_answered(store, task_id, marks))


async def _check_answered(store: AnalyzerStore, task_id: bytes, marks: Marks) -> None:
    for mark in marks:
        if mark["name"] == "key":
            key = await store.key(task_id, mark["round"])
            assert key is not None
            assert key.record.body.hex() == mark["record"]
        if mark["name"] in ("put", "committed"):
            stored = await store.batch(BatchId(task_id, mark["round"], mark["query"]))
            assert stored is not None
            assert stored.next_offset >= mark.get("offset", 0)
            assert mark["name"] == "put" or stored.committed is not None
            assert mark["name"] == "put" or stored.committed.counted == mark["counted"]


def check_device(folder: Path, task: bytes, marks: Marks) -> None:
    task_id, name = SignedTask.decode(task).task.id, "device 2"
    state = State(folder / "state.db")
    for mark in (mark for mark in marks if mark["name"] == "sent" and mark["by"] == name):
        of = RoundRef(task_id, mark["round"])
        try:
            state.key_set(of)
        except NoRound:
            continue  # the round is over, and forgotten on purpose
        (entry,) = state.find(of, [""]).values()
        assert [entry.submission_id.hex()] == mark["ids"]
        assert entry.outcome == DONE or entry.submission is not None
    for mark in (mark for mark in marks if mark["name"] == "kept" and mark["by"] == name):
        with contextlib.suppress(NoRound):  # as above
            state.key_set(RoundRef(task_id, mark["round"]))
            (entry,) = state.find(RoundRef(task_id, mark["round"]), [""]).values()
            assert entry.submission_id.hex() == mark["id"]
            assert entry.outcome == DONE or entry.reports is not None or entry.submission is not None
    state.close()


PARTIES = [
    ("shuffler/0", check_shuffler, 60),
    ("analyzer/0", check_analyzer, 60),
    ("device2/0", check_device, 4),
]


IDS = ["shuffler", "analyzer", "device"]

CARELESS = """
from simulation import devices, parties

careful = parties.watched

def watched(life):
    class Careless(careful(life)):
        def execute(self, sql, *values):
            return super().execute(sql.replace("synchronous = FULL", "synchronous = NORMAL"), *values)

        def executescript(self, script):
            return super().executescript(script.replace("synchronous = FULL", "synchronous = NORMAL"))

    return Careless

parties.watched = devices.watched = watched
"""
"""What a store does that syncs its log when it is checkpointed, and not at every commit."""


def checked(events: list[disk.Event], task: bytes, folder: str, check: Any, random: Random | None = None) -> int:
    """Check a folder after every power cut; return how many there were."""
    times = 0
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        for image, marks in cuts(events, folder, random):
            if image:
                with restored(Path(place) / "image", image) as here:
                    check(here, task, marks)
                times += 1
    return times


@pytest.mark.parametrize(("folder", "check", "least"), PARTIES, ids=IDS)
def test_after_a_power_cut_at_any_sync_everything_promised_is_there(
    traced: Trace, folder: str, check: Any, least: int
) -> None:
    assert checked(*traced, folder, check) >= least


@pytest.mark.parametrize(("folder", "check", "least"), PARTIES, ids=IDS)
def test_whatever_part_of_the_unsynced_a_power_cut_leaves_everything_promised_is_there(
    traced: Trace, folder: str, check: Any, least: int
) -> None:
    assert checked(*traced, folder, check, Random(1)) >= least


@pytest.fixture(scope="module")
def careless(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return trace(library, tmp_path_factory.mktemp("careless"), CARELESS)


@pytest.mark.parametrize(("folder", "check", "least"), PARTIES, ids=IDS)
def test_a_power_cut_finds_out_a_store_that_does_not_sync_its_commits(
    careless: Trace, folder: str, check: Any, least: int
) -> None:
    # The store misses what is gone from its log by itself; so it does not open.
    with pytest.raises((AssertionError, ValueError, StoreError)):
        checked(*careless, folder, check)
