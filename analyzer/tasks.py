"""Tasks: which signed tasks this analyzer serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hubbub.protos.errors import HubbubError, SignatureError, TaskError
from hubbub.protos.signed_task import SignedTask
from hubbub.protos.task import Identities

Tasks = Mapping[bytes, SignedTask]
"""Signed tasks by their ids."""


def load_tasks(paths: Iterable[Path], identities: Identities) -> Tasks:
    """Return the tasks in those files and folders (`*.json`).

    Raises:
        TaskError: where a file holds no task of these three parties with both signatures, or there is none at all.
    """
    tasks: dict[bytes, SignedTask] = {}
    for path in _files(paths):
        try:
            signed = SignedTask.decode(path.read_bytes())
            check_task(signed, identities)
        except HubbubError as error:
            raise TaskError(f"{path}: {error}") from error
        except OSError as error:
            raise TaskError(f"cannot read {path}: {error.strerror}; give a signed task file or a folder") from error
        tasks[signed.task.id] = signed
    if not tasks:
        raise TaskError("there is no task to serve; sign one with `hubbub plan` and `hubbub sign`, and name its folder")
    return tasks


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.json"))
        else:
            yield path


def check_task(signed: SignedTask, identities: Identities) -> None:
    """Return only if the task is signed by operator and shuffler, and names this analyzer.

    Raises:
        SignatureError: where a party is another one, or has not signed.
    """
    task = signed.check(identities.operator, identities.shuffler)
    if task.identities.analyzer != identities.analyzer:
        raise SignatureError("the task names another analyzer than this one; give it the identity the task names")
