"""Keys that are no points of prime order are refused, by name, and signatures are right in one way alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hubbub.protos.errors import SignatureError, TaskError
from hubbub.protos.identity.documents import check_signature, is_signed, key_from_hex
from hubbub.protos.identity.keys import Identity
from hubbub.protos.identity.weak_keys import is_weak
from hubbub.protos.task.signed_task import SignedTask
from support.samples import sample_task, signed
from support.transparency_logs import WEAK_KEYS
from vectors.make_signatures import FILE, encoded
from vectors.make_signed import PARTIES

KEPT = json.loads(FILE.read_bytes())
LABEL, BODY = KEPT["label"], KEPT["body"].encode()
MIXED = next(case["key"] for case in KEPT["cases"] if case["what"].startswith("a key of mixed order"))


def test_the_file_is_what_its_program_writes() -> None:
    assert encoded() == FILE.read_bytes()


@pytest.mark.parametrize("case", KEPT["cases"], ids=lambda case: case["what"])
def test_a_signature_is_right_or_not(case: dict[str, Any]) -> None:
    key, signature = bytes.fromhex(case["key"]), bytes.fromhex(case["signature"])
    assert (is_weak(key), is_signed(LABEL, BODY, signature, key)) == (case["weak"], case["right"])
    if case["weak"]:
        with pytest.raises(SignatureError, match=r"which is weak, as it is no point of prime order in its one form"):
            check_signature(LABEL, BODY, signature, key)
        with pytest.raises(SignatureError, match=r"the key is [0-9a-f-]+, which is weak, .*make another"):
            key_from_hex(case["key"], "the key")


def test_the_library_alone_verifies_with_some_weak_keys() -> None:
    """Without the check of the key, one program would take what another refuses."""
    verified = []
    for case in KEPT["cases"]:
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(case["key"]))
            key.verify(bytes.fromhex(case["signature"]), LABEL.encode() + b"\0" + BODY)
        except (InvalidSignature, ValueError):
            assert not case["right"]
        else:
            verified.append(case["right"])
    assert verified.count(False) >= 4


def test_no_key_that_is_made_is_weak() -> None:
    assert not any(is_weak(Identity.generate().public) for _ in range(20))
    # The base point's, as it stands in RFC 8032.
    assert not is_weak(bytes.fromhex("58" + "66" * 31))


@pytest.mark.parametrize("public", [MIXED, WEAK_KEYS["the neutral point"]], ids=["mixed order", "neutral"])
def test_a_task_that_names_one_is_refused_by_name(public: str) -> None:
    identities = replace(PARTIES.public, analyzer=bytes.fromhex(public))
    document = signed(replace(sample_task(PARTIES), identities=identities), PARTIES).encode()
    with pytest.raises(TaskError, match=r"the identity of the analyzer is .*, which is weak"):
        SignedTask.decode(document)
