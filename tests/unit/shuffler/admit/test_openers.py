"""Processes open outer envelopes and seal dummies, each in their order, whatever else waits, and whatever is killed."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from hubbub.protos.errors import EnvelopeError
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import FIRST_HOP, Destination, InnerOpener, Sealer, inner_bytes
from hubbub.protos.sealing.suites import DEFAULT, MLKEM768_X25519, Suite
from hubbub.shuffler.admit import openers as module
from hubbub.shuffler.admit.openers import ON_THE_SPOT, PIECE_LIMIT, Openers, OpeningError
from hubbub.shuffler.admit.opening_worker import LENGTH, RoundKey, read_answer, serve, write_header, write_records
from hubbub.shuffler.mix.sealing_job import SealingJob

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
    with pytest.raises(OpeningError):
        await openers.open(key, submissions)


async def test_an_answer_that_cannot_be_used_fails_its_call_and_no_other(
    openers: Openers, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.read_answer

    def confused(*_: object) -> list[bytes | None]:
        raise RuntimeError("a bug")

    key, submissions, plains = sealed(20)
    monkeypatch.setattr(module, "read_answer", confused)
    with pytest.raises(OpeningError):
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


@dataclass
class Behind:
    """An analyzer, and hops before it: a job that seals reports of four bytes to them, and what opens the envelopes."""

    job: SealingJob
    openers: list[InnerOpener]

    @classmethod
    def of(cls, hops: int = 0, suite: Suite = DEFAULT, first_hop: int = FIRST_HOP) -> Behind:
        here, (private, public) = Destination(bytes(32), 7, bytes(32)), suite.generate_key()
        pairs = [suite.generate_key() for _ in range(hops)]
        keys = suite.generate_key()[1], public, *(public for _, public in pairs)
        places = [InnerOpener(here, key, 3, suite, first_hop + place) for place, (key, _) in enumerate(pairs)]
        job = SealingJob(here, keys, suite.name, first_hop, 3, 4)
        return cls(job, [*places, InnerOpener(here, private, 3, suite)])

    def opened(self, sealed: bytes) -> bytes:
        """Return the joined reports in joined envelopes."""
        width, found = self.job.envelope_bytes, []
        assert len(sealed) % width == 0
        for start in range(0, len(sealed), width):
            layer = sealed[start : start + width]
            for opener in self.openers:
                layer = opener.open(layer)
            found.append(layer)
        return b"".join(found)


def in_the_service(_job: SealingJob, _reports: bytes) -> bytes:
    raise AssertionError("the service's own process sealed dummies")


@pytest.mark.parametrize("count", [1, 3, 2 * PIECE_LIMIT + 7])
async def test_processes_seal_dummies_and_each_comes_back_in_its_place(
    openers: Openers, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SealingJob, "seal", in_the_service)
    behind, reports = Behind.of(), os.urandom(4 * count)
    assert behind.opened(await openers.seal(behind.job, reports)) == reports


async def test_dummies_are_sealed_in_the_layers_of_every_hop_between_opens_of_other_rounds(openers: Openers) -> None:
    chains = [Behind.of(2), Behind.of(1, MLKEM768_X25519, FIRST_HOP + 1)]
    key, submissions, plains = sealed(30)
    reports = os.urandom(4 * 50)
    one, opened, other = await asyncio.gather(
        openers.seal(chains[0].job, reports), openers.open(key, submissions), openers.seal(chains[1].job, reports)
    )
    assert (chains[0].opened(one), opened, chains[1].opened(other)) == (reports, plains, reports)


@pytest.mark.parametrize(("count", "shares"), [(100, [50, 50]), (430, [216, 214]), (1, [1, 0])])
async def test_every_process_seals_a_share(openers: Openers, count: int, shares: list[int]) -> None:
    """A batch of 430 dummies is not left to one process, nor one of 100, which would fit in a piece."""
    behind = Behind.of()
    sealing = asyncio.create_task(openers.seal(behind.job, bytes(4 * count)))
    await asyncio.sleep(0)
    given = [sum(part.count for piece in worker.given for part in piece.parts) for worker in openers._workers]
    assert given == shares
    assert len(await sealing) == count * behind.job.envelope_bytes


async def test_dummies_of_a_killed_process_are_sealed_all_the_same(openers: Openers) -> None:
    behind, reports = Behind.of(), os.urandom(4 * 300)
    await openers.seal(behind.job, reports[:40])
    sealing = asyncio.create_task(openers.seal(behind.job, reports))
    await asyncio.sleep(0)
    for worker in openers._workers:
        if worker._process is not None:
            worker._process.kill()
    assert behind.opened(await sealing) == reports


async def test_dummies_are_sealed_in_the_service_if_no_process_starts(
    openers: Openers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.service.processes.subprocesses.sys.executable", "/bin/false")
    behind, reports = Behind.of(), os.urandom(4 * 20)
    assert behind.opened(await openers.seal(behind.job, reports)) == reports


async def test_a_key_that_nothing_can_be_sealed_to_is_named_and_ends_no_process(openers: Openers) -> None:
    behind = Behind.of()
    await openers.seal(behind.job, bytes(4 * 20))
    running = [worker._process for worker in openers._workers]
    with pytest.raises(EnvelopeError, match="point of low order"):
        await openers.seal(replace(behind.job, public_keys=(behind.job.public_keys[0], bytes(32))), bytes(4 * 20))
    assert [worker._process for worker in openers._workers] == running
    assert await openers.seal(behind.job, b"") == b""


async def test_what_sealing_takes_is_not_counted_as_opening() -> None:
    seconds: list[float] = []
    openers = Openers(1, seconds.append)
    await openers.seal(Behind.of().job, bytes(4 * 20))
    assert seconds == []
    key, submissions, _ = sealed(20)
    await openers.open(key, submissions)
    assert len(seconds) == 1
    await openers.close()
