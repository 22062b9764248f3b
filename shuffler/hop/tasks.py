"""Tasks: which signed tasks a hop takes part in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.service.runtime.task_files import read_tasks


def load_tasks(
    paths: Iterable[Path], operator: bytes, shuffler: bytes, hop: bytes, successions: Sequence[Succession] = ()
) -> Mapping[bytes, Task]:
    """Return the tasks in those files and folders (`*.json`), by id, that these parties signed and that name the hop.

    With `successions` the parties are one with the identities that follow them and those before them.

    Raises:
        TaskError: where a file holds another task, or there is none at all.
    """

    def checked(signed: SignedTask) -> Task:
        task = signed.check(operator, shuffler, successions)
        if hop not in task.identities.hops:
            raise SignatureError("the task does not name this hop; plan it with this hop's public key in trust/")
        return task

    return {task_id: checked(signed) for task_id, signed in read_tasks(paths, checked).items()}
