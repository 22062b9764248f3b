"""Reads the signed task files of a service."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.task.signed_task import SignedTask


def read_tasks(
    paths: Iterable[Path], check: Callable[[SignedTask], object], *, any_number: bool = False
) -> dict[bytes, SignedTask]:
    """Return, by id, the tasks in these files and folders (`*.json`), each accepted by `check`.

    With `any_number` there may be none, since a feed may publish some.

    Raises:
        TaskError: if a file has no task, `check` refuses one (a `HubbubError` or `ValueError`), or there is none.
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
    if not tasks and not any_number:
        where = f"no *.json in {' or '.join(map(str, paths))}" if paths else "`tasks` names no file and no folder"
        raise TaskError(
            f"there is no task to run, {where}; sign one with `hubbub plan` and `hubbub sign` and put it there. To "
            "read the results of finished tasks, restore one of their files: a service needs at least one task"
        )
    return tasks


def check_one_way(ways: Iterable[tuple[str, Sequence[bytes]]], setting: str) -> None:
    """Return only if all tasks go on to the same parties: a service delivers to one address, that of `setting`.

    `ways` has each task's name, which others may have too, and the identities of the hops behind the caller (32 bytes
    each, in their order).

    Raises:
        TaskError: naming a task of each way, and its hops.
    """
    examples: dict[tuple[bytes, ...], str] = {}
    for name, hops in ways:
        examples.setdefault(tuple(hops), name)
    if len(examples) < 2:
        return
    named = "; ".join(
        f"{name} goes on to {' and '.join(f'hop {fingerprint(hop)}' for hop in hops) or 'the analyzer, past no hop'}"
        for hops, name in examples.items()
    )
    raise TaskError(
        f"the tasks take different ways, but all of them are delivered to the one party that `{setting}` names: "
        f"{named}. Keep the tasks of one way in `tasks`, and remove the files of the others "
        "(docs/howto/add-a-hop.md, In an existing deployment)"
    )


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Return the files among these paths, and those named `*.json` in the folders among them.

    Raises:
        TaskError: if one cannot be read.
    """
    for path in paths:
        try:
            # Not `glob`, which treats an unreadable folder as empty.
            yield from sorted(each for each in path.iterdir() if each.suffix == ".json")
        except NotADirectoryError:
            yield path
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> TaskError:
    if path.is_symlink() and not os.path.exists(path):  # noqa: PTH110 - Path.exists raises if access is denied
        return TaskError(
            f"{path} is a link to {path.readlink()}, which does not exist; put the task there, or remove the link"
        )
    return TaskError(f"cannot read {path}: {error.strerror}; name a readable signed task file or folder")
