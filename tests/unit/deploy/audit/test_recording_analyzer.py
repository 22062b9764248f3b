"""The witness writes down what is opened, whole batches, in their order, and changes nothing of it."""

from __future__ import annotations

from pathlib import Path

from hubbub.deploy.audit.recording_analyzer import RecordingPool, read_observations
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.service.processes.opening_pool import OpeningJob, OpeningPool

DESTINATION = Destination(b"t" * 32, 0, b"k" * 32)


def test_what_is_opened_is_written_down_in_its_order(tmp_path: Path) -> None:
    (private, public), reports = DEFAULT.generate_key(), [bytes([number] * 4) for number in range(5)]
    sealer = Sealer(DESTINATION, DEFAULT.generate_key()[1], public)
    sealed = [sealer.inner(report, 1) for report in reports]
    job = OpeningJob(DESTINATION, private, 1, len(sealed[0]))
    bad = bytes(len(sealed[0]))
    opening_pool = RecordingPool(tmp_path / "seen", 1)
    parts = [sealed[0] + sealed[1], bad + sealed[2], sealed[3] + sealed[4]]
    opened = list(opening_pool.open(job, parts, 6))
    assert opened == list(OpeningPool(1).open(job, parts, 6))
    assert read_observations(tmp_path / "seen") == {(DESTINATION.task_id.hex(), 1): b"".join(reports)}


def test_nothing_opened_is_nothing_seen(tmp_path: Path) -> None:
    assert read_observations(tmp_path / "seen") == {}
