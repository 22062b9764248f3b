"""Outer envelopes are opened by processes, each call's in its order, whatever else waits, and whatever is killed."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator

import pytest

from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import Destination, Sealer, inner_bytes
from hubbub.protos.sealing.suites import DEFAULT, MLKEM768_X25519, Suite
from hubbub.shuffler.admit import openers as module
from hubbub.shuffler.admit.openers import ON_THE_SPOT, PIECE_LIMIT, Openers, OpeningError
from hubbub.shuffler.admit.opening_worker import LENGTH, RoundKey, read_answer, serve, write_header, write_records

Sealed = tuple[RoundKey, list[Submission], list[bytes | None]]
"""A round's key, submissions to it, and what is in them."""


def sealed(count: int, queries: int = 2, number: int = 0, suite: Suite = DEFAULT) -> Sealed:
    private, public = suite.generate_key()
    destination, width = Destination(bytes(32), number, bytes(32)), inner_bytes(4, suite)
    sealer = Sealer(destination, public, suite.generate_key()[1], suite)
    submissions, plains = [], list[bytes | None]()
    for _ in range(count):
        submission_id, inners = os.urandom(16), [os.urandom(width) for _ in range(queries)]
        submissions.append(Submission(submission_id, sealer.outer(inners, submission_id)))
        plains.append(b"".join(inners))
    return RoundKey(destination, private, queries * width, suite.name), submissions, plains


@pytest.fixture
async def openers() -> AsyncIterator[Openers]:
    openers = Openers(2)
    yield openers
    await openers.close()


async def test_calls_of_several_rounds_at_once_get_each_their_own(openers: Openers) -> None:
    """Of both suites, by the same processes."""
    suites = (DEFAULT, MLKEM768_X25519) * 2
    rounds = [sealed(20, queries, number, suites[number]) for number, queries in enumerate([1, 2, 3, 2])]
    calls = [openers.open(key, submissions) for key, submissions, _ in rounds for _ in range(5)]
    assert await asyncio.gather(*calls) == [plains for _, _, plains in rounds for _ in range(5)]


async def test_more_than_one_piece_comes_back_in_order(openers: Openers) -> None:
    key, submissions, plains = sealed(PIECE_LIMIT * 2 + 7, 1)
    assert await openers.open(key, submissions) == plains


@pytest.mark.parametrize("count", [1, ON_THE_SPOT, ON_THE_SPOT + 1, 30])
async def test_what_does_not_open_is_none_in_its_place(openers: Openers, count: int) -> None:
    key, submissions, plains = sealed(count)
    submissions[-1] = Submission(submissions[-1].id, bytes(len(submissions[-1].envelope)))
    assert await openers.open(key, submissions) == [*plains[:-1], None]


async def test_another_rounds_key_opens_nothing(openers: Openers) -> None:
    (key, _, _), (_, submissions, _) = sealed(1), sealed(20)
    assert await openers.open(key, submissions) == [None] * 20
    assert await openers.open(key, submissions[:1]) == [None]


async def test_an_envelope_of_another_length_is_not_handed_over(openers: Openers) -> None:
    key, submissions, plains = sealed(20)
    damaged = [Submission(submissions[0].id, b"short"), *submissions[1:]]
    with pytest.raises(ValueError, match="152 bytes"):
        await openers.open(key, damaged)
    assert await openers.open(key, submissions) == plains


async def test_a_few_start_no_process() -> None:
    key, submissions, plains = sealed(ON_THE_SPOT)
    openers = Openers(1)
    assert await openers.open(key, submissions) == plains
    assert openers._workers[0]._running is None
    await openers.close()


async def test_what_a_killed_process_was_given_is_opened_by_another(openers: Openers) -> None:
    key, submissions, plains = sealed(400, 1)
    await openers.open(key, submissions[:20])
    calls = [asyncio.create_task(openers.open(key, submissions)) for _ in range(4)]
    await asyncio.sleep(0)
    for worker in openers._workers:
        if worker._process is not None:
            worker._process.kill()
    assert await asyncio.gather(*calls) == [plains] * 4


async def test_processes_that_always_end_fail_the_call_and_keep_nobody_waiting(
    openers: Openers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.service.processes.subprocesses.sys.executable", "/bin/false")
    key, submissions, _ = sealed(20)
    with pytest.raises(OpeningError, match="send again"):
        await openers.open(key, submissions)
    monkeypatch.setattr("hubbub.service.processes.subprocesses.sys.executable", "/nowhere/at/all")
    with pytest.raises(OpeningError, match="send again"):
        await openers.open(key, submissions)


async def test_an_answer_that_cannot_be_used_fails_its_call_and_no_other(
    openers: Openers, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.read_answer

    def confused(*_: object) -> list[bytes | None]:
        raise RuntimeError("a bug")

    key, submissions, plains = sealed(20)
    monkeypatch.setattr(module, "read_answer", confused)
    with pytest.raises(OpeningError, match="send again"):
        await openers.open(key, submissions)
    monkeypatch.setattr(module, "read_answer", real)
    assert await openers.open(key, submissions) == plains


async def test_closing_leaves_nobody_waiting() -> None:
    key, submissions, _ = sealed(1000, 1)
    openers = Openers(1)
    calls = [asyncio.create_task(openers.open(key, submissions)) for _ in range(4)]
    await asyncio.sleep(0)
    await openers.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers)


def test_a_process_answers_piece_by_piece_until_there_are_no_more() -> None:
    pieces = [sealed(3, 1), sealed(2, 2)]
    asked = b"".join(write_header(key, len(found)) + write_records(key, found) for key, found, _ in pieces)
    answers = io.BytesIO()
    serve(io.BytesIO(asked + b"a header that was cut"), answers)
    answers.seek(0)
    for key, _, plains in pieces:
        assert read_answer(answers.read(int.from_bytes(answers.read(LENGTH), "big")), key) == plains
    assert answers.read() == b""


async def test_outer_envelopes_are_as_long_as_their_inner_ones_together(openers: Openers) -> None:
    """Inner envelopes of 52, 49 and 61 bytes come back joined, whether opened on the spot or by a process."""
    private, public = DEFAULT.generate_key()
    key = RoundKey(Destination(bytes(32), 0, bytes(32)), private, 52 + 49 + 61)
    sealer, submissions, plains = Sealer(key.destination, public, DEFAULT.generate_key()[1]), [], list[bytes | None]()
    for _ in range(ON_THE_SPOT + 1):
        submission_id, inners = os.urandom(16), [os.urandom(width) for width in (52, 49, 61)]
        submissions.append(Submission(submission_id, sealer.outer(inners, submission_id)))
        plains.append(b"".join(inners))
    assert {len(each.envelope) for each in submissions} == {key.outer} == {210}
    assert await openers.open(key, submissions) == plains
    assert await openers.open(key, submissions[:1]) == plains[:1]


def test_a_rounds_key_is_never_printed() -> None:
    key, _, _ = sealed(0)
    assert repr(key.private_key) not in repr(key)
