"""Names the first cause if a demo fails: the disk that is full, or why devices were refused."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from hubbub.deploy.demo.coordinator import SubmissionCounts
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import RoundStatus
from hubbub.protos.refusals import Refusal

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write that mostly come without the name of the file."""


@contextlib.contextmanager
def naming_folder(folder: Path) -> Iterator[None]:
    """Name the folder of the stores if a write in the block fails and the error names no file.

    Raises:
        HubbubError: if a disk is full, or fails.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK or error.filename is not None:
            raise
        raise HubbubError(
            f"cannot write to {folder}: {error.strerror}; make room there, or set TMPDIR to a folder that has room"
        ) from error


async def close_round(pipeline: LocalPipeline, number: int, counts: SubmissionCounts) -> RoundStatus:
    """Close a round. If it cannot be closed after devices were refused, the error begins with why they were.

    Raises:
        HubbubError: if the round cannot be closed.
    """
    try:
        return await pipeline.close_round(number)
    except Refusal as refusal:
        if not counts.refused:
            raise
        reason, refused = counts.refused.most_common(1)[0]
        raise HubbubError(
            f"{refused} submissions were refused: {counts.messages[reason]}. {counts.accepted} were accepted, so "
            f"{refusal}"
        ) from refusal
