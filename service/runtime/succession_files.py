"""Loads the successions in a service's files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hubbub.protos.identity.successions import Succession, load_succession
from hubbub.service.runtime.task_files import files_in


def load_successions(paths: Iterable[Path]) -> list[Succession]:
    """Return the successions in these files and folders (`*.json`), each signed by its three signers.

    Raises:
        SuccessionError: if a file has no succession, or one that is not signed by all three; naming the file.
        HubbubError: if a file cannot be read.
    """
    return [load_succession(path) for path in files_in(paths)]
