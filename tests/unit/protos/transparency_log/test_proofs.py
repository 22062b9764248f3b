"""Proofs hold for what they were made of, and for nothing else, whichever byte is changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hubbub.protos.transparency_log.checkpoint import Checkpoint, SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.proofs import (
    LONGEST_PROOF,
    ConsistencyProof,
    LoggedProof,
    SplitViewProof,
    read_proof,
)
from hubbub.protos.transparency_log.proving import prove_consistency, prove_logged
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import CHECKPOINT, files_in, tree_of_log
from support.transparency_logs import (
    LOG,
    LOG_KEY,
    NAME,
    NOW,
    TRUSTED,
    WITNESSED,
    contents,
    document,
    files_of,
    flipped,
    log_of,
    vector_proofs,
    with_witnesses,
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log of 5 entries, then of 7; witnesses have signed both."""
    folders = []
    for sizes in ((5,), (5, 7)):
        folder = log_of(tmp_path_factory.mktemp("log"), *sizes)
        signed = SignedCheckpoint.decode((folder / CHECKPOINT).read_bytes())
        (folder / CHECKPOINT).write_bytes(with_witnesses(signed).encode())
        folders.append(folder)
    return folders[0], folders[1]


def note(folder: Path) -> bytes:
    return (folder / CHECKPOINT).read_bytes()


def test_each_document_is_proven_to_be_in_the_log_and_no_other_is(logs: tuple[Path, Path]) -> None:
    for number in range(7):
        proof = prove_logged(files_in(logs[1]), document(number))
        assert read_proof(proof.encode()) == proof
        assert proof.check(document(number), WITNESSED) == {"w0.example": NOW, "w1.example": NOW}
        for other in (document((number + 1) % 7), document(9), b""):
            with pytest.raises(LogError, match=rf"the document is not entry {number} of the log stats"):
                proof.check(other, WITNESSED)
    with pytest.raises(LogError, match=r"it is not among the 7 entries of log stats.example/log; add it with"):
        prove_logged(files_in(logs[1]), document(7))


def test_a_proof_has_the_form_of_other_logs(logs: tuple[Path, Path]) -> None:
    lines = prove_logged(files_in(logs[1]), document(2)).encode().decode().split("\n")
    assert lines[:2] == ["c2sp.org/tlog-proof@v1", "index 2"]
    assert [len(line) for line in lines[2:5]] == [44, 44, 44]
    assert lines[5:8] == ["", NAME, "7"]


def test_a_changed_byte_of_a_proof_is_refused(logs: tuple[Path, Path]) -> None:
    proof = prove_logged(files_in(logs[1]), document(2)).encode()
    for place in range(len(proof)):
        changed = flipped(proof, place)
        with pytest.raises(LogError):
            LoggedProof.decode(changed).check(document(2), WITNESSED)


def test_a_changed_byte_of_a_proof_of_growth_is_refused(logs: tuple[Path, Path]) -> None:
    proof = prove_consistency(files_in(logs[1]), note(logs[0]))
    encoded = proof.encode()
    assert read_proof(encoded) == proof
    assert proof.check(WITNESSED) == {"w0.example": NOW, "w1.example": NOW}
    # Witnesses of the older checkpoint may be fewer: what they signed is not needed.
    needed = encoded.index(b"w0.example")
    unneeded = range(needed - 4, encoded.index(NAME.encode(), needed) - 1)
    for place in range(len(encoded)):
        if place in unneeded:
            continue
        with pytest.raises(LogError):
            ConsistencyProof.decode(flipped(encoded, place)).check(WITNESSED)


def test_a_log_that_changed_an_entry_has_no_proof_of_growth(logs: tuple[Path, Path], tmp_path: Path) -> None:
    other = log_of(tmp_path / "other", 7, made=lambda number: document(number + 100 * (number == 3)))
    with pytest.raises(LogError, match=r"the log's 7 entries do not begin with the 5 of this checkpoint"):
        prove_consistency(files_in(other), note(logs[0]))
    with pytest.raises(LogError, match=r"it is of 7 entries, and the log has 5: the log is an older copy"):
        prove_consistency(files_in(logs[0]), note(logs[1]))
    named = log_of(tmp_path / "named", 7, name="other.example")
    with pytest.raises(LogError, match=r"it is a checkpoint of log stats.example/log, not of other.example"):
        prove_consistency(files_in(named), note(logs[0]))


def views(logs: tuple[Path, Path], folder: Path) -> SplitViewProof:
    """What a witness finds who saw the log of 5, and then another one of 7."""
    other = log_of(folder / "other", 7, made=lambda number: document(number + 100 * (number == 3)))
    shown = SignedCheckpoint.decode(note(other))
    tree = tree_of_log(files_in(other), shown)
    return SplitViewProof(SignedCheckpoint.decode(note(logs[0])), shown, tree.root(5), tree.consistency(5))


def test_two_views_are_proven_by_the_log_s_own_signatures(logs: tuple[Path, Path], tmp_path: Path) -> None:
    proof = views(logs, tmp_path)
    assert read_proof(proof.encode()) == proof
    proof.check(TRUSTED)
    assert proof.is_proven


def test_nobody_makes_two_views_of_one(logs: tuple[Path, Path], tmp_path: Path) -> None:
    older, newer = (SignedCheckpoint.decode(note(folder)) for folder in logs)
    tree = tree_of_log(files_in(logs[1]), newer)
    assert not SplitViewProof(older, newer).is_proven
    assert not SplitViewProof(older, newer, tree.root(5), tree.consistency(5)).is_proven
    assert not SplitViewProof(older, newer, bytes(32), tree.consistency(5)).is_proven
    assert not SplitViewProof(newer, older, bytes(32), b"").is_proven
    assert not SplitViewProof(older, older, older.checkpoint.root).is_proven
    # Of one tree all roots of the older size but the true one lead elsewhere, whatever path is given.
    real = views(logs, tmp_path)
    assert not SplitViewProof(older, newer, real.root, real.hashes).is_proven
    forged = SignedCheckpoint(real.newer.checkpoint, older.signatures)
    with pytest.raises(LogError, match=r"the signature of log stats.example/log is wrong"):
        SplitViewProof(real.older, forged, real.root, real.hashes).check(TRUSTED)


def test_two_checkpoints_of_one_size_contradict_each_other_by_themselves() -> None:
    first, second = (SignedCheckpoint.made(Checkpoint(NAME, 4, bytes([n]) * 32), LOG) for n in (1, 2))
    proof = SplitViewProof(first, second, second.checkpoint.root)
    assert read_proof(proof.encode()) == proof
    proof.check(TRUSTED)
    assert proof.is_proven


@pytest.mark.parametrize(
    "changed",
    [
        lambda proof: proof[:0],
        lambda proof: b"hubbub-task/1\n" + proof,
        lambda proof: proof.replace(b"@v1", b"@v2"),
        lambda proof: proof.replace(b"index 2\n", b""),
        lambda proof: proof.replace(b"index 2", b"index 02"),
        lambda proof: proof.replace(b"index 2", b"index 9"),
        lambda proof: proof.replace(b"index 2", b"index -2"),
        lambda proof: proof.replace(b"index 2", b"index " + b"2" * 5000),
        lambda proof: proof.replace(b"index 2", b"extra AAAA\nindex 2"),
        lambda proof: proof.replace(b"index 2\n", b"index 2\nAAAA\n"),
        lambda proof: proof.replace(b"\n", b"\r\n"),
        lambda proof: proof.replace(b"\n\n", b"\n"),
        lambda proof: proof[:-1],
        lambda proof: proof + b"\n",
        lambda proof: proof + b"x" * LONGEST_PROOF,
        lambda proof: b"\xff" + proof,
    ],
)
def test_what_is_no_proof_is_refused(logs: tuple[Path, Path], changed: object) -> None:
    assert callable(changed)
    proof = changed(prove_logged(files_in(logs[1]), document(2)).encode())
    with pytest.raises(LogError):
        LoggedProof.decode(proof).check(document(2), TRUSTED)


def test_a_path_of_another_length_is_refused_by_its_length(logs: tuple[Path, Path]) -> None:
    proof = prove_logged(files_in(logs[1]), document(2))
    short = LoggedProof(proof.index, proof.hashes[:-32], proof.signed)
    with pytest.raises(LogError, match=r"the path of leaf 2 in a tree of 7 has 64 bytes, not 96"):
        short.check(document(2), TRUSTED)


def test_a_proof_of_growth_has_two_checkpoints(logs: tuple[Path, Path]) -> None:
    proof = prove_consistency(files_in(logs[1]), note(logs[0])).encode()
    with pytest.raises(LogError, match=r"it does not have two signed checkpoints"):
        read_proof(proof + b"\n" + note(logs[0]))
    swapped = ConsistencyProof(*(SignedCheckpoint.decode(note(folder)) for folder in reversed(logs)), b"")
    with pytest.raises(LogError, match=r"the proof does not show that the log's 5 entries begin with the 7"):
        swapped.check(TrustedLog(LOG_KEY))


def test_nothing_is_proven_from_a_tile_below_the_edge_that_was_changed(tmp_path: Path) -> None:
    """The root follows from the hashes at the edge, so it does not show the change."""
    files = contents(log_of(tmp_path / "log", 200, 300))
    older = (log_of(tmp_path / "older", 200) / CHECKPOINT).read_bytes()
    assert prove_consistency(files_of(files), older).check(TRUSTED) == {}
    changed = files_of(files | {"tile/0/000": flipped(files["tile/0/000"], 40)})
    for prove in (lambda: prove_logged(changed, document(2)), lambda: prove_consistency(changed, older)):
        with pytest.raises(LogError, match=r"the log's tiles do not give the hashes above them"):
            prove()


def test_the_frozen_proofs_are_read_and_hold() -> None:
    logged, growth, two = vector_proofs()
    assert logged.check(document(3), WITNESSED) == growth.check(WITNESSED) == {"w0.example": NOW, "w1.example": NOW}
    two.check(TRUSTED)
    assert two.is_proven
    assert [read_proof(each.encode()) for each in (logged, growth, two)] == [logged, growth, two]


def test_the_form_of_c2sp_has_the_bytes_that_it_had() -> None:
    digest = hashlib.sha256(vector_proofs()[0].encode()).hexdigest()
    assert digest == "d7027aae46d30b889ff9d8db51769cb84113127f305cbc17cc372f74f2842eff"
