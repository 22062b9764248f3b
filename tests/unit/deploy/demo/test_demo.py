"""What a demo keeps is whole before anybody is told so; what fails later takes nothing from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from hubbub.cli.terminal.progress import progress_bars
from hubbub.deploy.demo import demo
from hubbub.deploy.demo.demo import DemoOptions, Looked, run
from hubbub.planning.simulate.dataset import Dataset


class Services:
    """A pipeline that starts at once, logs that it ran, and has no rounds."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "logs"
        self.task = SimpleNamespace(encode=lambda: b"task")
        self.folder = SimpleNamespace(trust_of=lambda _: self._trust)
        self._trust = folder / "keys"

    async def __aenter__(self) -> Services:
        for each in (self.logs, self._trust):
            each.mkdir(parents=True)
        (self.logs / "shuffler.log").write_text("ready")
        (self._trust / "operator.pub").write_text("key")
        return self

    async def __aexit__(self, *_: object) -> None:
        with (self.logs / "shuffler.log").open("a") as log:
            log.write(", ended")


class Workers:
    """Workers that play nobody."""

    def __init__(self, *_: object) -> None:
        pass

    async def stop(self) -> None:
        """End nothing."""


async def none(*_: object) -> dict[str, Any]:
    return {}


async def fails(*_: object) -> Any:
    raise BrokenPipeError("nobody reads what it says")


def demo_into(out: Path, monkeypatch: pytest.MonkeyPatch, round_: Any = none, looked: Looked | None = None) -> None:
    for name in ("plan", "draft_for", "noise_of", "looser_cap_of"):
        monkeypatch.setattr(demo, name, lambda *_: None)
    monkeypatch.setattr(demo, "_pipeline", lambda *given: Services(given[-2]))
    monkeypatch.setattr(demo, "DemoWorkers", Workers)
    monkeypatch.setattr(demo, "_document", lambda *_: {})
    monkeypatch.setattr(demo, "_round", round_)
    dataset = cast(Dataset, SimpleNamespace(devices=1, in_round=lambda _: None))
    asyncio.run(
        run(
            dataset,
            DemoOptions(),
            out,
            Console(quiet=True),
            lambda *columns, console: progress_bars(True, *columns, console=console),
            looked=looked,
        )
    )


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_is_kept_stays_if_nobody_can_look_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    async def looked(*_: object) -> None:
        kept.append(names(tmp_path / "kept"))
        await fails()

    with pytest.raises(BrokenPipeError):
        demo_into(tmp_path / "kept", monkeypatch, looked=looked)
    assert kept == [{"task.json", "trust/operator.pub"}]
    assert names(tmp_path / "kept") == {*kept[0], "logs/shuffler.log"}
    assert (tmp_path / "kept" / "logs" / "shuffler.log").read_text() == "ready, ended"


def test_a_demo_whose_round_fails_keeps_its_logs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokenPipeError):
        demo_into(tmp_path / "kept", monkeypatch, round_=fails)
    assert names(tmp_path / "kept") == {"logs/shuffler.log"}
