"""A certificate of a task that demands a log is valid with two proofs: its own, and that of the task."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.protos.task.task import Task
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.verification import log_proofs
from hubbub.verification.certificate import NotInLog, VerificationError, Verified, verify
from hubbub.verification.history import read_histories
from hubbub.verification.log_proofs import LogProofs
from hubbub.verification.pins import Pins, keys_in
from support.certificates import content_of, counts, encode
from support.logged_tasks import demanding, proof_of
from support.messages import NOT_SHOWN_TO_BE_IN_LOG
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
TASK: Task = demanding(sample_task(PARTIES, minimum_reports=100))
DOCUMENT = signed(TASK, PARTIES).encode()
ROUNDS = [counts(TASK, number, 120 + number) for number in range(2)]
CERTIFICATES = [encode(content_of(TASK, PARTIES, ROUNDS[: end + 1]), PARTIES) for end in range(2)]
OF_TASK, OF_CERTIFICATE = proof_of(DOCUMENT), proof_of(CERTIFICATES[0], (1, 2))


def with_proofs(*proofs: LoggedProof) -> Pins:
    return Pins(log_proofs=LogProofs(given=proofs))


def test_a_certificate_with_both_proofs_is_valid_and_says_who_vouches() -> None:
    logged = verify(CERTIFICATES[0], with_proofs(OF_TASK, OF_CERTIFICATE)).logged
    assert logged is not None
    assert logged.words == (
        "in log stats.example/log, as its task demands with 2 of 3 witnesses: the certificate is entry 1 of 3, signed "
        "by w1.example, w2.example; the task is entry 1 of 3, signed by w0.example, w1.example"
    )
    found = logged.as_json()
    assert (found["log"], found["threshold"]) == ("stats.example/log", 2)
    assert set(found["certificate"]["witnesses"]) == {"w1.example", "w2.example"}


@pytest.mark.parametrize(
    ("pins", "says"),
    [
        (
            Pins(),
            r"but it is not shown .*: none of 0 proofs found .*`hubbub log prove LOG CERTIFICATE.json --out CERTIFIC",
        ),
        (with_proofs(OF_TASK), r"but it is not shown .*: none of 1 proofs found is of that file"),
        (with_proofs(OF_CERTIFICATE), r"but its task is not shown .*`hubbub log prove LOG TASK.json --out TASK.tlog"),
        (with_proofs(OF_TASK, proof_of(CERTIFICATES[0], (1,))), r"but it is not shown .*: 1 of the known witnesses"),
        (with_proofs(OF_TASK, proof_of(CERTIFICATES[0], name="other/log")), r"is of log 'other/log', not of"),
    ],
)
def test_without_one_of_them_the_check_fails_by_name_and_says_which_command_makes_it(pins: Pins, says: str) -> None:
    with pytest.raises(NotInLog, match=r"^the certificate is right in itself, .*" + says):
        verify(CERTIFICATES[0], pins)


def test_what_is_wrong_in_itself_is_told_first() -> None:
    broken = CERTIFICATES[0].replace(b'"reports":120', b'"reports":121', 1)
    with pytest.raises(VerificationError) as refused:
        verify(broken, Pins())
    assert not isinstance(refused.value, NotInLog)


def test_a_good_proof_counts_beside_one_with_too_few_witnesses() -> None:
    weak = proof_of(CERTIFICATES[0], ())
    assert verify(CERTIFICATES[0], with_proofs(weak, OF_TASK, OF_CERTIFICATE)).logged is not None


def test_proofs_are_found_in_files_and_folders_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "a.tlog-proof").write_bytes(OF_CERTIFICATE.encode())
    (tmp_path / "b").write_bytes(OF_TASK.encode())
    (tmp_path / "broken.tlog-proof").write_bytes(b"nothing")
    folder = LogProofs((tmp_path,))
    with pytest.raises(NotInLog, match=r"none of 1 proofs found is of that file; .*broken.tlog-proof cannot be read"):
        verify(CERTIFICATES[0], Pins(log_proofs=folder))
    both = LogProofs((tmp_path / "b",)).beside([tmp_path / "certificate.json", tmp_path / "b", tmp_path])
    assert both.paths == (tmp_path / "b", tmp_path)
    assert verify(CERTIFICATES[0], Pins(log_proofs=both)).logged is not None
    with pytest.raises(NotInLog, match=r"gone cannot be read: No such file"):
        verify(CERTIFICATES[0], Pins(log_proofs=LogProofs((tmp_path / "gone",))))


def test_a_named_pipe_in_a_folder_is_named_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "a.tlog-proof")
    (tmp_path / "b.tlog-proof").write_bytes(OF_TASK.encode())
    read, seen = log_proofs._read, list[str]()

    def noted(file: Path, changed: int, size: int) -> LoggedProof:
        seen.append(file.name)
        # Whoever opened the pipe would wait for good.
        return OF_TASK if file.is_fifo() else read(file, changed, size)

    monkeypatch.setattr(log_proofs, "_read", noted)
    with pytest.raises(
        NotInLog, match=r"none of 1 proofs found is of that file; .*a.tlog-proof cannot be read: it is no"
    ):
        verify(CERTIFICATES[0], Pins(log_proofs=LogProofs((tmp_path,))))
    assert seen == ["b.tlog-proof"]


def test_a_pipe_that_is_named_is_read_once_and_serves_every_check(tmp_path: Path) -> None:
    ends = os.pipe()
    try:
        os.write(ends[1], OF_TASK.encode())
        os.close(ends[1])
        pins = Pins(log_proofs=LogProofs.named([Path(f"/dev/fd/{ends[0]}"), tmp_path]))
    finally:
        os.close(ends[0])
    (tmp_path / "0.tlog-proof").write_bytes(OF_CERTIFICATE.encode())
    (tmp_path / "1.tlog-proof").write_bytes(proof_of(CERTIFICATES[1]).encode())
    assert [verify(each, pins).logged is not None for each in CERTIFICATES] == [True, True]


def test_a_folder_of_keys_has_proofs_too_and_one_that_comes_later_is_found(tmp_path: Path) -> None:
    from hubbub.protos.identity.keys import save_public

    save_public(tmp_path / "operator.pub.pem", PARTIES.operator.public)
    pins = keys_in(tmp_path)
    (tmp_path / "task.tlog-proof").write_bytes(OF_TASK.encode())
    path = tmp_path / "round.tlog-proof"
    path.write_bytes(proof_of(CERTIFICATES[0], ()).encode())
    with pytest.raises(NotInLog, match="0 of the known witnesses"):
        verify(CERTIFICATES[0], pins)
    # Replaced by what has the signatures.
    path.write_bytes(OF_CERTIFICATE.encode())
    assert isinstance(verify(CERTIFICATES[0], pins), Verified)


def test_each_certificate_of_a_history_needs_its_own_proof(tmp_path: Path) -> None:
    for number, each in enumerate(CERTIFICATES):
        (tmp_path / f"{number}.json").write_bytes(each)
    pins = with_proofs(OF_TASK, OF_CERTIFICATE)
    (problem,) = read_histories([tmp_path], pins).alone
    assert problem.file == tmp_path / "1.json"
    assert f"it is {NOT_SHOWN_TO_BE_IN_LOG} stats.example/log" in problem.text
    second = proof_of(CERTIFICATES[1])
    pins = replace(pins, log_proofs=LogProofs(given=(OF_TASK, OF_CERTIFICATE, second)))
    found = read_histories([tmp_path], pins)
    assert found.problems == ()
    assert [each.verified.logged is not None for each in found.histories[0].certificates] == [True, True]


def test_a_task_that_demands_no_log_has_no_place_in_one() -> None:
    plain = sample_task(PARTIES, minimum_reports=100)
    certificate = encode(content_of(plain, PARTIES, [counts(plain, 0, 120)]), PARTIES)
    assert verify(certificate, Pins()).logged is None
    with pytest.raises(LogError):
        LoggedProof.decode(b"nothing")
