"""Records of keys, batches and hops are read as they were signed, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.keys import Identity, KeyRecord, Role
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord
from hubbub.protos.records.release_chain import ChainPosition, record_hash
from hubbub.protos.sealing.suites import DEFAULT
from support.source_tree import ROOT
from vectors.make_signed import PARTIES, vector_task

FOLDER = ROOT / "tests" / "vectors" / "signed"
SHUFFLER, HOP = (Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in (12, 15))
RECORD = BatchRecord(
    BatchId(vector_task().id, 1, 0),
    120,
    bytes([6]) * 32,
    bytes([7]) * 32,
    "schedule",
    {"too_late": 2},
    30,
    admission="enrolled",
    position=ChainPosition(3, bytes([5]) * 32),
)


def document_of(name: str) -> SignedDocument:
    return SignedDocument.from_json(parse_canonical((FOLDER / name).read_bytes()))


def test_a_batch_record_is_what_it_was() -> None:
    document = document_of("hubbub-batch-1.json")
    assert BatchRecord.read(document, SHUFFLER.public) == RECORD
    assert canonical(RECORD.signed_by(SHUFFLER).as_json()) == (FOLDER / "hubbub-batch-1.json").read_bytes()


def test_a_hop_record_is_what_it_was() -> None:
    document = document_of("hubbub-hop-1.json")
    found = BatchRecord.read(document, SHUFFLER.public, [HOP.public])
    hop = HopRecord(2, RECORD.signed_by(SHUFFLER), 150, {"unopenable": 1}, bytes([8]) * 32, 7)
    assert found.hops == (hop,)
    assert canonical(hop.signed_by(HOP).as_json()) == (FOLDER / "hubbub-hop-1.json").read_bytes()
    assert record_hash(document) == record_hash(RECORD.signed_by(SHUFFLER))


def test_a_key_record_is_what_it_was() -> None:
    document = document_of("hubbub-key-1.json")
    record = KeyRecord.read(document, PARTIES.analyzer.public)
    record.check_for(Role.ANALYZER, vector_task().id, 1, DEFAULT.name)
    assert (record.public_key, record.not_before, record.not_after) == (bytes([9]) * 32, 1_767_229_000, 1_767_240_000)
    assert canonical(record.signed_by(PARTIES.analyzer).as_json()) == (FOLDER / "hubbub-key-1.json").read_bytes()


@pytest.mark.parametrize("name", ["hubbub-batch-1.json", "hubbub-hop-1.json", "hubbub-key-1.json"])
def test_a_changed_byte_of_a_record_is_refused(name: str) -> None:
    whole = (FOLDER / name).read_bytes()
    for place in range(len(whole)):
        document = whole[:place] + bytes([whole[place] ^ 0x01]) + whole[place + 1 :]
        with pytest.raises(HubbubError):
            READ[name](SignedDocument.from_json(parse_canonical(document)))


READ: dict[str, Callable[[SignedDocument], object]] = {
    "hubbub-batch-1.json": lambda document: BatchRecord.read(document, SHUFFLER.public),
    "hubbub-hop-1.json": lambda document: BatchRecord.read(document, SHUFFLER.public, [HOP.public]),
    "hubbub-key-1.json": lambda document: KeyRecord.read(document, PARTIES.analyzer.public),
}
