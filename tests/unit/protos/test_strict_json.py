"""JSON that readers take differently is refused, with its place, and all other JSON is read as it is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.errors import AccountingError
from hubbub.cli.mechanisms import exact_json
from hubbub.client.errors import StateError
from hubbub.client.state.longitudinal import read_memories
from hubbub.deploy.pki.tickets import _printed
from hubbub.planning.capacity import read_costs
from hubbub.protos.errors import HubbubError, SignatureError, UsageError
from hubbub.protos.identity.documents import is_json, parse_canonical
from hubbub.protos.strict_json import (
    DEEPEST,
    LONGEST_NUMBER,
    LONGEST_WHOLE,
    JsonError,
    NotJson,
    as_json,
    read_json,
)
from hubbub.protos.task.signed_task import SignedTask
from hubbub.verification.certificate import Pins, VerificationError, verify
from hubbub.verification.results_files import read_every

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Texts have no halves of surrogate pairs.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(value=values, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
def test_what_one_writer_writes_is_read_as_it_was(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read_json(text) == read_json(text.encode()) == json.loads(text) == as_json(value)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b'{"a": 1, "a": 2}', "the key 'a' occurs twice; keep the right one of both members (at its top)"),
        (b'{"a": 1, "\\u0061": 1}', "the key 'a' occurs twice"),
        (b'{"": 1, "": 2}', "the key '' occurs twice"),
        (b'{"q": [0, {"x": {"k": 1, "j": 3, "k": 2}}]}', "keep the right one of both members (q[1].x)"),
        (b'{"a": {"b": 1, "b": 1}, "a": 2}', "the key 'a' occurs twice"),
        (b'{"a": NaN}', "NaN is not a number; give a finite one, or null (a)"),
        (b"[[-Infinity]]", "-Infinity is not a number; give a finite one, or null ([0][0])"),
        (b'{"a": [1, 1e999]}', "the number '1e999' is too large; give one that is less than 1.8e308 (a[1])"),
        (b"-1e400", "the number '-1e400' is too large; give one that is less than 1.8e308 (at its top)"),
        (b"[" + b"9" * (LONGEST_WHOLE + 1) + b"]", "a number has 41 characters; give at most 40 ([0])"),
        (b"0." + b"1" * LONGEST_NUMBER, "a number has 1002 characters; give at most 1000"),
        (b'{"a": "\\ud800"}', "a text has half of a surrogate pair; write the whole character (a)"),
        (b'{"\\uDFFF": 1}', "a text has half of a surrogate pair; write the whole character (at its top)"),
        (b'["\\udc00\\ud800"]', "a text has half of a surrogate pair; write the whole character ([0])"),
        ("\ud800", "it has half of a surrogate pair at character 0"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "it has more than 100 values within each other"),
        (b'{"a":' * 200_000, "it has more than 100 values within each other"),
    ],
)  # fmt: skip
def test_what_readers_take_differently_is_refused_with_its_place(document: bytes | str, problem: str) -> None:
    with pytest.raises(JsonError) as caught:
        read_json(document)
    assert problem in str(caught.value)
    assert type(caught.value) is JsonError


@pytest.mark.parametrize(
    ("document", "problem", "is_cut"),
    [
        (b"", "Expecting value at line 1, column 1", True),
        (b'{"a": ', "Expecting value at line 1, column 7; give it whole and unchanged", True),
        (b'{"a": {"b": 1, "b": 2}, ', "line 1, column", True),
        (b'{"a": 1}\n{"a": 1}', "Extra data at line 2, column 1", False),
        (b'{"a": 1}\x00', "Extra data at line 1, column 9", False),
        (b'{"a": 01}', "delimiter at line 1, column 8", False),
        (b"{'a': 1}", "line 1, column 2", False),
        (b'{"a": 1,}', "line 1, column", False),
        (b'["a\nb"]', "Invalid control character at line 1, column 4", False),
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark; save it as UTF-8 without one", False),
        ("\ufeff{}", "it begins with a byte order mark", False),
        ('{"a": 1}'.encode("utf-16"), "it begins with a byte order mark", False),
        ('{"a": 1}'.encode("utf-16-be"), "at line 1, column 1", False),
        (b'{"a": "\xff"}', "it is not UTF-8 at byte 7: invalid start byte; save it as UTF-8", False),
        (b'{"a": "\xed\xa0\x80"}', "it is not UTF-8 at byte 7", False),
        (b'{"a": "\xc0\xaf"}', "it is not UTF-8 at byte 7", False),
        # A text that does not end: its brackets are none, and each of its quotes is looked at once.
        (b'[{}, "' + b"[" * 200, "Unterminated string starting at line 1, column 6", True),
        (b"[" + b"[]," * DEEPEST + b'"' + b'\\"' * 2**20, "Unterminated string starting at line 1, column 302", True),
    ],
)
def test_what_is_no_json_is_said_to_be_none(document: bytes | str, problem: str, is_cut: bool) -> None:
    with pytest.raises(NotJson) as caught:
        read_json(document)
    assert problem in str(caught.value)
    assert caught.value.cut_short is is_cut


def test_the_limits_themselves_are_read() -> None:
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    assert str(read_json(deep)).count("[") == DEEPEST
    # Brackets in a text are none.
    assert read_json(b'{"a": "' + b"[{" * 500 + b'\\""}') == {"a": "[{" * 500 + '"'}
    assert read_json(b"9" * LONGEST_WHOLE) == int("9" * LONGEST_WHOLE)
    assert read_json(b"[1,2]", largest=5) == [1, 2]
    with pytest.raises(JsonError, match="it has 5 bytes, but at most 4 are read"):
        read_json(b"[1,2]", largest=4)
    assert read_json('"\\ud83d\\ude00"') == "😀"


def test_numbers_are_made_as_asked_and_every_digit_counts() -> None:
    found = read_json(b"[0.1, 1e400, " + b"9" * 200 + b"]", whole=int, fraction=Decimal)
    assert found == [Decimal("0.1"), Decimal("1e400"), int("9" * 200)]
    with pytest.raises(JsonError, match="a number has 1001 characters"):
        read_json(b"9" * 1001, whole=int)
    with pytest.raises(JsonError, match="too large"):
        read_json(b"9" * 400, whole=float)


def test_numbers_that_are_none_stay_for_whoever_compares() -> None:
    assert as_json({1: (math.inf,)}) == {"1": [math.inf]}


# Every reader


def write(folder: Path, content: bytes) -> Path:
    (folder / "given.json").write_bytes(content)
    return folder / "given.json"


READERS: dict[str, tuple[Callable[[Path, bytes], Any], type[HubbubError], str]] = {
    "a certificate": (lambda _, content: verify(content, Pins()), VerificationError, '{"body": {%s}, "signature": ""}'),
    "results": (read_every, VerificationError, '{"format": "hubbub-results/1", %s}'),
    "a task": (lambda _, content: SignedTask.decode(content), SignatureError, '{"task": {}, %s, "signatures": {}}'),
    "a signed document": (lambda _, content: parse_canonical(content), SignatureError, "{%s}"),
    "a bench.json": (lambda folder, content: read_costs(write(folder, content)), UsageError, '{"rows": [], %s}'),
    "a law": (lambda folder, content: exact_json.parse(write(folder, content), "a law"), AccountingError, "{%s}"),
    "a device's memory": (lambda _, content: read_memories(content.decode()), StateError, '{"active": {%s}}'),
    "ids of devices": (lambda _, content: _printed(content), HubbubError, '{"devices": [], %s}'),
}  # fmt: skip
"""What reads a document, what it raises, and a document with a place for more members."""


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_a_key_that_occurs_twice(name: str, tmp_path: Path) -> None:
    read, error, document = READERS[name]
    with pytest.raises(error) as caught:
        read(tmp_path, (document % '"twice": 1, "twice": 2').encode())
    if name != "a device's memory":  # whose error quotes nothing of it
        assert "'twice' occurs twice" in str(caught.value)


def test_bytes_after_a_document_make_it_no_json_and_a_second_key_does_not() -> None:
    assert is_json(b'{"a": 1, "a": 2}')
    assert not is_json(b"{} {}")
