"""Encapsulation is that of RFC 9458, by its own example, and nothing opens that was changed or is for another key."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke.kem_key import KEMKey, KEMKeyPair

from hubbub.protos.errors import MessageError
from hubbub.protos.oblivious.encapsulation import (
    AES_128_GCM,
    CHACHA20_POLY1305,
    OVERHEAD_BYTES,
    KeyConfiguration,
    ObliviousKey,
    ObliviousKeys,
    UnknownObliviousKey,
    seal_request,
    write_configurations,
)

RFC = {
    name: bytes.fromhex(value)
    for name, value in json.loads((Path(__file__).parents[3] / "vectors" / "oblivious.json").read_text())[
        "ohttp"
    ].items()
}
MESSAGE = b"a message"


def pair(private: bytes) -> KEMKeyPair:
    key = X25519PrivateKey.from_private_bytes(private)
    return KEMKeyPair(
        KEMKey.from_pyca_cryptography_key(key),
        KEMKey.from_pyca_cryptography_key(key.public_key()),
    )


OF_THE_RFC = ObliviousKey(1, pair(RFC["gateway_private_key"]))
OURS = ObliviousKey.derived(7, bytes(range(32)))


def test_the_key_configuration_of_the_rfc_is_read_and_written() -> None:
    found = KeyConfiguration.decode(RFC["key_configuration"])
    assert found == KeyConfiguration(1, found.public_key, (AES_128_GCM, CHACHA20_POLY1305))
    assert found.encode() == RFC["key_configuration"]
    assert found.public_key == OF_THE_RFC.configuration.public_key
    assert write_configurations([found, found]) == 2 * (b"\0\x2d" + RFC["key_configuration"])


def test_the_request_and_the_response_of_the_rfc_are_made_and_opened() -> None:
    configuration = KeyConfiguration.decode(RFC["key_configuration"])
    sealed, opener = seal_request(configuration, RFC["request"], pair(RFC["ephemeral_private_key"]))
    assert sealed == RFC["encapsulated_request"]
    message, sealer = ObliviousKeys([OF_THE_RFC]).open(sealed)
    assert message == RFC["request"]
    answer = sealer.seal(RFC["response"], lambda length: RFC["response_nonce"][:length])
    assert answer == RFC["encapsulated_response"]
    assert opener.open(answer) == RFC["response"]


@pytest.mark.parametrize("aead", [AES_128_GCM, CHACHA20_POLY1305])
def test_either_aead_is_opened_and_a_response_opens_for_its_request_alone(aead: int) -> None:
    configuration = KeyConfiguration(7, OURS.configuration.public_key, (aead,))
    sealed, opener = seal_request(configuration, MESSAGE)
    assert len(sealed) == len(MESSAGE) + OVERHEAD_BYTES
    _, other = seal_request(configuration, MESSAGE)
    message, sealer = ObliviousKeys([OF_THE_RFC, OURS]).open(sealed)
    assert message == MESSAGE
    answer = sealer.seal(b"an answer")
    assert opener.open(answer) == b"an answer"
    with pytest.raises(MessageError, match="does not open"):
        other.open(answer)


def test_a_repeated_request_has_another_answer_in_bytes() -> None:
    sealed, opener = seal_request(OURS.configuration, MESSAGE)
    keys = ObliviousKeys([OURS])
    first, second = (keys.open(sealed)[1].seal(b"an answer") for _ in range(2))
    assert first != second
    assert opener.open(first) == opener.open(second)


def test_no_changed_byte_opens() -> None:
    sealed, opener = seal_request(OURS.configuration, MESSAGE)
    keys = ObliviousKeys([OURS])
    answer = keys.open(sealed)[1].seal(b"an answer")
    for place in range(len(sealed)):
        with pytest.raises(MessageError):
            keys.open(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
    for place in range(len(answer)):
        with pytest.raises(MessageError):
            opener.open(answer[:place] + bytes([answer[place] ^ 1]) + answer[place + 1 :])


def test_what_is_cut_does_not_open() -> None:
    sealed, opener = seal_request(OURS.configuration, MESSAGE)
    keys = ObliviousKeys([OURS])
    answer = keys.open(sealed)[1].seal(b"an answer")
    for length in range(len(sealed)):
        with pytest.raises(MessageError):
            keys.open(sealed[:length])
    for length in range(len(answer)):
        with pytest.raises(MessageError):
            opener.open(answer[:length])


def test_an_unknown_key_has_an_error_of_its_own() -> None:
    sealed, _ = seal_request(OURS.configuration, MESSAGE)
    for keys in (ObliviousKeys([OF_THE_RFC]), ObliviousKeys()):
        with pytest.raises(UnknownObliviousKey, match="ask for the keys again"):
            keys.open(sealed)
    # The same id, and another key.
    with pytest.raises(MessageError, match="does not open") as error:
        ObliviousKeys([ObliviousKey.derived(7, bytes(32))]).open(sealed)
    assert not isinstance(error.value, UnknownObliviousKey)


def test_a_point_of_low_order_is_refused_on_both_sides() -> None:
    with pytest.raises(MessageError, match="do not trust"):
        seal_request(KeyConfiguration(7, bytes(32)), MESSAGE)
    sealed, _ = seal_request(OURS.configuration, MESSAGE)
    with pytest.raises(MessageError, match="does not open"):
        ObliviousKeys([OURS]).open(sealed[:7] + bytes(32) + sealed[39:])


@pytest.mark.parametrize(
    "changed",
    [
        b"",
        RFC["key_configuration"][:-1],
        RFC["key_configuration"] + b"\0",
        RFC["key_configuration"].replace(b"\0\x20", b"\0\x10", 1),
        RFC["key_configuration"].replace(b"\0\x08", b"\0\x04", 1),
        RFC["key_configuration"][:37],
        RFC["key_configuration"][:35] + b"\0\4\0\1\0\2",
    ],
)
def test_malformed_key_configurations_are_refused(changed: bytes) -> None:
    with pytest.raises(MessageError):
        KeyConfiguration.decode(changed)


def test_the_first_key_is_the_one_that_is_shown_and_none_is_printed() -> None:
    keys = ObliviousKeys([OURS, OF_THE_RFC])
    assert keys.preferred == OURS.configuration
    assert keys.configurations == write_configurations([OURS.configuration])
    assert repr(OURS) == "ObliviousKey(7)"
