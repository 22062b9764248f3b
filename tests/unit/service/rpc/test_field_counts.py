"""Elements are counted on the wire as a parser would find them, and no further than they may be."""

from __future__ import annotations

import os

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import MessageError
from hubbub.protos.v1 import submission_pb2
from hubbub.service.rpc.field_counts import MOST_OTHERS, Elements, TooMany, TooShort, check_counts
from support.http2_frames import empty_submissions

SUBMISSIONS = 2
"""The number of the field."""


def request(count: int, size: int = 20) -> bytes:
    made = submission_pb2.SubmitBatchRequest(
        destination=submission_pb2.Destination(task_id=b"t" * 32, round=300, key_set_hash=b"k" * 32),
        submissions=[submission_pb2.Submission(id=os.urandom(16), envelope=os.urandom(size)) for _ in range(count)],
    )
    return made.SerializeToString()


@pytest.mark.parametrize("size", [0, 20, 200, 70_000])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_as_many_as_there_may_be_pass_and_one_more_does_not(count: int, size: int) -> None:
    raw = request(count, size)
    check_counts(raw, {SUBMISSIONS: Elements(count)})
    check_counts(raw, {SUBMISSIONS: Elements(10**6)})
    if count:
        with pytest.raises(TooMany, match=f"{count} elements or more in one call; send at most {count - 1}") as caught:
            check_counts(raw, {SUBMISSIONS: Elements(count - 1)})
        assert caught.value.count == count


def test_counting_ends_with_the_first_too_many() -> None:
    """What comes behind is not even looked at: time is bounded by what may be there."""
    with pytest.raises(TooMany):
        check_counts(empty_submissions(11) + b"\xff" * 100, {SUBMISSIONS: Elements(10)})


@pytest.mark.parametrize(
    "raw",
    [
        b"\x12",  # no length
        b"\x12\x05abc",  # shorter than its length
        b"\xff" * 20,  # a number without an end
        b"\x0b\x0c",  # a group, as nobody makes them any more
        b"\x0f",  # a kind that there is not
        b"\x09abc",  # eight bytes, of which there are three
        b"\x0dabc",
    ],
    ids=lambda raw: raw.hex()[:8],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(MessageError, match="not a message of this version"):
        # Behind enough that it could be too much, else nothing is counted.
        check_counts(b"\x08\x01" * 2 + raw, {SUBMISSIONS: Elements(1)})


def test_no_more_is_walked_over_than_may_be_there() -> None:
    """A megabyte of fields that nobody counts would take half a second."""
    raw = b"\x78\x00" * MOST_OTHERS + empty_submissions(3)
    assert check_counts(raw, {SUBMISSIONS: Elements(3)}) == MOST_OTHERS + 3
    with pytest.raises(MessageError, match=f"more than {MOST_OTHERS} fields"):
        # What comes behind is no message: it is not looked at.
        check_counts(b"\x78\x00" * (MOST_OTHERS + 1) + b"\xff" * 20, {SUBMISSIONS: Elements(3)})


def test_what_is_too_short_to_be_one_ends_counting() -> None:
    raw = request(2)
    check_counts(raw, {SUBMISSIONS: Elements(2, fewest_bytes=18)})
    with pytest.raises(TooShort, match="element 3 of a call has 0 bytes; send elements of at least 18") as caught:
        check_counts(raw + empty_submissions(1) + b"\xff" * 20, {SUBMISSIONS: Elements(9, fewest_bytes=18)})
    assert caught.value.count == 3
    # A few may be malformed, and the others are taken all the same.
    check_counts(raw + empty_submissions(2), {SUBMISSIONS: Elements(9, fewest_bytes=18, shorter=2)})
    with pytest.raises(TooShort, match="element 5"):
        check_counts(raw + empty_submissions(3), {SUBMISSIONS: Elements(9, fewest_bytes=18, shorter=2)})


def test_elements_in_elements_are_counted_in_all_of_them_together() -> None:
    one = submission_pb2.Submission(id=b"a", envelope=b"b").SerializeToString()
    raw = submission_pb2.SubmitBatchRequest(submissions=[submission_pb2.Submission.FromString(one)] * 3)
    inner = {SUBMISSIONS: Elements(3, inner={1: Elements(3)})}
    # Three submissions, with an id and an envelope each.
    assert check_counts(raw.SerializeToString(), inner) == 9
    with pytest.raises(TooMany, match="3 elements or more"):
        check_counts(raw.SerializeToString(), {SUBMISSIONS: Elements(3, inner={1: Elements(2)})})
    # The inner message does not end where the outer one says.
    with pytest.raises(MessageError, match="ends within a field"):
        check_counts(b"\x12\x03\x0a\x05a\x0a\x03aaa", inner)


@given(st.lists(st.tuples(st.sampled_from([20, 20, 21, 200, 70_000]), st.integers(1, 600)), max_size=4))
def test_elements_that_are_alike_are_counted_as_if_one_by_one(chunks: list[tuple[int, int]]) -> None:
    """Those of one length are counted at once: how many lie side by side, and what is between, changes no count."""
    frames = {
        size: submission_pb2.SubmitBatchRequest(submissions=[submission_pb2.Submission(id=bytes(size))])
        for size, _ in chunks
    }
    raw = b"\x08\x01".join(frames[size].SerializeToString() * min(count, 3 * 10**6 // size) for size, count in chunks)
    found = sum(min(count, 3 * 10**6 // size) for size, count in chunks)
    others = max(len(chunks) - 1, 0)
    assert check_counts(raw, {SUBMISSIONS: Elements(found, fewest_bytes=20)}) == found + others
    if found:
        with pytest.raises(TooMany) as caught:
            check_counts(raw, {SUBMISSIONS: Elements(found - 1)})
        assert caught.value.count == found
        with pytest.raises(MessageError, match="ends within a field"):
            check_counts(raw[:-1], {SUBMISSIONS: Elements(found)})


@given(st.binary(max_size=300))
def test_whatever_a_parser_finds_was_counted(raw: bytes) -> None:
    """Never does the parser find more than was counted: the two read the same bytes in the same way."""
    try:
        found = len(submission_pb2.SubmitBatchRequest.FromString(raw).submissions)
    except DecodeError:
        return
    if found:
        with pytest.raises(MessageError):
            check_counts(raw, {SUBMISSIONS: Elements(found - 1)})


@given(
    st.lists(
        st.sampled_from([b"\x12\x00", b"\x12\x02\x0a\x00", b"\x08\x01", b"\x1d1234", b"\x1912345678", b"\x22\x01a"])
    )
)
def test_fields_of_other_numbers_are_passed_over(fields: list[bytes]) -> None:
    if sum(not field.startswith(b"\x12") for field in fields) > MOST_OTHERS:
        return
    count = sum(field.startswith(b"\x12") for field in fields)
    check_counts(b"".join(fields), {SUBMISSIONS: Elements(count)})
    if count:
        with pytest.raises(TooMany):
            check_counts(b"".join(fields), {SUBMISSIONS: Elements(count - 1)})
