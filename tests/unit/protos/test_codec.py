"""Every message comes back as it was written, and what is not of the contract's form is a `MessageError`."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.identity.successions import LONGEST_SUCCESSION, MOST_SUCCESSIONS
from hubbub.protos.messages import Committed, Envelopes, Receipt, RoundState, RoundStatus, Submission
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.results import QueryResult, QueryState, RoundId, RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import results
from hubbub.protos.rpc.results import read_results, write_results
from hubbub.protos.sealing.envelope import Destination
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from support.krr_queries import INNER_BYTES
from support.messages import UNKNOWN_TO_THIS_VERSION


def exactly(length: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=length, max_size=length)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
MESSAGES = WORDS.map(codec.plain)
"""Texts from another party are made readable where they arrive; what is readable comes as it was."""
NUMBERS, COUNTS, FLOATS = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.floats(allow_nan=False)
COUNTED = st.dictionaries(MESSAGES, COUNTS, max_size=4)
DOCUMENTS = st.builds(SignedDocument, st.binary(max_size=40), exactly(64))
KEY_SETS = st.builds(KeySet, DOCUMENTS, DOCUMENTS)
DESTINATIONS = st.builds(Destination, exactly(32), NUMBERS, exactly(32))
SUBMISSIONS = st.builds(Submission, exactly(16), st.binary(max_size=200))
RECEIPTS = st.builds(Receipt, exactly(16), NUMBERS)
STATUSES = st.builds(RoundStatus, exactly(32), NUMBERS, st.sampled_from(RoundState), COUNTS, COUNTS, COUNTED, MESSAGES)
BATCHES = st.builds(BatchId, exactly(32), NUMBERS, NUMBERS)
WIDTHS = st.sampled_from([INNER_BYTES, INNER_BYTES + 1, 560])
ENVELOPES = WIDTHS.flatmap(lambda width: st.lists(exactly(width), max_size=4)).map(tuple)
CHUNKS = st.builds(Envelopes, BATCHES, COUNTS, ENVELOPES)
ENDS = st.none() | st.tuples(FLOATS, FLOATS)
NUMBERS_WITH_ERRORS = st.builds(Estimate, FLOATS, st.none() | FLOATS, FLOATS, FLOATS, ENDS)
ROWS = st.builds(
    Row,
    MESSAGES,
    st.none() | NUMBERS_WITH_ERRORS,
    st.none() | MESSAGES,
    st.none() | FLOATS,
    MESSAGES,
    st.lists(st.tuples(MESSAGES, MESSAGES), max_size=2).map(tuple),
    st.none() | FLOATS,
    st.none() | FLOATS,
    st.none() | st.booleans(),
)
ESTIMATES = st.builds(
    Estimates,
    MESSAGES,
    st.lists(ROWS, max_size=4).map(tuple),
    MESSAGES,
    ENDS,
    st.lists(MESSAGES, max_size=2).map(tuple),
)
QUERIES = st.builds(QueryResult, MESSAGES, st.sampled_from(QueryState), COUNTS, COUNTS, COUNTED, st.none() | ESTIMATES)
ROUND_IDS = st.builds(RoundId, exactly(32), MESSAGES, NUMBERS)
RESULTS = st.builds(RoundResults, ROUND_IDS, st.lists(QUERIES, max_size=3).map(tuple), st.binary(max_size=40))

PAIRS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Message], Callable[[Any], Any]]] = {
    "document": (DOCUMENTS, codec.write_document, codec.read_document),
    "key record": (DOCUMENTS, codec.write_key_record, codec.read_key_record),
    "batch record": (DOCUMENTS, codec.write_batch_record, codec.read_batch_record),
    "key set": (KEY_SETS, codec.write_key_set, codec.read_key_set),
    "destination": (DESTINATIONS, codec.write_destination, codec.read_destination),
    "submission": (SUBMISSIONS, codec.write_submission, codec.read_submission),
    "receipt": (RECEIPTS, codec.write_receipt, codec.read_receipt),
    "receipt as answer": (RECEIPTS, codec.write_answer, codec.read_answer),
    "answers": (st.lists(RECEIPTS, max_size=3), codec.write_answers, codec.read_answers),
    "status": (STATUSES, codec.write_status, codec.read_status),
    "batch id": (BATCHES, codec.write_batch_id, codec.read_batch_id),
    "chunk": (CHUNKS, codec.write_envelopes, codec.read_envelopes),
    "committed": (st.builds(Committed, COUNTS, COUNTED), codec.write_committed, codec.read_committed),
    "round id": (ROUND_IDS, codec.write_round_id, codec.read_round_id),
    "results": (RESULTS, write_results, read_results),
}


@given(st.lists(exactly(16), max_size=5), NUMBERS, st.lists(RECEIPTS, max_size=1))
def test_receipts_of_a_round_are_written_as_each_by_itself(ids: list[bytes], number: int, other: list[Receipt]) -> None:
    receipts = [*(Receipt(each, number) for each in ids), *other]
    written = codec.write_answers(receipts)
    assert list(written.answers) == [codec.write_answer(receipt) for receipt in receipts]
    assert codec.read_answers(written) == receipts


def through_bytes(message: Message) -> Any:
    again = type(message)()
    again.ParseFromString(message.SerializeToString())
    return again


def test_every_writer_is_tested_with_its_reader() -> None:
    tested = {function.__name__ for _, write, read in PAIRS.values() for function in (write, read)}
    offered = {name for name in (*vars(codec), *vars(results)) if name.startswith(("write_", "read_"))}
    parts = {"read_task_id", "read_digest", "read_refusal", "read_wait"}
    assert offered - parts == tested


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_message_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    values, write, read = PAIRS[name]
    value = data.draw(values)
    assert read(through_bytes(write(value))) == value


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_only_message_errors_come_out_of_any_bytes(name: str, data: st.DataObject) -> None:
    """Bytes that protobuf itself does not parse never reach a reader; all others are read or refused."""
    values, write, read = PAIRS[name]
    content = bytearray(write(data.draw(values)).SerializeToString())
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4)):
        if content:
            content[place % len(content)] = value
    message = type(write(data.draw(values)))()
    with suppress(DecodeError):
        message.ParseFromString(bytes(content[: data.draw(st.integers(0, len(content)))]))
        with suppress(MessageError):
            read(message)


@given(st.sampled_from(Reason), MESSAGES, st.none() | st.integers(1, 10**9))
def test_refusal_comes_back_with_all_its_parts(reason: Reason, message: str, milliseconds: int | None) -> None:
    retry_after = None if milliseconds is None else milliseconds / 1000
    refusal = Refusal(reason, message, retry_after)
    alone = codec.read_answer(through_bytes(codec.write_answer(refusal)))
    for again in (alone, *codec.read_answers(through_bytes(codec.write_answers([refusal])))):
        assert isinstance(again, Refusal)
        assert (again.reason, again.message, again.retry_after) == (reason, message, retry_after)


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        (None, None),
        (0.0, 1),
        (0.0001, 1),
        (0.0011, 2),
        (0.07, 70),
        (1.1, 1100),
        (1.00001, 1001),
        (3600, 3_600_000),
        (-5.0, 1),
        (math.nan, 1),
        (math.inf, 366 * 86_400_000),
        (1e300, 366 * 86_400_000),
        (10**400, 366 * 86_400_000),
    ],
)
def test_retry_is_never_earlier_than_meant(seconds: float | None, milliseconds: int | None) -> None:
    assert codec.retry_after_ms(Refusal(Reason.OVERLOADED, "", seconds)) == milliseconds


@given(st.floats(0, 1e6))
def test_retry_is_rounded_up_by_less_than_two_milliseconds(seconds: float) -> None:
    milliseconds = codec.retry_after_ms(Refusal(Reason.OVERLOADED, "", seconds))
    assert milliseconds is not None
    assert seconds * 1000 - 0.001 <= milliseconds < seconds * 1000 + 2


def test_endless_retry_of_the_other_side_is_cut() -> None:
    assert codec.read_refusal("overloaded", "", 2**64 - 1).retry_after == codec.LONGEST_RETRY


def test_message_of_the_other_side_cannot_steer_a_terminal() -> None:
    refusal = codec.read_refusal("overloaded", "a\x1b[31m\r\nb\u202e" + "x" * 10_000, None)
    assert refusal.message.isprintable()
    assert refusal.message.startswith(r"a\x1b[31m\r\nb\u202ex")
    assert len(refusal.message) == codec.LONGEST_MESSAGE


@pytest.mark.parametrize("reason", ["", "unheard", "MALFORMED", "x" * 10_000])
def test_reason_of_another_version_is_a_message_error(reason: str) -> None:
    with pytest.raises(MessageError, match=UNKNOWN_TO_THIS_VERSION) as caught:
        codec.read_refusal(reason, "", None)
    assert len(str(caught.value)) < 200


DOCUMENT = SignedDocument(b"{}", bytes(64))
GOOD: dict[str, Any] = {
    "document": DOCUMENT,
    "destination": Destination(bytes(32), 0, bytes(32)),
    "submission": Submission(bytes(16), b""),
    "receipt": Receipt(bytes(16), 0),
    "status": RoundStatus(bytes(32), 0, RoundState.OPEN, 0, 0, {}, ""),
    "batch id": BatchId(bytes(32), 0, 0),
    "chunk": Envelopes(BatchId(bytes(32), 0, 0), 0, (bytes(INNER_BYTES),)),
    "round id": RoundId(bytes(32), "", 0),
    "key set": KeySet(DOCUMENT, DOCUMENT),
    "key record": DOCUMENT,
    "batch record": DOCUMENT,
    "receipt as answer": Receipt(bytes(16), 0),
    "results": RoundResults(RoundId(bytes(32), "", 0), (), b""),
}
WRONG_LENGTHS = [
    ("document", "signature", bytes(63)),
    ("document", "signature", b""),
    ("destination", "task_id", bytes(31)),
    ("destination", "key_set_hash", bytes(33)),
    ("submission", "id", bytes(15)),
    ("submission", "id", b""),
    ("receipt", "submission_id", bytes(17)),
    ("status", "task_id", b""),
    ("batch id", "task_id", bytes(64)),
    ("round id", "task_id", bytes(1)),
]


@pytest.mark.parametrize(("name", "field", "value"), WRONG_LENGTHS, ids=range(len(WRONG_LENGTHS)))
def test_part_of_another_length_is_refused(name: str, field: str, value: bytes) -> None:
    _, write, read = PAIRS[name]
    message = write(GOOD[name])
    setattr(message, field, value)
    with pytest.raises(MessageError, match=f"has {len(value)} bytes, .* expected"):
        read(through_bytes(message))


@pytest.mark.parametrize("name", GOOD)
def test_empty_message_is_refused(name: str) -> None:
    _, write, read = PAIRS[name]
    with pytest.raises(MessageError):
        read(type(write(GOOD[name]))())


@pytest.mark.parametrize("length", [0, INNER_BYTES - 1, INNER_BYTES + 1])
def test_envelope_of_another_length_spoils_its_chunk(length: int) -> None:
    message: Any = codec.write_envelopes(GOOD["chunk"])
    message.envelopes.append(bytes(length))
    with pytest.raises(MessageError, match="differ in length, but all of a query must have one length"):
        codec.read_envelopes(through_bytes(message))


@pytest.mark.parametrize("state", [0, 99, -1])
def test_unknown_state_is_refused(state: int) -> None:
    status: Any = codec.write_status(GOOD["status"])
    status.state = state
    with pytest.raises(MessageError, match=UNKNOWN_TO_THIS_VERSION):
        codec.read_status(through_bytes(status))
    results: Any = write_results(RoundResults(GOOD["round id"], (_query(),), b""))
    results.queries[0].state = state
    with pytest.raises(MessageError, match=UNKNOWN_TO_THIS_VERSION):
        read_results(through_bytes(results))


def _query() -> QueryResult:
    number = Estimate(1.0, 1.0, 0.0, 2.0)
    rows = (Row("count", number, "a", 1.0), Row("count", number, "b", 1.0), Row("answered", number))
    return QueryResult("q", QueryState.PUBLISHED, 2, 2, {}, Estimates("histogram", rows))


ZERO = Estimate(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "estimates",
    [
        None,
        Estimates("", ()),
        *(Estimates("sum", (Row("mean", mean),)) for mean in (None, ZERO)),
        *(Estimates("histogram", (Row("count", ZERO, category),)) for category in (None, "")),
        *(Estimates("histogram", (Row("count", ZERO, "a", consistent),)) for consistent in (None, 0.0)),
        *(Estimates("sum", (), "", clipped_to) for clipped_to in (None, (0.0, 0.0))),
    ],
    ids=range(10),
)
def test_what_is_absent_stays_absent_and_what_is_zero_stays_zero(estimates: Estimates | None) -> None:
    """A query without estimates, a mean, a category, a consistent count, a range: none of them is an empty one."""
    result = QueryResult("q", QueryState.PUBLISHED, 0, 0, {}, estimates)
    again = read_results(through_bytes(write_results(RoundResults(GOOD["round id"], (result,), b""))))
    assert again.queries == (result,)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_count_stays_with_its_category(count: int) -> None:
    """Before rows, categories, counts and consistent counts were lists that could differ in number."""
    rows = tuple(Row("count", Estimate(float(place), 1.0, 0.0, 2.0), str(place), -place) for place in range(count))
    result = QueryResult("q", QueryState.PUBLISHED, 2, 2, {}, Estimates("histogram", rows))
    again = read_results(through_bytes(write_results(RoundResults(GOOD["round id"], (result,), b""))))
    assert again.queries == (result,)


def test_kind_and_statistic_of_the_other_side_cannot_steer_a_terminal() -> None:
    estimates = Estimates("sum\x1b[2J", (Row("mean\r\nof all", None),))
    result = QueryResult("q", QueryState.PUBLISHED, 0, 0, {}, estimates)
    read = read_results(through_bytes(write_results(RoundResults(GOOD["round id"], (result,), b""))))
    assert read.queries[0].estimates is not None
    assert (read.queries[0].estimates.kind, read.queries[0].estimates.rows[0].statistic) == (
        r"sum\x1b[2J",
        r"mean\r\nof all",
    )


@pytest.mark.parametrize("number", [-1, 2**32, 10**400], ids=["below", "above", "far above"])
def test_number_that_no_message_holds_is_refused(number: int) -> None:
    with pytest.raises(MessageError, match=r"the round is .*; it must be a whole number from 0 to 4294967295"):
        codec.checked_number(number, "the round")
    for batch in (BatchId(bytes(32), number, 0), BatchId(bytes(32), 0, number)):
        with pytest.raises(MessageError):
            codec.write_batch_id(batch)


def test_wait_is_a_number_of_seconds_up_to_an_hour() -> None:
    assert [codec.read_wait(wait) for wait in (0.0, 2.5, 1e9, math.inf)] == [0.0, 2.5, 3600.0, 3600.0]
    for wait in (-1.0, math.nan, -math.inf):
        with pytest.raises(MessageError, match="it must be a number from 0"):
            codec.read_wait(wait)


def test_what_a_round_waits_for_is_shown_as_plain_text() -> None:
    """It is printed at the operator's terminal, and comes from another party."""
    said = RoundStatus(b"\x01" * 32, 0, RoundState.OPEN, 1, 2, {}, "the end\x1b[2J\nof it" + "x" * 600)
    shown = codec.read_status(codec.write_status(said)).waiting_for
    assert shown.isprintable()
    assert shown.startswith(r"the end\x1b[2J\nof it")
    assert len(shown) == codec.LONGEST_MESSAGE


def test_a_key_set_has_so_many_successions_of_so_many_bytes_and_no_more() -> None:
    message = codec.write_key_set(KeySet(SignedDocument(b"{}", bytes(64)), SignedDocument(b"{}", bytes(64))))
    for successions in ([bytes(LONGEST_SUCCESSION)], [b""] * MOST_SUCCESSIONS):
        message.ClearField("successions")
        message.successions.extend(successions)
        assert codec.read_key_set(message).successions == tuple(successions)
    for successions in ([bytes(LONGEST_SUCCESSION + 1)], [b""] * (MOST_SUCCESSIONS + 1)):
        message.ClearField("successions")
        message.successions.extend(successions)
        with pytest.raises(MessageError):
            codec.read_key_set(message)
