"""The vectors of chains: the Python client takes and refuses their keys, and each party opens its layer of them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener, Sealer, inner_bytes
from hubbub.protos.sealing.suites import suite_named
from support.fixed_hpke import public_of, sealed
from support.source_tree import ROOT
from vectors.make_hops import FILE, Chain, encoded

KEPT = json.loads(FILE.read_bytes())


def test_the_file_is_what_its_program_writes() -> None:
    assert encoded() == FILE.read_bytes()


@pytest.mark.parametrize("case", KEPT["round_keys"]["sets"], ids=lambda case: case["what"])
def test_keys_of_a_chain_are_taken_or_refused(case: dict[str, Any]) -> None:
    def read(record: dict[str, str]) -> SignedDocument:
        return SignedDocument(base64.b64decode(record["body"]), bytes.fromhex(record["signature"]))

    key_set, about = KeySet(read(case["shuffler"]), read(case["analyzer"])), KEPT["round_keys"]
    assert key_set.hash.hex() == case["key_set_hash"]

    def taken() -> VerifiedRoundKeys:
        found = VerifiedRoundKeys.read(key_set, Chain.of(2).task, about["round"])
        found.sealer(about["now"])
        return found

    if case["because"] is None:
        assert [hop.public_key for hop in taken().hops] == [public_of(bytes([each]) * 32) for each in (62, 63)]
        return
    with pytest.raises(HubbubError):
        taken()


def test_cases_have_each_word() -> None:
    words = {case["because"] for case in KEPT["round_keys"]["sets"]}
    assert words == {None, "hops", "signature", "round", "task", "time", "role", "value"}


@pytest.mark.parametrize("case", KEPT["sealed"], ids=lambda case: f"{len(case['private']) - 2} hops")
def test_each_party_opens_its_layer(case: dict[str, Any]) -> None:
    to, suite = case["destination"], suite_named(case["suite"])
    where = Destination(bytes.fromhex(to["task_id"]), to["round"], bytes.fromhex(to["key_set_hash"]))
    private = {name: bytes.fromhex(key) for name, key in case["private"].items()}
    reports, hops = [bytes.fromhex(each) for each in case["reports"]], len(private) - 2
    lengths = [inner_bytes(len(report), suite, 1 + hops) for report in reports]
    submission_id = bytes.fromhex(case["submission_id"])
    inners = OuterOpener(where, private["shuffler"], lengths, suite).open(bytes.fromhex(case["outer"]), submission_id)
    envelopes = [layer["envelope"] for layer in case["layers"]]
    for query, (inner, report) in enumerate(zip(inners, reports, strict=True)):
        for position in range(2, 2 + hops):
            assert inner.hex() in envelopes
            inner = InnerOpener(where, private[f"hop-{position}"], query, suite, position).open(inner)
        assert inner.hex() in envelopes
        assert InnerOpener(where, private["analyzer"], query, suite).open(inner) == report
    # A device's own sealer makes layers of these lengths.
    hop_keys = [public_of(private[f"hop-{position}"]) for position in range(2, 2 + hops)]
    sealer = Sealer(where, public_of(private["shuffler"]), public_of(private["analyzer"]), suite, hop_keys)
    made = sealer.outer([sealer.inner(report, query) for query, report in enumerate(reports)], submission_id)
    assert len(made) * 2 == len(case["outer"])


def test_a_given_ephemeral_key_gives_the_vector_of_the_rfc() -> None:
    """Of A.2.1, whose ephemeral key the RFC prints. Its encryption has associated data, so only the key is compared."""
    (vector,) = (
        each
        for each in json.loads((ROOT / "tests" / "vectors" / "wire" / "rfc9180.json").read_text())["vectors"]
        if each["aead"] == "ChaCha20Poly1305"
    )
    ephemeral = bytes.fromhex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600")
    made = sealed(b"plain", bytes.fromhex(vector["pkRm"]), bytes.fromhex(vector["info"]), ephemeral)
    assert made[:32].hex() == vector["enc"]
