"""Which round is answered, and that its keys are the two services'."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hubbub.client import KeyRecordError, NoRound, SignatureError, UsageError
from hubbub.client.session.rounds import VerifiedRoundKeys, choose_round
from hubbub.client.validation import checked_count, checked_seconds
from hubbub.protos.identity.keys import Identity, KeySet, Role
from hubbub.protos.task.schedule import forgotten_after
from hubbub.protos.task.task import Task
from support.fake_shuffler import FakeShuffler
from support.krr_queries import INNER_BYTES, report
from support.messages import NOT_SIGNED_BY
from support.samples import START, Parties


@pytest.mark.parametrize(("after", "number"), [(0, 0), (3599.9, 0), (3600, 1), (3 * 3600 - 0.1, 2)])
def test_the_clock_picks_the_round(task: Task, after: float, number: int) -> None:
    assert choose_round(task, None, START + after) == number


def test_before_the_first_round_the_error_names_its_time(task: Task) -> None:
    with pytest.raises(NoRound, match="round 0 begins at 2026-01-01T00:00:00Z"):
        choose_round(task, None, START - 1)


def test_after_the_last_round_the_error_says_so(task: Task) -> None:
    with pytest.raises(NoRound, match="its last round ended at 2026-01-01T03:00:00Z"):
        choose_round(task, None, START + 3 * 3600)


@pytest.mark.parametrize("wanted", [-1, 3])
def test_a_round_the_task_does_not_have_is_refused(task: Task, wanted: int) -> None:
    with pytest.raises(NoRound, match="its rounds are 0 to 2"):
        choose_round(task, wanted, START)


@pytest.mark.parametrize("wanted", [True, "1", 1.0])
def test_a_round_that_is_no_number_is_named_by_its_type(task: Task, wanted: Any) -> None:
    with pytest.raises(UsageError, match=f"round is of type {type(wanted).__name__}; give a whole number from 0 to 2"):
        choose_round(task, wanted, START)


def test_numbers_of_numpy_are_numbers(task: Task) -> None:
    number: Any = np.int64(1)
    assert type(choose_round(task, number, START)) is int
    assert checked_count(np.int8(3), "calls") == 3
    assert checked_seconds(np.float32(1.5), "timeout") == checked_seconds(Fraction(3, 2), "timeout") == 1.5
    for wrong in (np.bool_(True), np.float64(1), np.array(1)):
        with pytest.raises(UsageError, match="give a whole number, 1 or more"):
            checked_count(wrong, "calls")


def test_a_named_round_is_answered_until_a_grace_after_its_cut(task: Task) -> None:
    over = forgotten_after(task.schedule, 0)
    assert over == START + 3600 + 2 * 60
    assert choose_round(task, 0, over) == 0
    with pytest.raises(NoRound, match="round 0 of task flights is over; round 2 begins at 2026-01-01T02:00:00Z"):
        choose_round(task, 0, over + 1)


def test_a_named_round_may_be_ahead_of_this_clock(task: Task) -> None:
    assert choose_round(task, 2, START) == 2


@pytest.fixture
def fake(task: Task, parties: Parties) -> FakeShuffler:
    return FakeShuffler(task, parties)


def test_keys_of_the_round_are_read(fake: FakeShuffler, task: Task) -> None:
    key_set = fake.keys(1)[2]
    keys = VerifiedRoundKeys.read(key_set, task, 1)
    assert (keys.destination.task_id, keys.destination.round) == (task.id, 1)
    assert keys.destination.key_set_hash == key_set.hash
    assert len(keys.sealer(START).inner(report(1), 0)) == INNER_BYTES == 52


@pytest.mark.parametrize("role", [Role.SHUFFLER, Role.ANALYZER])
def test_a_record_signed_by_somebody_else_is_refused(fake: FakeShuffler, task: Task, role: Role) -> None:
    forged = fake.record(role, 1, b"k" * 32).signed_by(Identity.generate())
    with pytest.raises(SignatureError, match=f"key record's {NOT_SIGNED_BY}"):
        VerifiedRoundKeys.read(replaced(fake.keys(1)[2], role, forged), task, 1)


@pytest.mark.parametrize(("changes", "what"), [({"task_id": b"t" * 32}, "task"), ({"number": 0}, "round")])
def test_a_record_for_something_else_is_refused(
    fake: FakeShuffler, task: Task, parties: Parties, changes: dict[str, Any], what: str
) -> None:
    record = fake.record(Role.ANALYZER, changes.pop("number", 1), b"k" * 32, **changes).signed_by(parties.analyzer)
    with pytest.raises(KeyRecordError, match=f"the analyzer's key record is for another {what}"):
        VerifiedRoundKeys.read(replaced(fake.keys(1)[2], Role.ANALYZER, record), task, 1)


@pytest.mark.parametrize("now", [START - 2 * 86400, START + 3 * 86400])
def test_keys_that_are_not_valid_now_seal_nothing(fake: FakeShuffler, task: Task, now: float) -> None:
    with pytest.raises(KeyRecordError, match="check this machine's clock"):
        VerifiedRoundKeys.read(fake.keys(0)[2], task, 0).sealer(now)


def replaced(key_set: KeySet, role: Role, document: Any) -> KeySet:
    return KeySet(**{**vars(key_set), role.value: document})
