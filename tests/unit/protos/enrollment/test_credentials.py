"""A credential's key, a proof and a pseudonym have these values for ever, and follow from all they are bound to."""

import hashlib
import json
from dataclasses import replace

import pytest

from hubbub.protos.enrollment.credentials import (
    CREDENTIAL_BYTES,
    NO_AUTHORITY,
    CredentialId,
    bound_to,
    credential_key,
    credential_keys,
    is_proven,
    pseudonyms_of,
)
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import ENROLLED, OPEN
from vectors.make_enrollment import FILE, ID, MASTER, SUBMISSION, TO, credential_of, written, wrong_for

HELD = credential_of(ID)
PROVEN = HELD.proven(TO, SUBMISSION)
VECTORS = json.loads(FILE.read_text())


def test_the_vectors_are_what_the_program_writes() -> None:
    """And so have these bytes for ever: clients in other languages are checked against the file."""
    assert FILE.read_text() == written()
    assert VECTORS["credentials"][0]["key"] == "80aedad42359ce4de0116a6d0eb77cb47849f8f5910fe3b2c6c522938ca1b824"
    assert VECTORS["proofs"][0]["proof"] == "e6a58345f47c5b49d66bb00e6ed25ba6"
    assert VECTORS["device"]["redeemed_by"] == "a1bc2ee85357ca5c79dacc100bb43234152a522e3a17caad9ab41361fcb47353"
    assert VECTORS["shuffler"]["pseudonym"] == "cec28302356078eed7dd0854d920b5ab"
    assert len(HELD.id) == CREDENTIAL_BYTES == 44


def test_the_vectors_follow_from_the_formulas_of_the_page_alone() -> None:
    """As a client in another language computes them: with BLAKE2b and nothing of hubbub."""
    to, sent = VECTORS["destination"], VECTORS["submission"]
    bound = bytes.fromhex(to["task_id"]) + to["round"].to_bytes(4, "big") + bytes.fromhex(to["key_set_hash"])
    message = bound + bytes.fromhex(sent["submission_id"]) + bytes.fromhex(sent["envelope"])
    master = bytes.fromhex(VECTORS["shuffler"]["master_key"])
    assert len(VECTORS["credentials"]) == len(VECTORS["proofs"]) == 2
    for each, proven in zip(VECTORS["credentials"], VECTORS["proofs"], strict=True):
        parts = each["generation"].to_bytes(4, "big") + each["expires"].to_bytes(8, "big")
        of = parts + bytes.fromhex(each["authority_tag"]) + bytes.fromhex(each["number"])
        key = hashlib.blake2b(b"hubbub/v1 credential key\0" + of, key=master, digest_size=32).digest()
        assert (of.hex(), key.hex(), proven["credential"]) == (each["id"], each["key"], each["id"])
        proof = hashlib.blake2b(b"hubbub/v1 submission proof\0" + message, key=key, digest_size=16).hexdigest()
        assert proof == proven["proof"]


def test_the_vectors_have_what_a_proof_is_not_for() -> None:
    assert len(VECTORS["wrong_for"]) == 5
    for wrong, (to, submission) in zip(VECTORS["wrong_for"], wrong_for().values(), strict=True):
        assert wrong["proof"] == PROVEN.proof.hex()
        shown = replace(submission, credential=HELD.id, proof=bytes.fromhex(wrong["proof"]))
        assert not is_proven(HELD.key, bound_to(to), shown), wrong["why"]


def test_what_is_keyed_once_gives_each_message_what_it_gets_alone() -> None:
    keys, pseudonyms = credential_keys(MASTER), pseudonyms_of(b"p" * 32)
    numbers = [bytes([number]) * 16 for number in range(3)]
    ids = [replace(ID, number=number).encode() for number in numbers]
    # By turns: no message leaves anything for the next.
    assert [(keys.of(each), pseudonyms.of(number)) for each, number in zip(ids, numbers, strict=True)] == [
        (credential_key(MASTER, each), pseudonyms_of(b"p" * 32).of(number))
        for each, number in zip(ids, numbers, strict=True)
    ]
    assert keys.of(ID.encode()) == HELD.key


def test_an_id_comes_back_as_it_was() -> None:
    assert CredentialId.decode(ID.encode()) == ID
    with pytest.raises(MessageError, match="43 bytes, but 44 are expected"):
        CredentialId.decode(bytes(43))


def test_an_id_that_was_changed_has_another_key() -> None:
    changed = [replace(ID, generation=8), replace(ID, expires=0), replace(ID, authority=NO_AUTHORITY)]
    changed.append(replace(ID, number=bytes(16)))
    keys = {credential_key(MASTER, each.encode()) for each in (ID, *changed)}
    assert len(keys) == 5
    assert credential_key(bytes(32), ID.encode()) not in keys


@pytest.mark.parametrize(
    ("to", "submission"),
    [
        (replace(TO, task_id=b"u" * 32), PROVEN),
        (replace(TO, round=4), PROVEN),
        (replace(TO, key_set_hash=b"l" * 32), PROVEN),
        (TO, replace(PROVEN, id=b"j" * 16)),
        (TO, replace(PROVEN, envelope=b"sealed byteS")),
        (TO, replace(PROVEN, proof=b"")),
        (TO, replace(PROVEN, proof=PROVEN.proof[:-1])),
        (TO, replace(PROVEN, proof=bytes(16))),
    ],
    ids=range(8),
)
def test_a_proof_holds_for_what_it_was_made_for_alone(to: Destination, submission: Submission) -> None:
    assert is_proven(HELD.key, bound_to(TO), PROVEN)
    assert not is_proven(HELD.key, bound_to(to), submission)


def test_pseudonyms_differ_by_round_and_device() -> None:
    pseudonyms = {pseudonyms_of(key).of(number) for key in (b"p" * 32, b"q" * 32) for number in (b"1" * 16, b"2" * 16)}
    assert len(pseudonyms) == 4


def test_nothing_secret_is_printed() -> None:
    shown = repr((HELD, PROVEN, Redemption(b"ticket", b"device key")))
    for secret in (HELD.key, PROVEN.proof, PROVEN.credential, b"ticket", b"device key"):
        assert repr(secret)[2:-1] not in shown


@pytest.mark.parametrize("noise", [False, True])
def test_what_admission_means_for_privacy_is_said_in_words(noise: bool) -> None:
    means = (
        "Made-up reports can spoil the estimates, and weaken an ε that needs everyone who answers to be honest. They "
        "weaken none that needs only an honest shuffler: its noise hides each person."
        if noise
        else "Made-up reports hide nobody: privacy counts on the share of reports that is honest."
    )
    assert OPEN.statement(noise=noise) == {
        "mode": "open",
        "words": f"Nobody checked who submitted: anybody who reached the shuffler could make reports up. {means}",
    }
    assert ENROLLED.statement(noise=noise) == {
        "mode": "enrolled",
        "words": "Each device with a ticket of the operator submits once a round. That the tickets went to different "
        f"people is the operator's word. {means}",
    }
