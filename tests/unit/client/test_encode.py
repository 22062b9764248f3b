"""Answers become one symbol per query, symbols become reports of one length, reports are sealed for two parties.

What a question makes of its answer is tested with the questions, and the laws of reports with the randomizers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hubbub.client import AnswerError, HubbubError
from hubbub.client.encode import encode_all, randomize_all, seal
from hubbub.protos.codec import write_submission
from hubbub.protos.errors import EnvelopeError
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener, Sealer, inner_bytes, outer_bytes
from hubbub.protos.sealing.suites import DEFAULT, SUITES, Suite
from hubbub.protos.task.task import Task
from hubbub.queries.query import Query
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random
from support.krr_queries import INNER_BYTES, report, unary_query
from support.samples import HALF

TO = Destination(b"t" * 32, 3, b"h" * 32)


def symbols(task: Task, answers: dict[str, Value]) -> tuple[int, ...]:
    return tuple(each.symbol for each in encode_all(task, answers, os.urandom))


def test_symbols_are_in_the_order_of_the_queries(task: Task) -> None:
    assert symbols(task, {"delay": 180.0, "carrier": "UA"}) == (2, 7)


def test_a_query_that_is_not_named_has_no_answer(task: Task) -> None:
    assert symbols(task, {"carrier": "B6"}) == (1, 8)


def test_an_answer_to_no_query_is_an_error(task: Task) -> None:
    with pytest.raises(AnswerError, match="no query of task flights; it asks 'carrier', 'delay'"):
        encode_all(task, {"carrier": "B6", "dealy": 3}, os.urandom)


@pytest.mark.parametrize("answers", [None, [], "carrier", [("carrier", "UA")], 3])
def test_answers_that_are_no_mapping_are_an_error_of_answers(task: Task, answers: Any) -> None:
    with pytest.raises(AnswerError, match=r"^the answers are of type .*; give a mapping from each query's name"):
        encode_all(task, answers, os.urandom)


def draws(*values: int) -> Callable[[int], bytes]:
    left = list(values)
    return lambda count: left.pop(0).to_bytes(count, "big")


def test_a_tasks_reports_are_drawn_one_by_one(task: Task) -> None:
    reports = randomize_all(task, (2, 8), draws(2**32 - 1, 0, 5))
    assert reports == (report(2), report(5))


def test_each_query_has_its_own_randomizer_and_report(task: Task) -> None:
    mixed = replace(task, queries=(task.queries[0], unary_query(task.queries[1].question, HALF, 1, levels=7)))
    highest, lowest = 2 ** (9 * 32) - 1, 0  # nine bits, a 32-bit draw for each
    assert randomize_all(mixed, (2, 0), draws(2**32 - 1, highest)) == (report(2), bytes(2))
    assert randomize_all(mixed, (2, 0), draws(2**32 - 1, lowest)) == (report(2), b"\xff\x01")


def test_a_tasks_reports_need_one_symbol_per_query(task: Task) -> None:
    with pytest.raises(ValueError, match="shorter"):
        randomize_all(task, (2,), os.urandom)


@dataclass(frozen=True)
class Faulty(KRandomizedResponse):
    """Writes a symbol as short as it is."""

    def randomize(self, symbol: int, random: Random) -> bytes:  # noqa: ARG002 - the randomizer's signature
        return bytes(1 + symbol % 2)


@pytest.mark.parametrize("symbol", [0, 1])
def test_a_report_of_another_length_is_never_sealed(task: Task, symbol: int) -> None:
    """It would tell its device apart: nothing at the shuffler or in the seal looks at it again."""
    faulty = Query(task.queries[1].question, Faulty(9, HALF))
    with pytest.raises(HubbubError, match=rf"delay has {1 + symbol} bytes, but 4 are expected; nothing was sent"):
        randomize_all(replace(task, queries=(task.queries[0], faulty)), (2, symbol), os.urandom)


def test_a_sealed_submission_opens_to_its_reports_in_order() -> None:
    shuffler, analyzer = DEFAULT.generate_key(), DEFAULT.generate_key()
    reports = (report(4), bytes(300), b"\x07")
    submission = seal(Sealer(TO, shuffler[1], analyzer[1]), reports, os.urandom(16))
    lengths = [inner_bytes(len(each)) for each in reports]
    inners = OuterOpener(TO, shuffler[0], lengths).open(submission.envelope, submission.id)
    opened = tuple(InnerOpener(TO, analyzer[0], query).open(inner) for query, inner in enumerate(inners))
    assert opened == reports


def test_all_submissions_have_one_length() -> None:
    sealer = Sealer(TO, DEFAULT.generate_key()[1], DEFAULT.generate_key()[1])
    submissions = [seal(sealer, (report(number), report(number)), os.urandom(16)) for number in range(50)]
    assert {len(submission.envelope) for submission in submissions} == {outer_bytes([INNER_BYTES] * 2)}


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_every_message_with_a_submission_has_one_length_whatever_is_answered(suite: Suite) -> None:
    """As it goes into a call: no answer, device or id makes it longer, in any suite."""
    sealer = Sealer(TO, suite.generate_key()[1], suite.generate_key()[1], suite)
    answers = [(report(0), b"\0"), (report(2**32 - 1), b"\xff"), (report(1), b"\x80")] * 5
    messages = [write_submission(seal(sealer, reports, os.urandom(16))).SerializeToString() for reports in answers]
    assert len({len(message) for message in messages}) == 1


def test_the_id_binds_the_envelope() -> None:
    shuffler = DEFAULT.generate_key()
    submission = seal(Sealer(TO, shuffler[1], DEFAULT.generate_key()[1]), (report(1),), b"i" * 16)
    assert submission.id == b"i" * 16
    with pytest.raises(EnvelopeError):
        OuterOpener(TO, shuffler[0], [INNER_BYTES]).open(submission.envelope, b"j" * 16)
