"""Reading files that are named on the command line, so that every error names its file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hubbub.protos.draft import read_draft
from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.signed_task import SignedTask
from hubbub.protos.task import Draft


def draft_in(path: Path) -> Draft:
    """Return the draft in a TOML file.

    Raises:
        TaskError: where it holds none, naming the file, the line and what to do.
        OSError: where it cannot be read.
    """
    with naming(path):
        return read_draft(path.read_text(encoding="utf-8"))


def signed_task_in(path: Path) -> SignedTask:
    """Return the task in a file that `hubbub plan` wrote; its signatures are still to be checked.

    Raises:
        TaskError: where it holds none, naming the file.
        OSError: where it cannot be read.
    """
    with naming(path):
        return SignedTask.decode(path.read_bytes())


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the file's name before the message of every error that is raised inside."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text: {error.reason}; give the file as it was written") from error
    except HubbubError as error:
        raise TaskError(f"{path}: {error}") from error
