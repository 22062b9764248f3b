"""The signed task files that a service is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.task.signed_task import SignedTask


def read_tasks(paths: Iterable[Path], check: Callable[[SignedTask], object]) -> dict[bytes, SignedTask]:
    """Return, by id, the tasks in those files and folders (`*.json`), each accepted by `check`.

    Raises:
        TaskError: if a file holds no task, `check` refuses one (a `HubbubError` or `ValueError`), or there is none.
    """
    tasks: dict[bytes, SignedTask] = {}
    paths = list(paths)
    for path in files_in(paths):
        try:
            signed = SignedTask.decode(path.read_bytes())
            check(signed)
        except (HubbubError, ValueError) as error:
            raise TaskError(f"{path}: {error}") from error
        except OSError as error:
            raise _unreadable(path, error) from error
        tasks[signed.task.id] = signed
    if not tasks:
        where = f"no *.json in {' or '.join(map(str, paths))}" if paths else "`tasks` names no file and no folder"
        raise TaskError(
            f"there is no task to run, {where}; sign one with `hubbub plan` and `hubbub sign` and put it there. To "
            "read the results of tasks that are over, put one of theirs back: a service needs one task"
        )
    return tasks


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Return the files among these paths, and those named `*.json` in the folders among them.

    Raises:
        TaskError: if one cannot be looked at.
    """
    for path in paths:
        try:
            # Not `glob`, which takes a folder that cannot be read for an empty one.
            yield from sorted(each for each in path.iterdir() if each.suffix == ".json")
        except NotADirectoryError:
            yield path
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> TaskError:
    if path.is_symlink() and not os.path.exists(path):  # noqa: PTH110 - Path.exists raises where it may not look
        return TaskError(f"{path} is a link to {path.readlink()}, which is not there; put the task there, or remove it")
    return TaskError(f"cannot read {path}: {error.strerror}; give a signed task file, or a folder, that can be read")
