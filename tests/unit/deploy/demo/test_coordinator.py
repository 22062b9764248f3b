"""The demo's workers are told nothing in their arguments, and the answers they play are their owner's alone to read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_IMODE
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pyarrow as pa
import pytest
from pyarrow import parquet

from hubbub.deploy.demo import coordinator
from hubbub.deploy.demo.worker import DemoAssignment
from hubbub.deploy.local.client_process import ClientProcess
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.planning.simulate.dataset import Dataset
from hubbub.protos.task.admission import Mode
from hubbub.service.processes import subprocesses

ROWS = pa.table({"theme": ["planted-answer-heliotrope", "planted-answer-vermilion"]})


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def pipeline(folder: Path) -> LocalPipeline:
    parties = SimpleNamespace(of=lambda _: folder)
    keys = {"operator_key": b"", "shuffler_key": b"", "shuffler": "localhost:1", "authority": folder}
    own = {"directory": folder, "logs": folder, "tickets": lambda count: [b"planted-ticket"] * count}
    own |= {"issuer": None, "mode": Mode.ENROLLED}
    return cast(LocalPipeline, SimpleNamespace(folder=parties, **own, **keys))


def content(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def lines_in(path: str) -> int:
    return len(Path(path).read_bytes().splitlines())


def mode(path: str) -> int:
    return S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize("fails", [False, True])
async def test_answers_are_their_owners_alone_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    modes = []

    async def play(_worker: ClientProcess, make: Callable[[], DemoAssignment], *rest: Any) -> None:
        assignment = make()
        assert parquet.read_table(assignment.answers) == ROWS
        modes.extend(map(mode, (assignment.answers, assignment.tickets)))
        if fails:
            raise OSError("a worker that fails")

    monkeypatch.setattr(coordinator, "_run", play)
    dataset = cast(Dataset, SimpleNamespace(answers=ROWS, devices=2))
    playing = coordinator.DemoWorkers(pipeline(tmp_path), 2, 2).submit_all(dataset, 0, print)
    if fails:
        with pytest.raises(OSError, match="a worker that fails"):
            await playing
    else:
        await playing
    assert modes
    assert set(modes) == {0o600}
    assert [path.name for path in content(tmp_path)] == ["tickets-0.jsonl"]


class Kept:
    """A worker that notes what it is told, and accepts all devices."""

    made: ClassVar[list[Kept]] = []

    def __init__(self, module: str, log: Path) -> None:
        assert (module, log.name) == ("hubbub.deploy.demo.worker", f"worker-{len(self.made)}.log")
        self.told: list[DemoAssignment] = []
        self.made.append(self)

    async def start(self) -> None:
        """It is there."""

    def write(self, line: bytes) -> None:
        self.told.append(DemoAssignment(**json.loads(line)))

    async def read(self) -> dict[str, Any]:
        return {"accepted": self.told[-1].last - self.told[-1].first, "refused": {}, "messages": {}}


async def test_devices_are_shared_by_as_many_workers_as_pay_which_stay_for_all_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "ClientProcess", Kept)
    monkeypatch.setattr(Kept, "made", [])
    dataset = cast(Dataset, SimpleNamespace(answers=ROWS, devices=2500))
    workers = coordinator.DemoWorkers(pipeline(tmp_path), 2500, 8)
    for number in (0, 1):
        assert (await workers.submit_all(dataset, number, print)).accepted == 2500
    shares = [[(each.round, each.first, each.last) for each in worker.told] for worker in Kept.made]
    parts = ((0, 833), (833, 1666), (1666, 2500))
    assert shares == [[(number, first, last) for number in (0, 1)] for first, last in parts]
    # Each worker has its devices' tickets for itself, the same in each round.
    files = [{each.tickets for each in worker.told} for worker in Kept.made]
    assert [lines_in(file) for (file,) in files] == [833, 833, 834]
    Kept.made.clear()
    coordinator.DemoWorkers(pipeline(tmp_path), 2500, 2)
    assert len(Kept.made) == 2


@pytest.mark.from_nothing
async def test_a_player_is_told_by_its_stdin_and_by_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Any, ...]] = []

    async def start(*words: Any, **options: Any) -> None:
        started.append((*words, options.get("env")))
        raise OSError("not started")

    monkeypatch.setattr("asyncio.create_subprocess_exec", start)
    dataset = cast(Dataset, SimpleNamespace(answers=ROWS, devices=2))
    with pytest.raises(OSError, match="not started"):
        await coordinator.DemoWorkers(pipeline(tmp_path), 2, 1).submit_all(dataset, 0, print)
    assert [words[1:-1] for words in started] == [("-P", "-m", "hubbub.deploy.demo.worker")]
    (given,) = [words[-1] for words in started]
    assert given == subprocesses.environment()
