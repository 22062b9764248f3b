"""The verifier in TypeScript wants proofs that a certificate and its task are in the log that the task demands."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from unit.verification.test_log_proofs import CERTIFICATES, OF_CERTIFICATE, OF_TASK
from web.test_verifier import Outcome, Verifying, as_double, codes, of, with_task
from web.test_verifier import verifying as verifying
from web.test_verifier_page import PAGE, check

from hubbub.protos.merkle import InclusionProof, leaf_hash
from hubbub.protos.transparency_log.checkpoint import Checkpoint, SignedCheckpoint
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.protos.transparency_log.signed_notes import sign_note
from hubbub.verification.certificate import NotInLog, VerificationError, verify
from hubbub.verification.log_proofs import LogProofs
from hubbub.verification.pins import Pins
from support.chromium import tab_of
from support.logged_tasks import proof_of
from support.transparency_logs import LOG, LOG_KEY, NAME, NOW, WITNESS_KEYS, WITNESSES
from support.web_client import vector

CERTIFICATE = CERTIFICATES[0]
BOTH = OF_TASK.encode(), OF_CERTIFICATE.encode()
WEAK = proof_of(CERTIFICATE, (1,)).encode()
"""By one witness, where the task demands two."""
LATE = replace(OF_CERTIFICATE, signed=OF_CERTIFICATE.signed.witnessed(WITNESS_KEYS[0], WITNESSES[0], 2**38)).encode()
"""Witnessed after the year 9999."""
BROKEN = b"c2sp.org/tlog-proof@v1\nindex 01\n\nnothing"


def texts(outcome: Outcome, kind: str) -> list[str]:
    return [line["text"] for line in outcome["lines"] if line["kind"] == kind]


def test_with_both_proofs_a_certificate_is_in_the_log_and_it_says_who_vouches(verifying: Verifying) -> None:
    right, among = verifying([of(CERTIFICATE, *BOTH), of(WEAK, BROKEN, *BOTH, CERTIFICATE)])
    logged = verify(CERTIFICATE, Pins(log_proofs=LogProofs(given=(OF_TASK, OF_CERTIFICATE)))).logged
    assert logged is not None
    assert right["problems"] == among["problems"] == []
    assert f"it is {logged.words}" in texts(right, "checked")
    assert f"it is {logged.words}" in texts(among, "checked")
    assert [each for each in texts(right, "left") if each.endswith("skipped")] == []
    skipped = [each.partition(":")[0] for each in texts(among, "left") if each.endswith("skipped")]
    assert skipped == ["file-0.json", "file-1.json"]


MISSING = {
    "both": ((), "proof", ("the certificate (none of 0 proofs is", "its task (none of 0 proofs is")),
    "the certificate's": (BOTH[:1], "proof", ("the certificate (none of 1 proofs is",)),
    "the task's": (BOTH[1:], "proof", ("its task (none of 1 proofs is",)),
    "a witness": ((BOTH[0], WEAK), "witnesses", ("the certificate (file-2.json: 1 of the task's witnesses have",)),
    "a witness's name": (
        (BOTH[0], BOTH[1].replace(b"w1.example", b"w9.example")),
        "witnesses",
        ("the certificate (file-2.json: 1 of the task's witnesses have",),
    ),
    "the log": (
        (BOTH[0], proof_of(CERTIFICATE, name="other/log").encode()),
        "log",
        ("the certificate (file-2.json: the checkpoint is of log other/log",),
    ),
    "a time that there is": ((BOTH[0], LATE), "signature", ("the certificate (file-2.json: the signature of witness",)),
    "the last line's end": ((BOTH[0], BOTH[1][:-1]), "proof", ("the certificate (none of 1 proofs is of it; file-2",)),
    "a whole file": ((BOTH[0], BROKEN), "proof", ("the certificate (none of 1 proofs is of it; file-2.json: not a",)),
}
"""What is not there: the proofs that are, the reason, and what is said."""


def test_without_one_of_them_it_is_refused_and_the_text_says_what_is_missing(verifying: Verifying) -> None:
    outcomes = verifying([of(CERTIFICATE, *proofs) for proofs, _, _ in MISSING.values()])
    for (what, (_, because, says)), outcome in zip(MISSING.items(), outcomes, strict=True):
        ((code, words),) = outcome["problems"]
        assert code == because, what
        assert words.startswith("it is right in itself, but the task demands that both are in log stats.example/log")
        for each, file in (("the certificate (", "CERTIFICATE"), ("its task (", "TASK")):
            lacks = any(said.startswith(each) for said in says)
            assert (f"hubbub log prove LOG {file}.json" in words) is (each in words) is lacks, what
        assert all(each in words for each in says), words
        assert texts(outcome, "checked") == []


PLACES = [
    *((index, size) for size in range(1, 9) for index in range(size)),
    *((2**31, 2**32 + 1), (2**40 + 12345, 2**47 + 99), (0, 2**48), (2**48 - 1, 2**48), (2**47, 2**47 + 1)),
]
"""Entries and sizes of trees; a whole number beyond 2³¹ is none for JavaScript's operators on bits."""


def proof_at(index: int, size: int, said: tuple[int, int] | None = None, origin: str = NAME) -> LoggedProof:
    """A proof of the certificate at a place in a tree, of which only the hashes beside its way are known.

    The log signs that it is at another place and of another size, if these are `said`, or under another origin.
    """
    inner = (index ^ (size - 1)).bit_length()
    path = b"".join(sha256(b"%d" % step).digest() for step in range(inner + (index >> inner).bit_count()))
    root = InclusionProof(index, size, path).root(leaf_hash(CERTIFICATE))
    index, size = said or (index, size)
    checkpoint = Checkpoint(origin, size, root)
    signed = SignedCheckpoint(checkpoint, (sign_note(checkpoint.text, LOG_KEY, LOG),))
    for key, witness in zip(WITNESS_KEYS, WITNESSES, strict=True):
        signed = signed.witnessed(key, witness, NOW)
    return LoggedProof(index, path, signed)


def test_a_proof_counts_at_each_place_of_a_tree_and_at_no_other(verifying: Verifying) -> None:
    proofs = [proof_at(*place) for place in PLACES]
    elsewhere = [replace(each, index=(each.index + 1) % (each.signed.size + 1)) for each in proofs]
    shorter = [replace(each, hashes=each.hashes[:-32]) for each in proofs if each.hashes]
    longer = [replace(each, hashes=each.hashes + bytes(32)) for each in proofs]
    # A log may sign any root: these have the root that their hashes give, and too few or too many of them.
    forged = [proof_at(0, 2, (0, 4)), proof_at(7, 8, (0, 1))]
    good, wrong = len(proofs), (*elsewhere, *shorter, *longer, *forged)
    outcomes = verifying([of(CERTIFICATE, BOTH[0], each.encode()) for each in (*proofs, *wrong)])
    assert [each["problems"] for each in outcomes[:good]] == [[]] * good
    assert [codes(each) for each in outcomes[good:]] == [{"proof"}] * (len(outcomes) - good)


def test_a_checkpoint_that_begins_with_another_log_is_not_the_logs_although_its_key_signed_it(
    verifying: Verifying,
) -> None:
    (outcome,) = verifying([of(CERTIFICATE, BOTH[0], proof_at(1, 3, origin="stats.example/two").encode())])
    assert codes(outcome) == {"log"}


def test_what_is_wrong_in_itself_is_told_first(verifying: Verifying) -> None:
    broken = CERTIFICATE.replace(b'"reports":120', b'"reports":121', 1)
    (outcome,) = verifying([of(broken)])
    assert codes(outcome) == {"signature"}
    with pytest.raises(VerificationError) as refused:
        verify(broken, Pins())
    assert not isinstance(refused.value, NotInLog)


def test_each_certificate_of_a_history_needs_its_own_proof(verifying: Verifying) -> None:
    proofs = [BOTH[0], *(proof_of(each).encode() for each in CERTIFICATES)]
    whole, lacking = verifying([of(*CERTIFICATES, *proofs), of(*CERTIFICATES, *proofs[:2])])
    assert whole["problems"] == []
    assert any("are one history" in each for each in texts(whole, "checked"))
    assert "proof" in codes(lacking)


def test_what_no_task_may_demand_is_refused_in_a_certificate_too(verifying: Verifying) -> None:
    cases: list[dict[str, Any]] = json.loads(vector("logged.json").read_text())["cases"]
    wrong = [each for each in cases if each["because"] == "value"]
    tasks = [json.loads(base64.b64decode(each["task"]), parse_int=as_double) for each in wrong]
    outcomes = verifying([of(with_task(task)) for task in tasks])
    found = {each["what"]: codes(outcome) for each, outcome in zip(wrong, outcomes, strict=True)}
    assert found == {each["what"]: {"value"} for each in wrong}
    assert len(found) >= 15


async def test_the_page_checks_the_proofs_that_are_chosen_with_a_certificate(started: Any, tmp_path: Path) -> None:
    names = ("certificate.json", "task.tlog-proof", "round.tlog-proof")
    files = [tmp_path / name for name in names]
    for file, content in zip(files, (CERTIFICATE, *BOTH), strict=True):
        file.write_bytes(content)
    async with tab_of(started) as tab:
        await tab.open(PAGE.as_uri())
        verdict, lines = await check(tab, *files)
        assert verdict.startswith("Nothing is wrong in what was checked here. ")
        assert any(line.startswith("checked: it is in log stats.example/log, as its task demands") for line in lines)
        verdict, lines = await check(tab, *files[:2])
        assert verdict == "Something is not shown to be in its log: do not use these numbers."
        assert "and not shown are: the certificate (none of 1 proofs is of it)" in lines[0]
        assert tab.said == []
