"""Canonical JSON has one form, and a signature holds for one body, one label and one identity."""

import json
import math
import shutil
import struct
import subprocess
from enum import IntEnum
from random import Random
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity import documents
from hubbub.protos.identity.documents import (
    SignedDocument,
    canonical,
    check_signature,
    fingerprint,
    from_hex,
    parse_canonical,
    shown,
    sign,
    with_floats,
)
from hubbub.protos.identity.formats import CERTIFICATE, SIGNED, TASK, Label, in_words
from hubbub.protos.identity.keys import Identity
from support.messages import NOT_SIGNED_BY
from support.source_tree import ROOT

SAFE = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
EDGES = (*(1e21, 1e-7, 1e-6, 5e-324, 1.7976931348623157e308, -0.0, 0.1, 4.0, 1e16), *(2.0**53 + i for i in (-1, 0, 2)))
NEIGHBORS = [math.nextafter(edge, end) for edge in EDGES for end in (-math.inf, math.inf)]
FINITE = [number for number in (*EDGES, *NEIGHBORS) if math.isfinite(number)]
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(FINITE)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_form_reads_back_as_the_same_value(value: Any) -> None:
    document = canonical(value)
    again = parse_canonical(document)
    assert repr(_sorted(again)) == repr(_sorted(_whole(value)))
    assert again == value
    assert canonical(again) == document


PLAIN = st.text(st.characters(min_codepoint=0, max_codepoint=255), max_size=8) | st.sampled_from(["\x7f", '"\\/', "é"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-SAFE - 2, SAFE + 2) | PLAIN,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN, inner, max_size=4),
        max_leaves=12,
    )
)
def test_what_is_written_quickly_is_what_rfc_8785_has(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        with pytest.raises(SignatureError):
            canonical(value)
        return
    assert canonical(value) == expected


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(member) for member in value] if isinstance(value, list) else value


def _whole(value: Any) -> Any:
    """A value as it is read: a float of whole value, up to where ECMAScript is exact, is that whole number."""
    if isinstance(value, dict):
        return {key: _whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    return int(value) if isinstance(value, float) and abs(value) <= SAFE and value.is_integer() else value


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


VALUE = {"b": [1, 1.0, -0.0, 1e100, 0.1, 1e-06, 1e16], "a": "é\n\u2028", "": None, "ß": True, "😀": 1, "\ufb33": 2}


def _listed(parts: list[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def _members(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    keys = st.sampled_from([b'"a"', b'"b"', b'"1e-05"', b'"0.00001"'])
    pairs = st.lists(st.tuples(keys, inner).map(b":".join), max_size=3)
    return (pairs | pairs.map(sorted)).map(lambda found: b"{" + b",".join(found) + b"}")


@pytest.mark.parametrize(
    "document",
    [
        b'{"a":0.00001,"b":["1e-05",1e-7],"c":[1.5,-2,0],"d":{"e":null,"f":true}}',
        b'[[[]],"[{",{"]":1e+21,"}":900719925474099}]',
    ],
)
def test_a_plain_document_is_read_without_being_looked_through(
    document: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = documents._read(document)
    monkeypatch.setattr(documents, "_read", None)
    monkeypatch.setattr(documents, "canonical", None)
    assert repr(parse_canonical(document)) == repr(expected)


NUMBERS = b"0 -0 1.0 1e-05 0.00001 1e-7 1e-07 1e+21 1e21 1e999 NaN null 9007199254740991 9007199254740992"
TEXTS = (b'"a"', b'"1e-05"', b'"1e-7"', b'"\x7f"', b'"\\u0061"', b'"\xc3\xa9"')
PIECES = st.sampled_from([b" ", *NUMBERS.split(), *TEXTS])


@given(st.recursive(PIECES, lambda inner: st.lists(inner, max_size=3).map(_listed) | _members(inner), max_leaves=8))
def test_whatever_way_a_document_is_read_the_same_ones_are_refused(document: bytes) -> None:
    try:
        value = documents._read(document)
        expected = value if canonical(value) == document else SignatureError
    except SignatureError:
        expected = SignatureError
    try:
        found = parse_canonical(document)
    except SignatureError:
        found = SignatureError
    assert repr(found) == repr(expected)


def test_known_canonical_forms() -> None:
    numbers = "[1,1,0,1e+100,0.1,0.000001,10000000000000000]"
    expected = f'{{"":null,"a":"é\\n\u2028","b":{numbers},"ß":true,"😀":1,"\ufb33":2}}'
    assert canonical(VALUE) == expected.encode()


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (b"4", 4),
        (b"-4", -4),
        (b"9007199254740991", SAFE),
        (b"-9007199254740991", -SAFE),
        (b"9007199254740992", 2.0**53),
        (b"-9007199254740992", -(2.0**53)),
        (b"9007199254740994", 2.0**53 + 2),
        (b"100000000000000000000", 1e20),
        (b"1e+21", 1e21),
        (b"0.000001", 1e-6),
        (b"1e-7", 1e-7),
        (b"5e-324", 5e-324),
        (b"1.7976931348623157e+308", 1.7976931348623157e308),
        (b"0", 0),
    ],
    ids=lambda part: repr(part)[:24],
)
def test_whole_numbers_are_ints_where_they_are_exact_and_floats_beyond(document: bytes, value: float) -> None:
    read = parse_canonical(document)
    assert repr(read) == repr(value)
    assert canonical(read) == document


@pytest.mark.parametrize(
    "document",
    [
        *(b"4.0", b"-0.0", b"-0", b"1e-06", b"1e+16", b"1e21", b"1E+21", b"1.0e+21", b"0.0000001", b"1e-6"),
        *(b"9007199254740993", b"100000000000000000001", b"1000000000000000000000", b"9" * 400, b"[0.10]"),
        b'{"\xef\xac\xb3":2,"\xf0\x9f\x98\x80":1}',
    ],
    ids=lambda document: repr(document[:24]),
)
def test_numbers_and_keys_as_others_write_them_are_refused(document: bytes) -> None:
    with pytest.raises(SignatureError, match="canonical"):
        parse_canonical(document)


def test_whole_number_that_ecmascript_cannot_tell_from_the_next_has_no_form() -> None:
    for value in (SAFE + 1, -SAFE - 1, 10**40, [2**64], {"a": 10**400}):
        with pytest.raises(SignatureError, match="no canonical form") as caught:
            canonical(value)
        assert len(str(caught.value)) < 300


def test_floats_come_back_where_they_are_meant() -> None:
    members = {"a": 4, "b": 4, "c": True, "d": None, "e": "4", "f": SAFE, "g": 2**53, "h": [4], "i": 0}
    assert repr(with_floats(members, set(members) - {"b"})) == repr({**members, "a": 4.0, "f": float(SAFE), "i": 0.0})
    for other in (None, 4, [4], "a"):
        assert with_floats(other, {"a"}) is other


# The vectors of RFC 8785 and of ECMAScript

RFC = json.loads((ROOT / "tests" / "vectors" / "wire" / "rfc8785.json").read_text())


@pytest.mark.parametrize("vector", RFC["numbers"], ids=lambda vector: vector["bits"])
def test_numbers_of_the_rfc(vector: dict[str, str]) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(vector["bits"]))
    if "text" not in vector:
        with pytest.raises(SignatureError):
            canonical(number)
        return
    assert canonical(number) == vector["text"].encode()
    assert parse_canonical(vector["text"].encode()) == number


@pytest.mark.parametrize("vector", RFC["documents"], ids=lambda vector: vector["what"])
def test_documents_of_the_rfc(vector: dict[str, str]) -> None:
    expected = bytes.fromhex(vector["canonical"])
    assert canonical(json.loads(vector["input"])) == expected
    assert canonical(parse_canonical(expected)) == expected


def test_no_vector_of_the_rfc_is_skipped() -> None:
    assert (len(RFC["numbers"]), len(RFC["documents"])) == (RFC["count"]["numbers"], RFC["count"]["documents"])


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js, to ask ECMAScript itself")
def test_ecmascript_writes_the_same_bytes() -> None:
    draw = Random(8785)
    drawn = [struct.unpack(">d", draw.randbytes(8))[0] for _ in range(20_000)]
    numbers = [
        number for number in (*FINITE, *drawn, *(draw.uniform(-100, 100) for _ in range(2000))) if number == number
    ]
    finite = [number for number in numbers if math.isfinite(number)]
    # Python's JSON reads the same doubles in ECMAScript: both parse decimals exactly.
    program = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8'))))"
    ran = subprocess.run(["node", "-e", program], input=json.dumps(finite).encode(), capture_output=True, check=True)
    assert ran.stdout == canonical(finite)


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


def test_whole_numbers_and_floats_are_written_alike() -> None:
    assert len({canonical(value) for value in (1, 1.0, True, "1")}) == 3
    assert len({canonical(value) for value in (0, 0.0, -0.0, False, None)}) == 3


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
LABELS = [*Label, *(kind.format for kind in SIGNED)]


def test_signature_holds_for_its_body_label_and_identity() -> None:
    for label in LABELS:
        check_signature(label, BODY, sign(label, BODY, KEY.key), KEY.public)


def test_signature_under_another_label_is_refused() -> None:
    for label in LABELS:
        signature = sign(label, BODY, KEY.key)
        for other in set(LABELS) - {label}:
            with pytest.raises(SignatureError, match=f"the {in_words(other)}'s {NOT_SIGNED_BY}"):
                check_signature(other, BODY, signature, KEY.public)


def test_no_label_begins_another_with_its_separator() -> None:
    labels = [label.encode() + b"\0" for label in LABELS]
    for label in labels:
        assert b"\0" not in label[:-1]
        assert label.startswith((b"hubbub/v1 ", b"hubbub-"))
        assert sum(other.startswith(label) for other in labels) == 1


def test_signature_of_another_identity_is_refused() -> None:
    with pytest.raises(SignatureError, match=fingerprint(OTHER.public)):
        check_signature(TASK.format, BODY, sign(TASK.format, BODY, KEY.key), OTHER.public)


def test_every_changed_bit_of_body_and_signature_is_refused() -> None:
    signature = sign(TASK.format, BODY, KEY.key)
    for place in range(8 * len(BODY)):
        with pytest.raises(SignatureError):
            check_signature(TASK.format, _flipped(BODY, place), signature, KEY.public)
    for place in range(8 * len(signature)):
        with pytest.raises(SignatureError):
            check_signature(TASK.format, BODY, _flipped(signature, place), KEY.public)


def _flipped(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_identities_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(SignatureError):
        check_signature(TASK.format, BODY, sign(TASK.format, BODY, KEY.key), bytes(length))


@pytest.mark.parametrize("length", [0, 63, 65, 128])
def test_signatures_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(SignatureError):
        check_signature(TASK.format, BODY, bytes(length), KEY.public)


def test_document_gives_back_what_was_signed() -> None:
    content = {"b": 1, "a": [1.5, "é"], "format": CERTIFICATE.format}
    document = SignedDocument.make(CERTIFICATE, content, KEY.key)
    assert document.content(CERTIFICATE, KEY.public) == content
    assert SignedDocument.from_json(json.loads(json.dumps(document.as_json()))) == document


def test_document_that_is_no_mapping_is_refused_though_it_is_signed() -> None:
    for body in (b"[1]", b"1", b'"a"', b"null"):
        document = SignedDocument(body, sign(CERTIFICATE.format, body, KEY.key))
        with pytest.raises(SignatureError, match="mapping"):
            document.content(CERTIFICATE, KEY.public)


def test_signed_body_of_another_form_is_refused() -> None:
    body = b'{"a": 1}'
    with pytest.raises(SignatureError, match="canonical"):
        SignedDocument(body, sign(CERTIFICATE.format, body, KEY.key)).content(CERTIFICATE, KEY.public)


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
