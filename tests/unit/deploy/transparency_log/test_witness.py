"""A witness signs a log that only grew, and finds every other view that it is shown."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.deploy.errors import NotWritten
from hubbub.deploy.transparency_log.append import PARTIAL, LogDisk, add_documents
from hubbub.deploy.transparency_log.witness import SplitView, Witness, evidence_path
from hubbub.protos.errors import UsageError
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.signed_notes import MOST_SIGNATURES, LogError, NoteSignature
from hubbub.protos.transparency_log.tiles import CHECKPOINT, LogFiles, files_in
from support.messages import HAS_NOT_SIGNED_CHECKPOINT
from support.patience import PATIENCE
from support.transparency_logs import (
    LOG,
    LOG_KEY,
    NOW,
    OTHER,
    TRUSTED,
    WITNESS_KEYS,
    WITNESSES,
    MemoryDisk,
    contents,
    document,
    files_of,
    flipped,
    log_of,
)


def witness_in(folder: Path, disk: LogDisk | None = None) -> Witness:
    return Witness(LOG_KEY, WITNESS_KEYS[0].name, WITNESSES[0], folder / "state", disk or MemoryDisk())


def other_log(folder: Path, size: int, changed: int) -> LogFiles:
    return files_in(log_of(folder, size, made=lambda number: document(number + 1000 * (number == changed))))


def test_a_log_that_grows_is_signed_at_each_look(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    trusted = TrustedLog(LOG_KEY, WITNESS_KEYS[:1], 1)
    signed, before = witness.look(files_in(folder), NOW, first=True)
    assert (signed.size, before, signed.check(trusted)) == (3, None, {"w0.example": NOW})
    for step in range(1, 5):
        add_documents(folder, LOG, [document(100 * step + n) for n in range(90)], MemoryDisk())
        signed, before = witness.look(files_in(folder), NOW + step)
        assert (signed.size, before) == (3 + 90 * step, 3 + 90 * step - 90)
        assert signed.check(trusted) == {"w0.example": NOW + step}
        assert SignedCheckpoint.decode(witness.state.read_bytes()) == signed
    again, before = witness.look(files_in(folder), NOW + 9)
    assert (again.checkpoint, before) == (signed.checkpoint, signed.size)


def test_an_empty_log_is_witnessed_from_its_beginning(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log"), witness_in(tmp_path)
    assert witness.look(files_in(folder), NOW, first=True)[0].size == 0
    add_documents(folder, LOG, [document(0)], MemoryDisk())
    assert witness.look(files_in(folder), NOW) == (witness.look(files_in(folder), NOW)[0], 0)


@pytest.mark.parametrize(("seen", "shown", "changed"), [(3, 3, 1), (3, 7, 0), (4, 7, 3), (8, 300, 7), (256, 513, 0)])
def test_another_view_is_found_and_proven(tmp_path: Path, seen: int, shown: int, changed: int) -> None:
    witness = witness_in(tmp_path)
    witness.look(files_in(log_of(tmp_path / "log", seen)), NOW, first=True)
    state = witness.state.read_bytes()
    with pytest.raises(SplitView, match=rf"its {shown} entries do not begin with the {seen} that were seen") as found:
        witness.look(other_log(tmp_path / "other", shown, changed), NOW)
    proof = found.value.proof
    proof.check(TRUSTED)
    assert proof.is_proven
    assert (proof.older.size, proof.newer.size) == (seen, shown)
    assert witness.state.read_bytes() == state
    assert evidence_path(witness.state, proof).name.startswith(f"state.views-{seen}-{shown}-")
    # A change of what came after is no other view.
    if shown > seen:
        witness.look(other_log(tmp_path / "later", shown, shown - 1), NOW)


def test_an_older_copy_is_reported_and_not_signed(tmp_path: Path) -> None:
    witness = witness_in(tmp_path)
    witness.look(files_in(log_of(tmp_path / "log", 5)), NOW, first=True)
    with pytest.raises(
        SplitView, match=r"shows 4 entries, but 5 were seen before: an older copy, or another view"
    ) as found:
        witness.look(files_in(log_of(tmp_path / "older", 4)), NOW)
    assert not found.value.proof.is_proven
    assert (found.value.proof.older.size, found.value.proof.newer.size) == (4, 5)
    found.value.proof.check(TRUSTED)


def test_a_log_that_hides_its_files_is_not_signed_and_both_checkpoints_are_kept(tmp_path: Path) -> None:
    witness = witness_in(tmp_path)
    witness.look(files_in(log_of(tmp_path / "log", 5)), NOW, first=True)
    files = contents(log_of(tmp_path / "longer", 5, 300))
    for path in ("tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1"):
        for hidden in (
            {name: each for name, each in files.items() if name != path},
            files | {path: flipped(files[path], 20)},
        ):
            with pytest.raises(SplitView, match=r"its files do not show that they begin with the 5") as found:
                witness.look(files_of(hidden), NOW)
            assert not found.value.proof.is_proven
    assert witness.look(files_of(files), NOW)[0].size == 300


def beside(files: LogFiles, meanwhile: Callable[[], object]) -> LogFiles:
    """A log's files, of which the first tile only comes after something else was done in another thread."""
    waiting = [meanwhile]

    def read(path: str, most: int) -> bytes:
        content = files(path, most)
        if waiting and path != CHECKPOINT:
            thread = ThreadPoolExecutor(1)
            done = thread.submit(waiting.pop())
            thread.shutdown(wait=False)
            done.result(PATIENCE)
        return content

    return read


def test_a_slow_log_holds_up_no_witness_of_another_one_in_the_same_folder(tmp_path: Path) -> None:
    files = files_in(log_of(tmp_path / "log", 3))
    other = replace(witness_in(tmp_path), state=tmp_path / "other.state")
    slow = beside(files, lambda: other.look(files, NOW, first=True))
    assert witness_in(tmp_path).look(slow, NOW, first=True)[0].size == 3
    assert other.state.exists()


def test_a_look_that_another_one_overtook_follows_from_what_that_one_signed(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    witness.look(files_in(folder), NOW, first=True)
    add_documents(folder, LOG, [document(3)], MemoryDisk())

    def meanwhile() -> None:
        add_documents(folder, LOG, [document(4)], MemoryDisk())
        assert witness.look(files_in(folder), NOW)[0].size == 5

    signed, before = witness.look(beside(files_in(folder), meanwhile), NOW + 1)
    assert (signed.size, before) == (5, 5)
    assert SignedCheckpoint.decode(witness.state.read_bytes()) == signed
    first = replace(witness, state=tmp_path / "first")
    twice = beside(files_in(folder), lambda: first.look(files_in(folder), NOW, first=True))
    with pytest.raises(UsageError, match=r"first is there, so this is not the first look"):
        first.look(twice, NOW, first=True)


def test_a_log_that_shows_many_signatures_of_strangers_does_not_spoil_the_state(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    shown = SignedCheckpoint.decode((folder / CHECKPOINT).read_bytes())
    for number in range(MOST_SIGNATURES - 1):
        shown = shown.with_signature(NoteSignature(f"stranger{number}", b"1234", bytes(64)))
    (folder / CHECKPOINT).write_bytes(shown.encode())
    signed, _ = witness.look(files_in(folder), NOW, first=True)
    assert [each.name for each in signed.signatures] == [LOG_KEY.name, witness.name]
    # The state is read, and so is what goes back to the log.
    assert witness.look(files_in(folder), NOW)[1] == 3
    assert SignedCheckpoint.decode(signed.encode()) == signed


def test_what_another_key_signed_is_not_looked_at(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    signed = SignedCheckpoint.decode((folder / CHECKPOINT).read_bytes())
    (folder / CHECKPOINT).write_bytes(SignedCheckpoint.made(signed.checkpoint, OTHER).encode())
    with pytest.raises(LogError, match=HAS_NOT_SIGNED_CHECKPOINT):
        witness.look(files_in(folder), NOW, first=True)
    assert not witness.state.exists()


def test_without_its_state_a_witness_signs_only_a_first_look(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    with pytest.raises(UsageError, match=r"so what was signed last is not known; restore it, or say .* with --first"):
        witness.look(files_in(folder), NOW)
    witness.look(files_in(folder), NOW, first=True)
    with pytest.raises(UsageError, match=r"state is there, so this is not the first look; leave out --first"):
        witness.look(files_in(folder), NOW, first=True)
    with pytest.raises(NotWritten, match=r"make its folder first"):
        witness_in(tmp_path / "missing").look(files_in(folder), NOW, first=True)


def test_a_changed_state_is_refused(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    witness.look(files_in(folder), NOW, first=True)
    state = witness.state.read_bytes()
    # Also another checkpoint that the log signed: the witness did not.
    unsigned = (log_of(tmp_path / "empty") / CHECKPOINT).read_bytes()
    for changed in (b"", state[:-5], unsigned, *(flipped(state, place) for place in range(0, len(state), 9))):
        witness.state.write_bytes(changed)
        with pytest.raises(LogError, match=r"is not what this witness signed last of log .*anew with --first"):
            witness.look(files_in(folder), NOW)


def test_a_look_removes_what_a_killed_one_was_writing(tmp_path: Path) -> None:
    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    left, other = tmp_path / PARTIAL.format("00"), tmp_path / ".hubbub-0123456789abcdef.partial"
    for path in (left, other):
        path.write_bytes(b"half")
    witness.look(files_in(folder), NOW, first=True)
    assert (left.exists(), other.exists()) == (False, True)


def test_nobody_has_a_signature_that_the_state_forgets(tmp_path: Path) -> None:
    """Killed before the state is on the disk, there is no signature; the next look begins at the same state."""

    class Killed(BaseException):
        pass

    class Dying(LogDisk):
        def sync(self, folder: Path) -> None:
            raise Killed(folder)

    folder, witness = log_of(tmp_path / "log", 3), witness_in(tmp_path)
    witness.look(files_in(folder), NOW, first=True)
    add_documents(folder, LOG, [document(3)], MemoryDisk())
    with pytest.raises(Killed):
        witness_in(tmp_path, Dying()).look(files_in(folder), NOW)
    assert witness.look(files_in(folder), NOW)[0].size == 4
