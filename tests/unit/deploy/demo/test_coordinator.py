"""The demo's workers are told nothing in their arguments, and the answers they play are their owner's alone to read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow import parquet

from hubbub.deploy.demo import coordinator
from hubbub.deploy.demo.worker import DemoAssignment
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


def mode(path: str) -> int:
    return S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize("fails", [False, True])
async def test_answers_are_their_owners_alone_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    modes = []

    async def play(assignment: DemoAssignment, *rest: Any) -> None:
        assert parquet.read_table(assignment.answers) == ROWS
        modes.extend(map(mode, (assignment.answers, assignment.tickets)))
        if fails:
            raise OSError("a worker that fails")

    monkeypatch.setattr(coordinator, "_run", play)
    dataset = cast(Dataset, SimpleNamespace(answers=ROWS, devices=2))
    playing = coordinator.submit_all(pipeline(tmp_path), dataset, 0, 2, print)
    if fails:
        with pytest.raises(OSError, match="a worker that fails"):
            await playing
    else:
        await playing
    assert modes
    assert set(modes) == {0o600}
    assert [path.name for path in content(tmp_path)] == ["tickets.jsonl"]


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
        await coordinator.submit_all(pipeline(tmp_path), dataset, 0, 1, print)
    assert [words[1:-1] for words in started] == [("-P", "-m", "hubbub.deploy.demo.worker")]
    (given,) = [words[-1] for words in started]
    assert given == subprocesses.environment()
