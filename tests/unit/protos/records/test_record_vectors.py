"""Records of batches and of hops are read as they were signed, byte for byte."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.keys import Identity
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord
from hubbub.protos.records.release_chain import Place, record_hash

FOLDER = Path(__file__).parents[3] / "vectors" / "signed"
SHUFFLER, HOP = (Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in (12, 15))
TASK = bytes.fromhex("db0c2da7190c26cebbf6566c20613e7208642ba98b735aaa0b89217b95094a20")
RECORD = BatchRecord(
    BatchId(TASK, 1, 0),
    120,
    bytes([6]) * 32,
    bytes([7]) * 32,
    "schedule",
    {"too_late": 2},
    30,
    "enrolled",
    place=Place(3, bytes([5]) * 32),
)


def document_of(name: str) -> SignedDocument:
    return SignedDocument.from_json(parse_canonical((FOLDER / name).read_bytes()))


def test_a_batch_record_of_version_2_is_what_it_was() -> None:
    document = document_of("hubbub-batch-2.json")
    assert BatchRecord.read(document, SHUFFLER.public) == RECORD
    assert canonical(RECORD.signed_by(SHUFFLER).as_json()) == (FOLDER / "hubbub-batch-2.json").read_bytes()


def test_a_hop_record_of_version_1_is_what_it_was() -> None:
    document = document_of("hubbub-hop-1.json")
    found = BatchRecord.read(document, SHUFFLER.public, [HOP.public])
    hop = HopRecord(2, RECORD.signed_by(SHUFFLER), 150, {"unopenable": 1}, bytes([8]) * 32)
    assert found.hops == (hop,)
    assert canonical(hop.signed_by(HOP).as_json()) == (FOLDER / "hubbub-hop-1.json").read_bytes()
    assert record_hash(document) == record_hash(RECORD.signed_by(SHUFFLER))
