"""The HPKE implementation underneath agrees with the vectors of RFC 9180."""

import json

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from hubbub.protos.sealing.suites import X25519
from support.source_tree import ROOT

FILE = json.loads((ROOT / "tests" / "vectors" / "wire" / "rfc9180.json").read_text())
AEADS = {"AES-128-GCM": AEAD.AES_128_GCM, "ChaCha20Poly1305": AEAD.CHACHA20_POLY1305}
VECTORS = [pytest.param(vector, id=vector["source"]) for vector in FILE["vectors"]]


def suite_of(vector: dict[str, str]) -> Suite:
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEADS[vector["aead"]])


def test_no_vector_is_skipped() -> None:
    assert len(VECTORS) == FILE["count"] == 2
    assert {vector["aead"] for vector in FILE["vectors"]} == set(AEADS)


@pytest.mark.parametrize("vector", VECTORS)
def test_published_ciphertext_opens(vector: dict[str, str]) -> None:
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(vector["skRm"]))
    assert key.public_key().public_bytes_raw().hex() == vector["pkRm"]
    sealed, info, aad = (bytes.fromhex(vector[name]) for name in ("enc", "info", "aad"))
    plain = openssl.hpke._decrypt_with_aad(suite_of(vector), sealed + bytes.fromhex(vector["ct"]), key, info, aad)
    assert plain.hex() == vector["pt"]


@pytest.mark.parametrize("vector", VECTORS)
def test_every_changed_byte_of_the_ciphertext_is_refused(vector: dict[str, str]) -> None:
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(vector["skRm"]))
    info, aad = bytes.fromhex(vector["info"]), bytes.fromhex(vector["aad"])
    sealed = bytes.fromhex(vector["enc"] + vector["ct"])
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 0x01
        with pytest.raises(InvalidTag):
            openssl.hpke._decrypt_with_aad(suite_of(vector), bytes(changed), key, info, aad)


@pytest.mark.parametrize("vector", VECTORS)
def test_other_info_or_associated_data_is_refused(vector: dict[str, str]) -> None:
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(vector["skRm"]))
    info, aad = bytes.fromhex(vector["info"]), bytes.fromhex(vector["aad"])
    sealed = bytes.fromhex(vector["enc"] + vector["ct"])
    for other_info, other_aad in ((info + b"\0", aad), (b"", aad), (info, b""), (info + aad, b"")):
        with pytest.raises(InvalidTag):
            openssl.hpke._decrypt_with_aad(suite_of(vector), sealed, key, other_info, other_aad)


def test_envelopes_use_the_suite_that_they_name() -> None:
    assert X25519.name == "X25519-HKDF-SHA256-CHACHA20POLY1305"
    assert _opens_with(Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305))
    assert not _opens_with(Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM))


def _opens_with(suite: Suite) -> bool:
    key = X25519PrivateKey.generate()
    sealed = X25519.encrypt(b"plain", key.public_key(), b"info")
    try:
        return suite.decrypt(sealed, key, info=b"info") == b"plain"
    except InvalidTag:
        return False
