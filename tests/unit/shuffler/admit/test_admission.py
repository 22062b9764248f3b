"""What is taken, what is refused, and that everything is counted."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.world import MINIMUM, World, reason, unreachable

from hubbub.protos.identity.keys import KeyRecord
from hubbub.protos.messages import Receipt, RoundState, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination, Sealer, outer_bytes
from hubbub.service.errors import StoreClosedError, StoreError, StoreFault, as_store_error
from hubbub.shuffler.admit.checks.capacity import unavailable
from hubbub.shuffler.records import RETRIED
from support.krr_queries import INNER_BYTES
from support.samples import START


async def test_receipt_names_submission_and_round(world: World) -> None:
    (submission,) = await world.seal([(0, 0)])
    assert await world.send([submission]) == [Receipt(submission.id, 0)]


async def test_wrong_size_is_refused_and_its_neighbors_are_not(world: World) -> None:
    first, second, third = await world.seal([(0, 0)] * 3)
    answers = await world.send([first, replace(second, envelope=second.envelope + b"\0"), third])
    assert reason(answers[1]) is Reason.WRONG_SIZE
    assert str(outer_bytes([INNER_BYTES] * 2)) in str(answers[1])
    assert isinstance(answers[0], Receipt)
    assert isinstance(answers[2], Receipt)


async def test_each_of_a_call_gets_the_first_reason_and_what_is_refused_takes_no_room(tmp_path: Path) -> None:
    """In one call: what is of the wrong size, what the limit has no room for, a retry, and what is taken."""
    world = World(tmp_path, limit=2)
    await world.start()
    first, *fresh = await world.seal([(0, 0)] * 5)
    await world.send([first])
    short = [replace(submission, envelope=b"") for submission in await world.seal([(0, 0)] * 2)]
    answers = await world.send([short[0], first, fresh[0], short[1], fresh[1], fresh[2], fresh[3]])
    found = ["held" if isinstance(answer, Receipt) else reason(answer).value for answer in answers]
    assert found == ["wrong_size", "held", "held", "wrong_size", "held", "overloaded", "overloaded"]
    assert [answer.submission_id for answer in answers if isinstance(answer, Receipt)] == [
        first.id, fresh[0].id, fresh[1].id,
    ]  # fmt: skip
    assert await world.store.tally(world.task.id, 0) == {"wrong_size": 2, "overloaded": 2, RETRIED: 1}
    await world.stop()


async def test_malformed_submissions_are_counted_where_they_were_meant_for(world: World) -> None:
    here = await world.destination()
    world.admission.refused(here, Reason.MALFORMED, 2)
    world.admission.refused(replace(here, round=2**32 - 1), Reason.MALFORMED, 3)
    world.admission.refused(replace(here, task_id=bytes(32)), Reason.MALFORMED, 5)
    tallies = [
        await world.store.tally(task, number) for task, number in ((here.task_id, 0), (here.task_id, -1), (b"", -1))
    ]
    assert tallies == [{"malformed": 2}, {"malformed": 3}, {"malformed": 5}]


async def test_unknown_task_is_refused(world: World) -> None:
    (submission,) = await world.seal([(0, 0)])
    other = replace(await world.destination(), task_id=bytes(32))
    assert [reason(answer) for answer in await world.send([submission], other)] == [Reason.UNKNOWN_TASK]


@pytest.mark.parametrize("number", [3, 2**32 - 1])
async def test_round_outside_the_task_is_refused(world: World, number: int) -> None:
    (submission,) = await world.seal([(0, 0)])
    other = replace(await world.destination(), round=number)
    assert [reason(answer) for answer in await world.send([submission], other)] == [Reason.UNKNOWN_ROUND]
    with pytest.raises(Refusal, match="rounds 0 to 2, not"):
        await world.admission.get_round(world.task.id, number)


async def test_keys_are_given_out_before_the_round_opens_but_submissions_wait_for_it(world: World) -> None:
    world.clock.now = START - 600.0
    (submission,) = await world.seal([(0, 0)])
    (answer,) = await world.send([submission])
    assert reason(answer) is Reason.TOO_EARLY
    assert "2025-12-31T23:59:00Z" in str(answer)


async def test_skew_up_to_the_grace_changes_nothing(world: World) -> None:
    submissions = await world.seal([(0, 0)] * 2)
    world.clock.now = float(START - 60)
    assert isinstance((await world.send(submissions[:1]))[0], Receipt)
    world.clock.now = START + 3600 + 59.9
    assert isinstance((await world.send(submissions[1:]))[0], Receipt)


async def test_late_submission_is_refused_and_told_the_next_round(world: World) -> None:
    (submission,) = await world.seal([(0, 0)])
    destination = await world.destination()
    world.clock.now = float(START + 3660)
    (answer,) = await world.send([submission], destination)
    assert reason(answer) is Reason.TOO_LATE
    assert "the next is round 1, from 2026-01-01T01:00:00Z" in str(answer)
    with pytest.raises(Refusal, match="the next is round 1"):
        await world.admission.get_round(world.task.id, 0)


async def test_late_for_the_last_round_is_told_so(world: World) -> None:
    world.clock.now = float(world.task.schedule.cut(2) + 1)
    (answer,) = await world.send([Submission(bytes(16), bytes(152))], Destination(world.task.id, 2, bytes(32)))
    assert reason(answer) is Reason.TOO_LATE
    assert "last round" in str(answer)


async def test_other_key_set_is_refused(world: World) -> None:
    (submission,) = await world.seal([(0, 0)])
    other = replace(await world.destination(), key_set_hash=bytes(32))
    assert [reason(answer) for answer in await world.send([submission], other)] == [Reason.KEY_SET_DIFFERS]


async def test_changed_or_moved_envelope_does_not_open(world: World) -> None:
    first, second = await world.seal([(0, 0)] * 2)
    changed = replace(first, envelope=first.envelope[:-1] + bytes([first.envelope[-1] ^ 1]))
    moved = replace(second, id=os.urandom(16))
    assert [reason(answer) for answer in await world.send([changed, moved])] == [Reason.UNOPENABLE] * 2


async def test_outer_envelope_with_another_content_does_not_open(world: World) -> None:
    key_set = await world.admission.get_round(world.task.id, 0)
    keys = [KeyRecord.read(key_set.shuffler, world.parties.shuffler.public).public_key] * 2
    sealer = Sealer(await world.destination(), *keys)
    short = Submission(bytes(16), sealer.outer([bytes(INNER_BYTES)], bytes(16)))
    assert [reason(answer) for answer in await world.send([short])] == [Reason.WRONG_SIZE]


async def test_many_envelopes_are_opened_in_processes_with_the_same_answers(world: World) -> None:
    submissions = await world.seal([(0, 0)] * 40)
    submissions[7] = replace(submissions[7], id=os.urandom(16))
    answers = await world.admission.submit(await world.destination(), submissions)
    assert [isinstance(answer, Receipt) for answer in answers] == [index != 7 for index in range(40)]


# Retries


async def test_retry_gets_the_same_receipt_and_counts_once(world: World) -> None:
    submissions = await world.seal([(0, 0)])
    assert await world.send(submissions) == await world.send(submissions)
    assert (await world.status()).submissions == 1


async def test_same_id_with_other_bytes_is_refused(world: World) -> None:
    first, second = await world.seal([(0, 0), (1, 1)])
    await world.send([first])
    answers = await world.send([replace(second, id=first.id)])
    assert reason(answers[0]) is Reason.ID_CONFLICT


async def test_duplicates_in_one_call_are_one_submission(world: World) -> None:
    (submission,) = await world.seal([(0, 0)])
    assert await world.send([submission, submission]) == [Receipt(submission.id, 0)] * 2
    assert (await world.status()).submissions == 1


async def test_two_envelopes_under_one_id_in_one_call_are_one_and_a_conflict(world: World) -> None:
    keys = (await world.admission.get_round(world.task.id, 0)).read(
        world.task.id, 0, world.task.suite, world.parties.shuffler.public, world.parties.analyzer.public
    )
    sealer = Sealer(await world.destination(), *(key.public_key for key in keys))
    pair = [Submission(bytes(16), sealer.outer([bytes(INNER_BYTES)] * 2, bytes(16))) for _ in range(2)]
    answers = await world.send(pair)
    assert answers[0] == Receipt(bytes(16), 0)
    assert reason(answers[1]) is Reason.ID_CONFLICT


async def test_retry_after_the_cut_gets_its_receipt_until_the_round_is_erased(world: World) -> None:
    world.analyzer.incident = unreachable("begin")
    submissions = await world.fill()
    destination = await world.destination()
    await world.cut()
    await world.over(RoundState.MIXED)
    assert await world.send(submissions[:1], destination) == [Receipt(submissions[0].id, 0)]
    world.analyzer.incident = lambda _call: None
    await world.over()
    (answer,) = await world.send(submissions[:1], destination)
    assert reason(answer) is Reason.ERASED
    assert "the next is round 1" in str(answer)


async def test_replay_into_an_expired_round_is_refused(world: World) -> None:
    submissions = await world.fill(1)
    destination = await world.destination()
    await world.cut()
    await world.over()
    assert reason((await world.send(submissions, destination))[0]) is Reason.TOO_LATE


# Not now


async def test_round_whose_analyzer_did_not_answer_yet_is_not_ready(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.analyzer.incident = unreachable("get_key")
    await world.start(ready=False)
    await world.until(lambda: world.pauses > 3)
    with pytest.raises(Refusal) as refused:
        await world.admission.get_round(world.task.id, 0)
    assert (refused.value.reason, refused.value.retry_after) == (Reason.NOT_READY, 1.0)
    assert "analyzer at analyzer:1: did not answer (since 2026-01-01T00:00:10Z)" in (await world.status()).waiting_for
    world.analyzer.incident = lambda _call: None
    round_ = (await world.store.rounds())[0]
    await world.until(lambda: world.rounds.waiting_for(round_) == "submissions until 2026-01-01T01:01:00Z")
    assert world.has_keys
    await world.stop()


async def test_more_than_the_queue_holds_is_answered_overloaded_and_may_come_again(tmp_path: Path) -> None:
    world = World(tmp_path, limit=5)
    await world.start()
    submissions = await world.seal([(0, 0)] * 8)
    answers = await world.send(submissions)
    assert [isinstance(answer, Receipt) for answer in answers] == [True] * 5 + [False] * 3
    assert {(reason(answer), answer.retry_after) for answer in answers[5:]} == {(Reason.OVERLOADED, 1.0)}
    assert all(isinstance(answer, Receipt) for answer in await world.send(submissions[5:]))
    await world.stop()


async def test_calls_in_work_at_once_share_the_queue(tmp_path: Path) -> None:
    world = World(tmp_path, limit=5)
    await world.start()
    submissions = await world.seal([(0, 0)] * 8)
    destination = await world.destination()
    calls = [world.admission.submit(destination, [submission]) for submission in submissions]
    answers = [answers[0] for answers in await asyncio.gather(*calls)]
    assert sum(isinstance(answer, Receipt) for answer in answers) == 5
    await world.stop()


# Counts


async def test_counts_add_up_to_what_was_received(world: World) -> None:
    fresh = await world.seal([(0, 0)] * 6)
    destination = await world.destination()
    await world.send(fresh[:4], destination)
    received = [
        fresh[0],
        replace(fresh[4], id=fresh[0].id),
        replace(fresh[4], envelope=b""),
        replace(fresh[5], id=os.urandom(16)),
    ]
    await world.send(received, destination)
    await world.send(fresh[4:], replace(destination, key_set_hash=bytes(32)))
    status = await world.status()
    assert status.refusals == {"id_conflict": 1, "wrong_size": 1, "unopenable": 1, "key_set_differs": 2}
    retried = (await world.store.tally(world.task.id, 0))[RETRIED]
    assert retried == 1
    assert status.submissions + retried + sum(status.refusals.values()) == len(received) + 4 + 2


async def test_batch_records_state_the_refusals_up_to_the_cut(world: World) -> None:
    submissions = await world.fill()
    destination = await world.destination()
    await world.send([replace(submissions[0], envelope=b"")] * 3, destination)
    await world.send([Submission(os.urandom(16), submissions[0].envelope)], destination)
    world.analyzer.incident = unreachable("begin")
    await world.cut()
    await world.over(RoundState.MIXED)
    await world.send([Submission(os.urandom(16), submissions[0].envelope)], destination)
    world.analyzer.incident = lambda _call: None
    await world.over()
    stated = [dict(record.refusals) for record in world.analyzer.records.values()]
    assert stated == [{"id_conflict": 3, "unopenable": 1}] * 2
    assert (await world.status()).refusals == {"id_conflict": 3, "unopenable": 1, "too_late": 1}


async def test_refusals_for_rounds_that_are_not_at_hand_are_counted_for_the_task(world: World) -> None:
    destination = await world.destination()
    await world.send([Submission(bytes(16), bytes(152))] * 2, replace(destination, round=99))
    assert await world.store.tally(world.task.id, -1) == {"unknown_round": 2}
    await world.send([Submission(bytes(16), bytes(152))], replace(destination, task_id=bytes(32)))
    assert await world.store.tally(b"", -1) == {"unknown_task": 1}


async def test_refusals_survive_a_kill_once_something_after_them_was_acknowledged(world: World) -> None:
    (submission,) = await world.seal([(0, 0)])
    await world.send([Submission(bytes(16), b"")] * 7)
    await world.send([submission])
    await world.kill()
    await world.start()
    assert (await world.status()).refusals == {"wrong_size": 7}
    assert (await world.status()).submissions == 1


async def test_minimum_is_what_the_tests_think(world: World) -> None:
    assert world.task.minimum_reports == MINIMUM


def test_each_cause_has_its_own_words_and_only_the_disk_is_called_a_disk() -> None:
    def fault_of(error: Exception) -> StoreFault:
        return as_store_error(error).fault

    told = {fault: unavailable(_with(fault)).message for fault in StoreFault}
    assert len(set(told.values())) == len(StoreFault)
    assert [fault for fault, message in told.items() if "disk" in message] == [StoreFault.DISK]
    assert StoreError("it did something nobody foresaw").fault is StoreFault.STORE
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert [fault_of(each) for each in (full, OSError(28, "full"), ValueError("no"))] == [
        StoreFault.DISK,
        StoreFault.DISK,
        StoreFault.STORE,
    ]
    assert StoreClosedError().fault is StoreFault.PROCESS


def _with(fault: StoreFault) -> StoreError:
    error = StoreError("")
    error.fault = fault
    return error


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (StoreFault.DATABASE, "cannot use its database"),
        (StoreFault.STANDBYS, "waits for a standby"),
        (StoreFault.LEADER, "no leader of the shuffler's rounds answers"),
        (StoreFault.PROCESS, "is starting again"),
    ],
)
async def test_while_the_store_is_away_devices_are_told_to_come_again(
    world: World, fault: StoreFault, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (submission,), destination = await world.seal([(0, 0)]), await world.destination()
    error = StoreError("the store postgresql://secret@host/db is away")
    error.fault = fault

    async def away(*_: object) -> None:
        raise error

    for call in ("find", "known", "insert"):
        with monkeypatch.context() as patched:
            patched.setattr(world.store, call, away)
            if call == "find":
                with pytest.raises(Refusal, match=says) as refused:
                    await world.admission.get_round(world.task.id, 0)
                assert (refused.value.reason, refused.value.retry_after) == (Reason.NOT_READY, 2.0)
            (answer,) = await world.send([submission], destination)
            assert isinstance(answer, Refusal)
            assert (answer.reason, answer.retry_after) == (Reason.NOT_READY, 2.0)
            assert says in answer.message
            assert "secret" not in answer.message
    (answer,) = await world.send([submission], destination)
    assert isinstance(answer, Receipt)
    assert (await world.store.tally(world.task.id, 0))[Reason.NOT_READY.value] == 3


async def test_a_store_that_fails_itself_is_no_reason_to_come_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def damaged(*_: object) -> None:
        raise StoreError("the store is damaged")

    monkeypatch.setattr(world.store, "find", damaged)
    with pytest.raises(StoreError, match="damaged"):
        await world.admission.get_round(world.task.id, 0)
