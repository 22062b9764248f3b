"""Loads the successions in a service's files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.service.runtime.task_files import files_in


def load_successions(paths: Iterable[Path]) -> list[Succession]:
    """Return the successions in these files and folders (`*.json`), each signed by its three signers.

    Raises:
        SuccessionError: if a file has no succession, or one that is not signed by all three; naming the file.
        HubbubError: if a file cannot be read.
    """
    found = []
    for path in files_in(paths):
        try:
            succession = Succession.decode(path.read_bytes())
            succession.check()
        except OSError as error:
            raise HubbubError(f"cannot read {path}: {error.strerror}; name a readable succession file") from error
        except HubbubError as error:
            raise SuccessionError(f"{path}: {error}") from error
        found.append(succession)
    return found
