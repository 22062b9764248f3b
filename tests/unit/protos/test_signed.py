"""Canonical JSON has one form, and a signature holds for one body, one label and one identity."""

import json
import math
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.keys import Identity
from hubbub.protos.signed import (
    Label,
    SignedDocument,
    canonical,
    check_signature,
    fingerprint,
    from_hex,
    parse_canonical,
    shown,
    sign,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


@given(VALUES)
def test_canonical_form_reads_back_as_the_same_value(value: Any) -> None:
    document = canonical(value)
    again = parse_canonical(document)
    assert repr(_sorted(again)) == repr(_sorted(value))
    assert canonical(again) == document


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(member) for member in value] if isinstance(value, list) else value


@given(VALUES)
def test_any_other_form_of_a_value_is_refused(value: Any) -> None:
    document = canonical(value)
    others = {
        json.dumps(value).encode(),
        json.dumps(value, indent=1).encode(),
        json.dumps(value, sort_keys=True, separators=(",", ":")).encode(),
        document + b"\n",
        b" " + document,
        b"\xef\xbb\xbf" + document,
    }
    for other in others - {document}:
        with pytest.raises(SignatureError):
            parse_canonical(other)


def test_known_canonical_forms() -> None:
    value = {"b": [1, 1.0, -0.0, 1e100, 0.1], "a": "é\n\u2028", "": None, "ß": True}
    expected = '{"":null,"a":"é\\n\u2028","b":[1,1.0,-0.0,1e+100,0.1],"ß":true}'
    assert canonical(value) == expected.encode()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"[1,]",
        b'{"a":1 }',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'[{"a":{"b":1,"b":1}}]',
        b"NaN",
        b"[NaN]",
        b'{"a":NaN}',
        b"Infinity",
        b"[-Infinity]",
        b"1e999",
        b"[1e999]",
        b'{"a":-1e999}',
        b"1E5",
        b"1e5",
        b"100000.00",
        b"1.",
        b"01",
        b"+1",
        b"-0",
        b"0.10",
        b'"\\u0061"',
        b'"\\u00e9"',
        b'"\\/"',
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'{"\\ud800":1}',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"\x01"',
        b"'a'",
        b"true false",
        b"nul",
        b"\x00",
        b"9" * 5000,
        b"-" + b"9" * 5000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "[1]".encode("utf-16"),
    ],
    ids=lambda document: repr(document[:24]),
)
def test_bytes_of_no_or_another_form_are_refused(document: bytes) -> None:
    with pytest.raises(SignatureError):
        parse_canonical(document)


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, [-math.inf], b"bytes", {1, 2}, object()),
        *({1: "a"}, {None: 1}, {True: 1}, [{"a": {2.5: 1}}], {Number.ONE: 1}),
        *("\ud800", {"\udfff": 1}, 10**5000, deep(100_000)),
    ],
    ids=range(15),
)
def test_values_without_a_form_are_refused(value: Any) -> None:
    with pytest.raises(SignatureError):
        canonical(value)


def test_whole_numbers_and_floats_differ_in_form() -> None:
    assert len({canonical(value) for value in (1, 1.0, True, "1")}) == 4
    assert len({canonical(value) for value in (0, 0.0, -0.0, False, None)}) == 5


@given(st.binary(max_size=60))
def test_only_hubbub_errors_come_out_of_parsing(document: bytes) -> None:
    try:
        value = parse_canonical(document)
    except HubbubError:
        return
    assert canonical(value) == document


BODY = b'{"task":"a"}'
KEY = Identity.generate()
OTHER = Identity.generate()


def test_signature_holds_for_its_body_label_and_identity() -> None:
    for label in Label:
        check_signature(label, BODY, sign(label, BODY, KEY.key), KEY.public)


def test_signature_under_another_label_is_refused() -> None:
    for label in Label:
        signature = sign(label, BODY, KEY.key)
        for other in set(Label) - {label}:
            with pytest.raises(SignatureError, match=other.value.removeprefix("hubbub/v1 ")):
                check_signature(other, BODY, signature, KEY.public)


def test_no_label_begins_another_with_its_separator() -> None:
    labels = [label.value.encode() + b"\0" for label in Label]
    for label in labels:
        assert b"\0" not in label[:-1]
        assert label.startswith(b"hubbub/v1 ")
        assert sum(other.startswith(label) for other in labels) == 1


def test_signature_of_another_identity_is_refused() -> None:
    with pytest.raises(SignatureError, match=fingerprint(OTHER.public)):
        check_signature(Label.TASK, BODY, sign(Label.TASK, BODY, KEY.key), OTHER.public)


def test_every_changed_bit_of_body_and_signature_is_refused() -> None:
    signature = sign(Label.TASK, BODY, KEY.key)
    for place in range(8 * len(BODY)):
        with pytest.raises(SignatureError):
            check_signature(Label.TASK, _flipped(BODY, place), signature, KEY.public)
    for place in range(8 * len(signature)):
        with pytest.raises(SignatureError):
            check_signature(Label.TASK, BODY, _flipped(signature, place), KEY.public)


def _flipped(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_identities_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(SignatureError):
        check_signature(Label.TASK, BODY, sign(Label.TASK, BODY, KEY.key), bytes(length))


@pytest.mark.parametrize("length", [0, 63, 65, 128])
def test_signatures_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(SignatureError):
        check_signature(Label.TASK, BODY, bytes(length), KEY.public)


def test_document_gives_back_what_was_signed() -> None:
    content = {"b": 1, "a": [1.5, "é"]}
    document = SignedDocument.make(Label.CERTIFICATE, content, KEY.key)
    assert document.content(Label.CERTIFICATE, KEY.public) == content
    assert SignedDocument.from_json(json.loads(json.dumps(document.as_json()))) == document


def test_document_that_is_no_mapping_is_refused_though_it_is_signed() -> None:
    for body in (b"[1]", b"1", b'"a"', b"null"):
        document = SignedDocument(body, sign(Label.CERTIFICATE, body, KEY.key))
        with pytest.raises(SignatureError, match="mapping"):
            document.content(Label.CERTIFICATE, KEY.public)


def test_signed_body_of_another_form_is_refused() -> None:
    body = b'{"a": 1}'
    with pytest.raises(SignatureError, match="canonical"):
        SignedDocument(body, sign(Label.CERTIFICATE, body, KEY.key)).content(Label.CERTIFICATE, KEY.public)


@pytest.mark.parametrize(
    "value",
    [
        *(None, 1, [], "body", {}, {"body": {}}, {"signature": "00"}, {"body": [], "signature": "00" * 64}),
        *({"body": {}, "signature": "00" * 63}, {"body": {}, "signature": "AA" * 64}, {"body": {}, "signature": 5}),
        *({"body": {}, "signature": "00" * 64, "more": 1}, {"body": {"a": math.nan}, "signature": "00" * 64}),
    ],
    ids=range(13),
)
def test_documents_of_another_form_are_refused(value: Any) -> None:
    with pytest.raises(SignatureError):
        SignedDocument.from_json(value)


@pytest.mark.parametrize("text", ["", "0", "000", "AA", "0x", " 0", "0\n", "٠٠", "a ", "zz", None, 7, b"00"])
def test_hex_of_another_form_is_refused(text: Any) -> None:
    with pytest.raises(SignatureError, match="digits"):
        from_hex(text, 1, "digits")


def test_white_space_does_not_pass_for_hex_digits() -> None:
    """`bytes.fromhex` skips white space: such a text would yield fewer bytes than it has digits for."""
    for text in ("aa  ", "  aa", "aa\n\n", "aa \t"):
        with pytest.raises(SignatureError):
            from_hex(text, 2, "x")


def test_errors_show_no_more_than_a_line_of_a_value() -> None:
    assert len(shown("x" * 10_000)) == 80
    assert len(shown(16**20_000)) <= 80
    assert len(shown(deep(100_000))) <= 80
    with pytest.raises(SignatureError) as caught:
        from_hex("x" * 10_000, 2, "x")
    assert len(str(caught.value)) < 200


def test_fingerprint_shows_the_whole_key() -> None:
    assert fingerprint(bytes(range(32))).replace("-", "") == bytes(range(32)).hex()
