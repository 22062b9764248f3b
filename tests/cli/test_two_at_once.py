"""Two commands that change one file at once: the second waits for the first, and nothing that either did is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub.deploy.files import changing, signed_task_in
from hubbub.deploy.init.folders import initialize
from hubbub.protos.identity.keys import Identity
from support.cli import Ran, hubbub, hubbub_here
from support.patience import PATIENCE

LOCKS = Path("/proc/locks")
"""Where the system says who waits for a file."""

pytestmark = pytest.mark.skipif(not LOCKS.exists(), reason="the system does not say who waits for a file")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment with a planned task, an entry that publishes it, and a ticket."""
    folder = tmp_path_factory.mktemp("made")
    initialize(folder / "deployment")
    operator = folder / "deployment/operator"
    for words in (
        ("plan", operator / "task.toml", "--out", operator / "task.json", "--no-compare"),
        ("identity", folder / "second.pem"),
        ("enroll", folder / "tickets", "--key", operator / "identity.pem", "--shuffler-key", _public(folder)),
    ):
        ran = hubbub_here(*words)
        assert ran.status == 0, ran.err
    return folder


def _public(folder: Path) -> Path:
    return folder / "deployment/operator/trust/shuffler.pub.pem"


@contextmanager
def waiting(folder: Path, *words: str | Path, within: Path | None = None) -> Iterator[Future[Ran]]:
    """Run a command while another one changes a file of the folder; the block begins once it waits, or has ended."""
    with ThreadPoolExecutor(1) as pool, changing(folder):
        running = pool.submit(hubbub, *words, folder=within)
        ended = threading.Event()
        running.add_done_callback(lambda _: ended.set())
        until = time.monotonic() + PATIENCE
        while not (_somebody_waits_for(folder) or ended.wait(0.01)):
            assert time.monotonic() < until
        yield running


def _somebody_waits_for(folder: Path) -> bool:
    inode = folder.stat().st_ino
    lines = (line.split() for line in LOCKS.read_text().splitlines())
    return any(words[1] == "->" and words[-3].endswith(f":{inode}") for words in lines)


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        (".", ("enroll", "tickets", "--countersign", "--key", "second.pem")),
        ("deployment/analyzer", ("keys", "add", "identity", "deployment/analyzer/analyzer.toml")),
        ("deployment/analyzer", ("keys", "remove", "identity", "deployment/analyzer/analyzer.toml")),
    ],
    ids=["enroll", "keys add", "keys remove"],
)
def test_a_command_that_changes_files_waits_for_another_one(made: Path, folder: str, words: tuple[str, ...]) -> None:
    with waiting(made / folder, *words, within=made) as running:
        assert not running.done(), running.result()
    assert running.result().status == 0, running.result()


def test_two_signatures_at_once_are_both_kept(made: Path) -> None:
    task, parties = made / "deployment/operator/task.json", made / "deployment"
    shuffler = Identity.load(parties / "shuffler/identity.pem")
    with waiting(task.parent, "sign", task, "--key", parties / "operator/identity.pem") as running:
        task.write_bytes(signed_task_in(task).signed_by(shuffler).encode())
    assert running.result().out.endswith("all have signed\n"), running.result()
    signed = signed_task_in(task)
    assert signed.operator_signature is not None
    assert signed.shuffler_signature is not None
