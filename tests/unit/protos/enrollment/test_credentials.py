"""A credential's key, a proof and a pseudonym have these values for ever, and follow from all they are bound to."""

from dataclasses import replace

import pytest

from hubbub.protos.enrollment.credentials import (
    CREDENTIAL_BYTES,
    NO_AUTHORITY,
    Credential,
    CredentialId,
    authority_tag,
    bound_to,
    credential_key,
    credential_keys,
    is_proven,
    pseudonym_of,
    pseudonyms_of,
    redeemed_by,
)
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import ENROLLED, OPEN

MASTER = bytes(range(32))
ID = CredentialId(7, 1_800_000_000, authority_tag(b"s" * 32), bytes(range(16)))
TO = Destination(b"t" * 32, 3, b"k" * 32)
SUBMISSION = Submission(b"i" * 16, b"sealed bytes")
HELD = Credential(ID.encode(), credential_key(MASTER, ID.encode()))
PROVEN = HELD.proven(TO, SUBMISSION)

GOLDEN = {
    "id": "00000007000000006b49d200a3cb37dedc434a9edec6910617bf8fff000102030405060708090a0b0c0d0e0f",
    "key": "80aedad42359ce4de0116a6d0eb77cb47849f8f5910fe3b2c6c522938ca1b824",
    "proof": "e6a58345f47c5b49d66bb00e6ed25ba6",
    "pseudonym": "cec28302356078eed7dd0854d920b5ab",
    "redeemed_by": "a1bc2ee85357ca5c79dacc100bb43234152a522e3a17caad9ab41361fcb47353",
}
"""Made by this version, November 2026."""


def test_credentials_have_these_bytes_for_ever() -> None:
    found = {
        "id": HELD.id,
        "key": HELD.key,
        "proof": PROVEN.proof,
        "pseudonym": pseudonym_of(b"p" * 32, ID.number),
        "redeemed_by": redeemed_by(b"d" * 32),
    }
    assert {name: value.hex() for name, value in found.items()} == GOLDEN
    assert len(HELD.id) == CREDENTIAL_BYTES == 44


def test_what_is_keyed_once_gives_each_message_what_it_gets_alone() -> None:
    keys, pseudonyms = credential_keys(MASTER), pseudonyms_of(b"p" * 32)
    numbers = [bytes([number]) * 16 for number in range(3)]
    ids = [replace(ID, number=number).encode() for number in numbers]
    # By turns: no message leaves anything for the next.
    assert [(keys.of(each), pseudonyms.of(number)) for each, number in zip(ids, numbers, strict=True)] == [
        (credential_key(MASTER, each), pseudonym_of(b"p" * 32, number))
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
    pseudonyms = {pseudonym_of(key, number) for key in (b"p" * 32, b"q" * 32) for number in (b"1" * 16, b"2" * 16)}
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
