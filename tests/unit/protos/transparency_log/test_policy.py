"""What a task may demand of a log: read from a draft, signed with the task, refused where it would promise nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hubbub.planning.plan import plan
from hubbub.protos.errors import TaskError
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import task_content
from hubbub.protos.transparency_log.policy import MOST_WITNESSES, LogPolicy, NotLogged
from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole
from hubbub.queries.errors import FieldError
from support.logged_tasks import POLICY, demanding, key_of, proof_of
from support.messages import DEMANDS_LOG, TOO_FEW_WITNESSES
from support.samples import LATER_DRAFT, Parties, sample_task
from support.transparency_logs import LOG_KEY, WITNESS_KEYS, WITNESSES

NEUTRAL = NoteKey("w9.example", NoteRole.WITNESS, bytes([1]) + bytes(31)).encode()
"""A key for which everybody has a signature of every checkpoint."""

KEYS = [each.encode() for each in WITNESS_KEYS]
HEAD = f'[log]\nkey = "{LOG_KEY.encode()}"\n'


def draft_with(log: str) -> str:
    return LATER_DRAFT.replace("[[query]]", f"{log}\n[[query]]")


def test_a_draft_s_log_is_planned_into_the_task_with_all_witnesses_unless_it_says_fewer() -> None:
    draft = read_draft(draft_with(f"{HEAD}witnesses = {json.dumps(KEYS)}"))
    assert draft.log == replace(POLICY, threshold=3)
    fewer = read_draft(draft_with(f"{HEAD}witnesses = {json.dumps(KEYS)}\nthreshold = 2"))
    assert plan(fewer).task(Parties.generate().public).log == POLICY
    assert read_draft(LATER_DRAFT).log is None


def test_what_is_demanded_is_signed_and_read_again() -> None:
    task = sample_task(Parties.generate())
    logged = demanding(task)
    assert logged.id != task.id
    assert read_task(json.loads(logged.canonical)) == logged
    assert "log" not in task_content(task)
    assert POLICY.words == "stats.example/log, signed by 2 of its 3 witnesses"
    assert LogPolicy(LOG_KEY, WITNESS_KEYS[:1], 1).words == "stats.example/log, signed by its witness w0.example"


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("[log]", "log.key is missing"),
        (f"{HEAD}witnesses = []", "log.witnesses has 0 keys; give those of 1 to 63 witnesses"),
        (f'{HEAD}witnesses = "w"', "log.witnesses is 'w'; give a list"),
        (f"{HEAD}witnesses = [3]", "log.witnesses has 3; give a key as text"),
        (f"{HEAD}witnesses = {json.dumps(KEYS[:2])}\nthreshold = 1", "log.threshold is 1; it must be a whole number f"),
        (f"{HEAD}witnesses = {json.dumps(KEYS)}\nthreshold = 4", "a whole number from 2 to 3"),
        (f"{HEAD}witnesses = {json.dumps(KEYS)}\nfreshness = 4", "freshness"),
        (f"{HEAD}witnesses = {json.dumps([KEYS[0]] * 2)}", "log.witnesses has a name or a key twice"),
        (f'[log]\nkey = "{KEYS[0]}"\nwitnesses = {json.dumps(KEYS)}', "is the key of a witness, not of a log"),
        (f"{HEAD}witnesses = {json.dumps([*KEYS, NEUTRAL])}", "is weak"),
        (f'[log]\nkey = "log"\nwitnesses = {json.dumps(KEYS)}', "log.key has a wrong key: 'log' is not the key of a"),
    ],
)
def test_a_draft_whose_log_would_promise_nothing_is_refused_with_its_line(log: str, says: str) -> None:
    with pytest.raises(TaskError) as refused:
        read_draft(draft_with(log))
    assert says in str(refused.value)
    assert str(refused.value).startswith("line ")


def test_a_log_that_is_no_table_is_refused() -> None:
    with pytest.raises(TaskError, match=r"log must be a table; begin it with \[log\]"):
        read_draft(f'log = "x"\n{LATER_DRAFT}')


def test_a_task_may_name_as_many_witnesses_as_a_checkpoint_has_room_for_beside_the_log() -> None:
    many = [key_of(f"w{number}.example", each) for number, each in enumerate(WITNESSES)]
    assert MOST_WITNESSES == 63
    with pytest.raises(FieldError, match="has 64 keys"):
        LogPolicy(LOG_KEY, tuple(many[number % 3] for number in range(64)), 64)


def test_a_key_counts_once_whatever_names_it_signed_under() -> None:
    """A witness that signs twice, under the name that is known and another one, is one witness."""
    document = b"a task"
    proof = proof_of(document, (0,))
    twice = replace(proof, signed=proof.signed.witnessed(key_of("w9.example", WITNESSES[0]), WITNESSES[0], 7))
    with pytest.raises(NotLogged, match=f"1 {TOO_FEW_WITNESSES}"):
        POLICY.check_task("colors", document, twice.encode())
    found = POLICY.check_task("colors", document, proof_of(document, (0, 2)).encode())
    assert (found.index, found.size, set(found.witnessed)) == (1, 3, {"w0.example", "w2.example"})


def test_who_has_no_proof_is_told_which_command_makes_it() -> None:
    given: Any = None
    with pytest.raises(NotLogged, match=rf"task colors {DEMANDS_LOG} stats.example/log, .*`hubbub log prove`"):
        POLICY.check_task("colors", b"a task", given)
