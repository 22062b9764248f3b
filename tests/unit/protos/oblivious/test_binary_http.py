"""Binary HTTP is that of RFC 9292, by its own vectors; what is not is refused, within bounds."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import MessageError
from hubbub.protos.oblivious.binary_http import (
    FREE_PIECES,
    MOST_FIELD_BYTES,
    MOST_FIELDS,
    MOST_INFORMATIONAL,
    PAD_BYTES,
    PIECE_BYTES,
    BinaryRequest,
    BinaryResponse,
    number,
    only_once,
    read_request,
    read_response,
    write_request,
    write_response,
)

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "oblivious.json").read_text())
FIELDS = tuple((name.encode(), value.encode()) for name, value in VECTORS["request_fields"])
HELLO = BinaryRequest(b"GET", b"https", b"", b"/hello.txt", FIELDS)


def named(case: Any) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", VECTORS["requests"], ids=named)
def test_the_requests_of_the_rfc_are_read_also_cut_where_only_zeros_follow(case: Any) -> None:
    message = bytes.fromhex(case["bytes"])
    for cut in range(case["cuts"] + 1):
        assert read_request(message[: len(message) - cut]) == HELLO
    with pytest.raises(MessageError):
        read_request(message[: len(message) - case["cuts"] - 1])


def test_a_request_is_written_as_the_rfc_writes_it_and_padded() -> None:
    written = write_request(HELLO)
    message = bytes.fromhex(VECTORS["requests"][0]["bytes"])
    assert (written[: len(message)], len(written) % PAD_BYTES) == (message, 0)
    assert written.strip(b"\0").endswith(b"en, mi")


@pytest.mark.parametrize("case", VECTORS["responses"], ids=named)
def test_the_responses_of_the_rfc_are_read(case: Any) -> None:
    found = read_response(bytes.fromhex(case["bytes"]))
    assert (found.status, len(found.fields), found.content.decode()) == (
        case["status"],
        case["fields"],
        case["content"],
    )


def test_every_vector_is_of_one_of_these_kinds() -> None:
    kinds = ("requests", "responses", "malformed_requests")
    assert [len(VECTORS[kind]) for kind in kinds] == [2, 2, 16]


@pytest.mark.parametrize("case", VECTORS["malformed_requests"], ids=named)
def test_malformed_requests_are_refused(case: Any) -> None:
    with pytest.raises(MessageError):
        read_request(bytes.fromhex(case["bytes"]))


NAMES = st.from_regex(rb"[a-z][a-z0-9-]{0,10}", fullmatch=True)
VALUES = st.from_regex(rb"[!-~]([ -~]{0,20}[!-~])?", fullmatch=True)
TEXT = st.from_regex(rb"[!-~]{1,90}", fullmatch=True)


@given(TEXT, TEXT, st.lists(st.tuples(NAMES, VALUES), max_size=9), st.binary(max_size=300))
def test_what_is_written_is_read(method: bytes, path: bytes, fields: list[tuple[bytes, bytes]], content: bytes) -> None:
    request = BinaryRequest(method, b"https", b"", path, tuple(fields), content)
    assert read_request(write_request(request)) == request
    response = BinaryResponse(207, tuple(fields), content)
    assert read_response(write_response(response)) == response


@pytest.mark.parametrize(
    ("value", "written"),
    [(37, "25"), (15293, "7bbd"), (494878333, "9d7f3e7d"), (151288809941952652, "c2197c5eff14e88c")],
)
def test_numbers_are_those_of_quic(value: int, written: str) -> None:
    """RFC 9000, appendix A.1."""
    assert number(value).hex() == written


def with_fields(*fields: tuple[bytes, bytes]) -> bytes:
    return write_request(BinaryRequest(b"GET", b"https", b"", b"/", fields))


def test_fields_are_bounded_in_number_and_in_bytes() -> None:
    within = [(b"a%d" % each, b"b") for each in range(MOST_FIELDS)]
    assert len(read_request(with_fields(*within)).fields) == MOST_FIELDS
    with pytest.raises(MessageError, match="more than 64 fields"):
        read_request(with_fields(*within, (b"one", b"more")))
    room = MOST_FIELD_BYTES - len(b"GET" + b"https" + b"/" + b"a")
    assert read_request(with_fields((b"a", bytes(b"b" * room))))
    with pytest.raises(MessageError, match="more than 16384 bytes"):
        read_request(with_fields((b"a", bytes(b"b" * (room + 1)))))


def test_informational_responses_are_bounded() -> None:
    one, last = number(103) + b"\0", number(200)
    assert read_response(b"\1" + one * MOST_INFORMATIONAL + last).status == 200
    with pytest.raises(MessageError, match="informational"):
        read_response(b"\1" + one * (MOST_INFORMATIONAL + 1) + last)


def test_pieces_of_content_are_bounded_by_what_they_hold() -> None:
    """A request of 8 MiB in pieces of a byte would keep a shuffler from all else for seconds."""
    head = b"\2" + b"".join(number(len(each)) + each for each in (b"POST", b"https", b"", b"/")) + b"\0"

    def content(*sizes: int) -> bytes:
        pieces = b"".join(number(size) + bytes(size) for size in sizes)
        return read_request(head + pieces + b"\0\0").content

    assert content(*[1] * FREE_PIECES) == bytes(FREE_PIECES)
    assert len(content(*[PIECE_BYTES] * 1000)) == 1000 * PIECE_BYTES
    for sizes in ([1] * (FREE_PIECES + 1), [PIECE_BYTES - 2] * 10_000):
        with pytest.raises(MessageError, match="many small pieces"):
            content(*sizes)


@pytest.mark.parametrize("status", [0, 99, 600, 2**20])
def test_a_status_that_http_does_not_have_is_refused(status: int) -> None:
    with pytest.raises(MessageError, match="from 100 to 599"):
        read_response(b"\1" + number(status))


def test_a_field_that_is_there_twice_is_refused() -> None:
    with pytest.raises(MessageError, match="twice"):
        only_once(((b"a", b"1"), (b"b", b"2"), (b"a", b"1")))


def test_content_and_fields_are_not_printed() -> None:
    shown = repr(BinaryRequest(b"GET", b"https", b"", b"/", ((b"a", b"secret"),), b"secret"))
    assert "secret" not in shown
