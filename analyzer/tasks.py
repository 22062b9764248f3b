"""Tasks: which signed tasks this analyzer serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from hubbub.protos.errors import SignatureError
from hubbub.protos.signed_task import SignedTask
from hubbub.protos.task import Identities
from hubbub.service.tasks import read_tasks

Tasks = Mapping[bytes, SignedTask]
"""Signed tasks by their ids."""


def load_tasks(paths: Iterable[Path], identities: Identities) -> Tasks:
    """Return the tasks in those files and folders (`*.json`).

    Raises:
        TaskError: where a file holds no task of these three parties with both signatures, or there is none at all.
    """
    return read_tasks(paths, lambda signed: check_task(signed, identities))


def check_task(signed: SignedTask, identities: Identities) -> None:
    """Return only if the task is signed by operator and shuffler, and names this analyzer.

    Raises:
        SignatureError: where a party is another one, or has not signed.
    """
    task = signed.check(identities.operator, identities.shuffler)
    if task.identities.analyzer != identities.analyzer:
        raise SignatureError("the task names another analyzer than this one; give it the identity the task names")
