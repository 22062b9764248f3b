"""Loads and checks the signed tasks that this analyzer serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Task
from hubbub.protos.task.two_signed import not_named
from hubbub.service.runtime.task_files import read_tasks

Tasks = Mapping[bytes, SignedTask]
"""Signed tasks by their ids."""


def load_tasks(
    paths: Iterable[Path], identities: Identities, successions: Sequence[Succession] = (), *, any_number: bool = False
) -> dict[bytes, SignedTask]:
    """Return the tasks in those files and folders (`*.json`), with the successors of the identities that they name.

    With `any_number` there may be no task.

    Raises:
        TaskError: if a file is no task of these three parties with both signatures, or there is none at all.
    """
    found = read_tasks(paths, lambda signed: check_task(signed, identities, successions), any_number=any_number)
    return {
        task_id: replace(signed, task=check_task(signed, identities, successions)) for task_id, signed in found.items()
    }


def check_task(signed: SignedTask, identities: Identities, successions: Sequence[Succession] = ()) -> Task:
    """Return the task, if operator and shuffler signed it, and it names this analyzer.

    Raises:
        SignatureError: if a party is another one, or has not signed.
    """
    task = signed.check(identities.operator, identities.shuffler, successions)
    same = task.lineage is not None and task.lineage.holds(Role.ANALYZER, identities.analyzer)
    if task.identities.analyzer != identities.analyzer and not same:
        raise SignatureError(not_named(Role.ANALYZER, identities.analyzer, task.identities.analyzer))
    return task
