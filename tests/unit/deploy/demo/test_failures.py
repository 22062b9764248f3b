"""If a demo fails, the first cause is what is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from hubbub.deploy.demo.coordinator import SubmissionCounts, close_round, naming_folder
from hubbub.deploy.demo.worker import DemoAssignment
from hubbub.deploy.local.pipeline import LocalPipeline
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
