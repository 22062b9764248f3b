"""A file that a command writes is whole, or what it was before; and what cannot be written is named with a remedy."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hubbub.deploy.errors import NotWritten, OutputLost
from hubbub.deploy.files import changing, copy_files, draft_in, save, save_new, signed_task_in
from hubbub.deploy.init.folders import sample
from hubbub.deploy.operator.export import write_csv, write_parquet
from hubbub.protos.errors import TaskError, UsageError
from hubbub.protos.records.results import QueryResult, QueryState, RoundId, RoundResults
from hubbub.queries.randomizers.randomizer import Tally
from support.patience import PATIENCE
from support.samples import QUERIES, Parties, sample_task, signed


@pytest.fixture
def results() -> RoundResults:
    counted = QUERIES[0].estimates(Tally(np.array([5, 9, 2], dtype=np.int64), 16), 0)
    query = QueryResult("carrier", QueryState.PUBLISHED, 16, 16, {}, counted)
    return RoundResults(RoundId(bytes(32), "flights", 0), (query,), b'{"body":{}}')


def test_a_new_file_is_whole_and_never_written_over_another(tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    save_new(path, b"first")
    for there in (path, tmp_path):
        with pytest.raises(UsageError, match=f"{there} is there already; remove it, or name another file with --out"):
            save_new(there, b"second")
    assert path.read_bytes() == b"first"
    with pytest.raises(NotWritten, match="make its folder first"):
        save_new(tmp_path / "none" / "task.toml", b"")


def test_of_a_new_file_that_cannot_be_written_nothing_is_left(tmp_path: Path, full: None) -> None:
    with pytest.raises(NotWritten, match="free space"):
        save_new(tmp_path / "task.toml", b"content")
    assert [*tmp_path.iterdir()] == []


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that turns out to be full when what was written is to reach it."""

    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fails)


@pytest.mark.usefixtures("full")
def test_a_failure_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(b"before")
    with pytest.raises(NotWritten) as refused:
        save(path, b"after")
    assert str(refused.value) == (
        f"{path} cannot be written: No space left on device; free space, or name another file"
    )
    assert path.read_bytes() == b"before"
    with pytest.raises(NotWritten):
        save(tmp_path / "new", b"after")
    assert [each.name for each in tmp_path.iterdir()] == ["task.json"]


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_failure_leaves_earlier_estimates(
    write: Callable[[Path, RoundResults], None], results: RoundResults, tmp_path: Path
) -> None:
    path = tmp_path / "estimates"
    path.write_bytes(b"before")
    with pytest.raises(NotWritten, match="free space"):
        write(path, results)
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL], ids=["of another account", "unknown in a container"])
def test_a_file_whose_owner_cannot_be_kept_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "task.json").write_bytes(b"earlier")
    monkeypatch.setattr(os, "fchown", refused)
    save(tmp_path / "task.json", b"new")
    assert (tmp_path / "task.json").read_bytes() == b"new"


def test_a_new_file_has_the_mode_that_others_have_and_an_earlier_one_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    save(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "private").write_bytes(b"before")
    (tmp_path / "private").chmod(0o640)
    save(tmp_path / "private", b"x")
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o640
    assert (tmp_path / "private").read_bytes() == b"x"


def test_of_a_link_the_file_that_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("earlier", "new"):
        link = tmp_path / name
        link.symlink_to(Path("there") / name)
        if name == "earlier":
            link.write_bytes(b"before")
        save(link, b"x")
        assert link.is_symlink()
        assert (tmp_path / "there" / name).read_bytes() == b"x"
    assert sorted(each.name for each in (tmp_path / "there").iterdir()) == ["earlier", "new"]


def test_a_file_is_changed_where_no_folder_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_locks(_folder: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", has_no_locks)
    with changing(tmp_path / "task.json"):
        save(tmp_path / "task.json", b"signed")
    assert (tmp_path / "task.json").read_bytes() == b"signed"


def test_what_is_not_a_file_is_written_to_and_stays(results: RoundResults, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_parquet(pipe, results)
    reader.join()
    assert pipe.is_fifo()
    write_parquet(tmp_path / "file", results)
    assert found == [(tmp_path / "file").read_bytes()]


def test_a_pipe_whose_reader_has_left_is_lost_output(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def read_a_byte_and_leave() -> None:
        # Opening waits for the writer: a reader that came and left before it would leave the writer waiting for ever.
        reading = os.open(pipe, os.O_RDONLY)
        os.read(reading, 1)
        os.close(reading)

    reader = threading.Thread(target=read_a_byte_and_leave)
    reader.start()
    with pytest.raises(OutputLost) as lost:
        save(pipe, bytes(2**20))
    reader.join()
    assert lost.value.reader_left


def test_standard_output_by_its_name_is_written_before_what_is_printed(tmp_path: Path) -> None:
    script = "from pathlib import Path; from hubbub.deploy.files import save\n"
    script += "save(Path('/dev/stdout'), b'saved\\n'); print('printed')"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True, timeout=PATIENCE)
    assert (tmp_path / "out").read_bytes() == b"saved\nprinted\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("folder", "Is a directory; name a file, not a folder"),
        ("missing/file", "No such file or directory; make its folder first, or name another file"),
        ("file/file", "Not a directory; name a file in an existing folder"),
        ("n" * 300, "File name too long; name another file"),
    ],
)
def test_what_cannot_be_written_is_named_with_a_remedy(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(NotWritten) as refused:
        save(tmp_path / name, b"x")
    assert str(refused.value) == f"{tmp_path / name} cannot be written: {said}"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(b"before")
    opened = os.open

    def refused(name: Path, flags: int, mode: int = 0o777) -> int:
        if name == path and flags & os.O_WRONLY:
            raise PermissionError(
                errno.EACCES, os.strerror(errno.EACCES), str(name)
            )  # root itself may write everything
        return opened(name, flags, mode)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(NotWritten, match="Permission denied; name a file in a folder in which you may write"):
        save(path, b"x")
    assert path.read_bytes() == b"before"


def test_a_planned_task_or_data_in_the_place_of_a_draft_is_named(tmp_path: Path) -> None:
    task, data, parties = tmp_path / "task.json", tmp_path / "data.csv.gz", Parties.generate()
    task.write_bytes(signed(sample_task(parties), parties).encode())
    data.write_bytes(b"\x1f\x8b\xff")
    with pytest.raises(TaskError, match=rf"{task}: a planned task; give the task as written by hand, a .toml file"):
        draft_in(task)
    with pytest.raises(TaskError, match=rf"{data}: a file of data; give the task as written by hand"):
        draft_in(data)


def test_a_draft_of_an_editor_that_writes_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """Otherwise its first line would be wrong for a mark that nobody sees."""
    path, text = tmp_path / "task.toml", sample("task.toml").replace("@START@", "2026-01-01T00:00:00Z")
    path.write_text(text, encoding="utf-8")
    expected = draft_in(path)
    path.write_text(text, encoding="utf-8-sig")
    assert draft_in(path) == expected
    with pytest.raises(TaskError, match="a draft, not a planned task"):
        signed_task_in(path)


def test_a_draft_in_the_place_of_a_task_is_named(tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    path.write_text('name = "usage"\n')
    with pytest.raises(TaskError, match=rf"{path}: a draft, not a planned task; plan it with `hubbub plan DRAFT.toml"):
        signed_task_in(path)
    path.write_text("usage")
    with pytest.raises(TaskError, match="not a signed task"):
        signed_task_in(path)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("identity.pem", b"-----BEGIN PRIVATE KEY-----\nMC4C", "a private key"),
        ("store.db", b"SQLite format 3\0rest", "a store"),
        ("task.toml", b"[task]\n", "written by hand"),
    ],
)
def test_what_nobody_can_make_again_is_not_written_over(name: str, content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NotWritten, match=f"is {what}, and nothing is written over it; name another file"):
        save(path, b"new")
    assert path.read_bytes() == content


def test_logs_that_cannot_be_kept_are_a_sentence_on_the_first(tmp_path: Path) -> None:
    (logs := tmp_path / "logs").mkdir()
    for name in ("analyzer.log", "shuffler.log"):
        (logs / name).write_text(name)
    copy_files(logs, tmp_path / "kept")
    assert (tmp_path / "kept" / "shuffler.log").read_text() == "shuffler.log"
    (taken := tmp_path / "taken").touch()
    with pytest.raises(NotWritten) as refused:
        copy_files(logs, taken)
    assert str(refused.value).startswith(f"{taken}/analyzer.log cannot be written: File exists; name ")
    copy_files(tmp_path / "none", taken)
