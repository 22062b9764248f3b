"""A whole log is checked entry by entry and hash by hash: no byte of it is changed unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.deploy.transparency_log.append import add_documents
from hubbub.protos.identity.documents import canonical, parse_canonical
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint
from hubbub.protos.transparency_log.entries import LogEntry
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import CHECKPOINT, files_in
from hubbub.verification.transparency_log import check_log
from support.certificates import content_of, counts, encode
from support.messages import NOT_SIGNED_BY
from support.samples import signed
from support.transparency_logs import (
    LOG,
    NOW,
    TRUSTED,
    WITNESSED,
    MemoryDisk,
    contents,
    files_of,
    flipped,
    log_of,
    with_witnesses,
)
from vectors.make_signed import PARTIES, vector_succession, vector_task


def certificate(reports: int) -> bytes:
    task = vector_task()
    return encode(content_of(task, PARTIES, [counts(task, 0, reports)]), PARTIES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = log_of(tmp_path_factory.mktemp("log"))
    documents = [signed(vector_task(), PARTIES).encode(), certificate(120), vector_succession().encode()]
    add_documents(folder, LOG, documents, MemoryDisk())
    point = SignedCheckpoint.decode((folder / CHECKPOINT).read_bytes())
    (folder / CHECKPOINT).write_bytes(with_witnesses(point).encode())
    return folder


def test_a_log_as_it_was_signed_is_checked_whole(folder: Path) -> None:
    seen: list[int] = []
    found = check_log(files_in(folder), WITNESSED, seen.append)
    assert [each.kind.called for each in found.entries] == ["task", "certificate", "succession"]
    assert (found.signed.size, seen, found.contradictions) == (3, [0, 1, 2], ())
    assert found.witnessed == {"w0.example": NOW, "w1.example": NOW}


def test_a_changed_byte_of_any_file_is_refused(folder: Path) -> None:
    files = contents(folder)
    assert {path.partition("/")[0] for path in files} == {"checkpoint", "tile", "entry"}
    for path, content in files.items():
        for place in range(0, len(content), max(1, len(content) // 40)):
            with pytest.raises(LogError):
                check_log(files_of(files | {path: flipped(content, place)}), WITNESSED)


def test_a_missing_file_and_an_exchanged_entry_are_named(folder: Path) -> None:
    files = contents(folder)
    with pytest.raises(LogError, match=r"entry/001.json"):
        check_log(files_of({name: each for name, each in files.items() if name != "entry/001.json"}), TRUSTED)
    exchanged = files | {"entry/001.json": files["entry/002.json"]}
    with pytest.raises(LogError, match=r"entry/001.json is not the document that was logged there: it was changed"):
        check_log(files_of(exchanged), TRUSTED)


def test_a_full_tile_below_the_edge_is_compared_with_the_hash_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root follows from the hashes at the edge, so it does not show a change in a full tile."""
    files = contents(log_of(tmp_path / "log", 513))
    monkeypatch.setattr(LogEntry, "_read", classmethod(_any_bytes))
    assert check_log(files_of(files), TRUSTED).signed.size == 513
    with pytest.raises(LogError, match=r"tile/0/000 does not give the hash above it: a file of the log was changed"):
        check_log(files_of(files | {"tile/0/000": flipped(files["tile/0/000"], 100)}), TRUSTED)


def _any_bytes(cls: type[LogEntry], document: bytes) -> LogEntry:
    from hubbub.protos.identity.formats import TASK
    from hubbub.protos.merkle import leaf_hash

    return cls(TASK, leaf_hash(document), "bytes")


def test_two_certificates_of_one_round_are_reported(folder: Path, tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    add_documents(log, LOG, [certificate(120), signed(vector_task(), PARTIES).encode(), certificate(130)], MemoryDisk())
    (found,) = check_log(files_in(log), TRUSTED).contradictions
    assert found.startswith("entries 0 and 2 are two certificates of one round: certificate of round 0 of task flights")


def test_an_entry_that_a_log_does_not_take_is_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", 1)
    with pytest.raises(LogError, match=r"entry/000.json: it is .*; a log takes signed tasks"):
        check_log(files_in(log), TRUSTED)
    changed = parse_canonical(certificate(120))
    changed["body"]["round"] = 1
    other = log_of(tmp_path / "other", 1, made=lambda _: canonical(changed))
    with pytest.raises(LogError, match=rf"entry/000.json: it cannot be logged: the certificate's {NOT_SIGNED_BY}"):
        check_log(files_in(other), TRUSTED)
