"""A standby finds out before its turn that a succession or a private key is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.messages import RoundState
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.task import Task, followed
from hubbub.service.errors import StoreError
from hubbub.service.receiving.round_keys import make_key
from hubbub.shuffler.cluster.readiness import Readiness, check_able
from hubbub.shuffler.keys import make_keys
from hubbub.shuffler.records import Round
from hubbub.shuffler.stores.postgres import open_store
from support import postgres
from support.samples import START, Parties, sample_task

PARTIES = Parties.generate()
NEW = Identity.generate()
TASK = sample_task(PARTIES)
OLD_ALONE = PARTIES.shuffler
BOTH = PARTIES.shuffler.beside([NEW])
NOW = float(START)


def succession(begins: int) -> Succession:
    made = Succession(Role.SHUFFLER, PARTIES.shuffler.public, NEW.public, PARTIES.operator.public, begins)
    for signer in (PARTIES.shuffler, NEW, PARTIES.operator):
        made = made.signed_by(signer)
    return made


SUCCEEDED = followed(TASK, [succession(prepared_from(TASK.schedule, 1))])
"""The task, of whose rounds the new identity signs all from the second on."""


def held(task: Task, number: int, state: RoundState = RoundState.OPEN) -> Round:
    """A round whose keys were made by a leader that has everything."""
    analyzer = make_key(Role.ANALYZER, task, number, PARTIES.analyzer)
    return Round(number + 1, task.id, number, state, make_keys(task, number, BOTH, analyzer.record))


@pytest.mark.parametrize("task", [TASK, SUCCEEDED])
def test_one_with_everything_of_the_leader_is_able(task: Task) -> None:
    check_able(BOTH, {task.id: task}, [held(task, 0), held(task, 1)], NOW)


def test_a_missing_private_key_is_named_before_any_round_has_it() -> None:
    with pytest.raises(
        SignatureError, match=f"the private key of {NEW.public.hex()[:16]}…, an identity of this party, is missing"
    ):
        check_able(OLD_ALONE, {TASK.id: SUCCEEDED}, [], NOW)


def test_a_missing_succession_is_named_once_a_round_has_keys_under_it() -> None:
    check_able(OLD_ALONE, {TASK.id: TASK}, [held(SUCCEEDED, 0)], NOW)
    with pytest.raises(SignatureError, match=r"round 1 of flights .* or under one that is missing here"):
        check_able(BOTH, {TASK.id: TASK}, [held(SUCCEEDED, 0), held(SUCCEEDED, 1)], NOW)


def test_a_key_that_no_round_needs_any_more_may_be_gone() -> None:
    after = TASK.schedule.cut(0) + 1.0
    tasks = {TASK.id: SUCCEEDED}
    check_able(NEW, tasks, [held(SUCCEEDED, 0, RoundState.MIXED)], after)
    with pytest.raises(SignatureError, match="is missing"):
        check_able(NEW, tasks, [held(SUCCEEDED, 0, RoundState.CUT)], after)


def test_rounds_that_are_over_or_of_other_tasks_do_not_matter() -> None:
    over = TASK.schedule.cut(TASK.schedule.rounds - 1) + 1.0
    check_able(OLD_ALONE, {TASK.id: SUCCEEDED}, [], over)
    check_able(OLD_ALONE, {}, [held(SUCCEEDED, 1)], NOW)
    check_able(OLD_ALONE, {TASK.id: TASK}, [held(SUCCEEDED, 1, RoundState.ERASED)], NOW)


def test_files_are_read_again_only_after_something_was_missing() -> None:
    read, answers = [], [OLD_ALONE, BOTH]

    def own() -> tuple[Identity, dict[bytes, Task]]:
        read.append(len(read))
        return answers[len(read) - 1], {TASK.id: SUCCEEDED}

    def rounds() -> list[Round]:
        if away:
            raise StoreError("the server is away")
        return []

    away = False
    readiness = Readiness(own, dict, rounds, lambda: NOW)
    with pytest.raises(SignatureError):
        readiness.check()
    readiness.check()
    away = True
    with pytest.raises(StoreError):
        readiness.check()
    away = False
    readiness.check()
    assert read == [0, 1]


async def test_rounds_are_read_from_the_database_without_a_keyring(tmp_path: Path) -> None:
    address = postgres.new_database()
    open_store.create_first(tmp_path, address)
    store = open_store.open_as_leader(tmp_path, address)
    try:
        made = held(SUCCEEDED, 1)
        assert made.keys is not None
        await store.install(await store.add_round(TASK.id, 1), made.keys)
        expired = await store.add_round(TASK.id, 0)
        await store.erase(await store.cut(expired, "schedule", 20), RoundState.EXPIRED)
        (found,) = open_store.unfinished_rounds(address)
        assert found.keys is not None
        assert (found.number, found.keys.key_set) == (1, made.keys.key_set)
        with pytest.raises(SignatureError, match="is missing here"):
            check_able(BOTH, {TASK.id: TASK}, [found], NOW)
        check_able(BOTH, {TASK.id: SUCCEEDED}, [found], NOW)
    finally:
        store.close()


def test_a_database_that_does_not_answer_is_an_error_of_the_store() -> None:
    with pytest.raises(StoreError):
        open_store.unfinished_rounds("postgresql://nobody@127.0.0.1:1/none")
