"""If a demo fails, the first cause is what is shown."""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console
from rich.progress import Progress

from hubbub.deploy.demo import demo as playing
from hubbub.deploy.demo.coordinator import SubmissionCounts, close_round, naming_folder
from hubbub.deploy.demo.worker import DemoAssignment
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.planning.simulate.dataset import from_file
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import RoundStatus
from hubbub.protos.refusals import Reason, Refusal


def write_to_a_full_disk() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"answers")


def test_a_full_disk_is_named_with_the_folder_and_the_remedy(tmp_path: Path) -> None:
    says = f"^cannot write to {tmp_path}: No space left on device; make room there, or set TMPDIR "
    with pytest.raises(HubbubError, match=says), naming_folder(tmp_path):
        write_to_a_full_disk()


def test_an_error_that_names_its_file_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), naming_folder(tmp_path):
        (tmp_path / "none" / "file").open("wb")


class Under:
    """A pipeline whose round is under its minimum."""

    async def close_round(self, number: int) -> RoundStatus:
        raise Refusal(Reason.BELOW_MINIMUM, f"round {number} has fewer submissions than the minimum of 9")


async def test_a_round_that_cannot_be_closed_says_first_why_devices_were_refused() -> None:
    refused = Counter({"too_late": 2, "overloaded": 7})
    counts = SubmissionCounts(1, refused, {"too_late": "the round is over", "overloaded": "the disk has no room"})
    says = (
        "^7 submissions were refused: the disk has no room. 1 were accepted, so round 3 has fewer submissions than the "
        "minimum of 9$"
    )
    with pytest.raises(HubbubError, match=says):
        await close_round(cast(LocalPipeline, Under()), 3, counts)


async def test_a_round_that_nobody_was_refused_in_is_refused_as_it_is() -> None:
    with pytest.raises(Refusal, match=r"^round 3 has fewer"):
        await close_round(cast(LocalPipeline, Under()), 3, SubmissionCounts())


def test_logs_that_cannot_be_kept_never_take_the_place_of_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(LocalPipeline):
        async def __aenter__(self) -> LocalPipeline:
            self.directory = tmp_path / "pipeline"
            self.logs.mkdir(parents=True)
            (self.logs / "shuffler.log").write_text("it started")
            raise HubbubError("the first error")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(playing, "LocalPipeline", Failing)
    monkeypatch.setattr(shutil, "copyfile", full)
    console = Console(file=io.StringIO())
    (tmp_path / "data.csv").write_text("theme\n" + "light\ndark\n" * 20)
    dataset = from_file(tmp_path / "data.csv", ["theme"], [])
    with pytest.raises(HubbubError, match=r"^the first error\ntidying up failed too: .*: No space left"):
        asyncio.run(playing.run(dataset, playing.DemoOptions(), tmp_path / "out", console, Progress))
    # What ran beside the start has ended too, instead of a traceback of its own.
    gc.collect()
    assert caplog.text == ""


def test_a_worker_says_why_it_fails_though_its_log_cannot_be_written(tmp_path: Path) -> None:
    names = dict.fromkeys(("task", "operator_key", "shuffler_key", "shuffler", "authority", "state"), "")
    assignment = DemoAssignment(
        **names, answers=str(tmp_path / "none"), tickets="", certificates="", first=0, last=1, round=0
    )
    with Path("/dev/full").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "hubbub.deploy.demo.worker"],
            input=assignment.encode(),
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
        )
    assert str(tmp_path / "none") in json.loads(done.stdout)["failed"]
