"""Opens a round's outer envelopes and seals its dummies, in a process that the shuffler runs.

X25519 keeps the interpreter lock, so threads would not help; processes open envelopes instead. Then the cost of passing
work to them limits the service. So a process reads requests from stdin and writes answers to stdout, in records of a
fixed width. It runs as `python -m hubbub.shuffler.admit.opening_worker` and ends when its stdin closes.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from hubbub.protos.errors import EnvelopeError
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, OuterOpener, outer_bytes
from hubbub.protos.sealing.suites import DEFAULT, suite_named
from hubbub.service.processes.hardening import disable_core_dumps
from hubbub.shuffler.mix.sealing_job import HEADER_BYTES, SealingJob, read_header

if TYPE_CHECKING:  # a process that opens envelopes would load tasks and questions for it, and there is one on each core
    from hubbub.protos.messages import Submission

_HEADER = struct.Struct(">32sI32sIIHH")
"""The header of a piece: task id, round, key-set hash, bytes of all inner envelopes, number of submissions, and the
lengths of the suite's name and of the private key, which follow it."""

_OPEN, _SEAL = b"O", b"S"
"""The first byte of a piece: what is to be done with it."""

LENGTH = 4
"""Bytes of the length that precedes an answer."""

_OPENED, _UNOPENABLE = b"\1", b"\0"


@dataclass(frozen=True)
class RoundKey:
    """The key of a round's outer envelopes: the destination they were sealed for, and the raw private key.

    `inners` is the number of bytes of one submission's inner envelopes together; `suite` is the suite's name.
    """

    destination: Destination
    private_key: bytes = field(repr=False)
    inners: int
    suite: str = DEFAULT.name

    @property
    def outer(self) -> int:
        """Length of an outer envelope."""
        return outer_bytes([self.inners], suite_named(self.suite))

    def opener(self) -> OuterOpener:
        """Make the opener; this takes twice as long as opening one envelope."""
        return OuterOpener(self.destination, self.private_key, [self.inners], suite_named(self.suite))


def open_each(opener: OuterOpener, submissions: Iterable[Submission]) -> list[bytes | None]:
    """Open submissions: for each its inner envelopes joined, or None if it does not open."""
    return [_opened(opener, submission.envelope, submission.id) for submission in submissions]


def _opened(opener: OuterOpener, envelope: bytes, submission_id: bytes) -> bytes | None:
    try:
        return opener.open_merged(envelope, submission_id)
    except EnvelopeError:
        return None


# The records in the pipes


def write_records(key: RoundKey, submissions: Sequence[Submission]) -> bytes:
    """Encode submissions as they are in a piece, one after the other.

    Raises:
        ValueError: if an envelope has another length than the round's envelopes; it would shift all that follow.
    """
    length = key.outer
    if any(len(submission.envelope) != length for submission in submissions):
        raise ValueError(f"an envelope does not have {length} bytes, as this round's envelopes do")
    return b"".join([part for submission in submissions for part in (submission.id, submission.envelope)])


def write_header(key: RoundKey | SealingJob, count: int) -> bytes:
    """Encode the header that precedes the records of `count` submissions, or so many reports to be sealed."""
    if isinstance(key, SealingJob):
        return _SEAL + key.write_header(count)
    to, suite, private = key.destination, key.suite.encode(), key.private_key
    head = _HEADER.pack(to.task_id, to.round, to.key_set_hash, key.inners, count, len(suite), len(private))
    return _OPEN + head + suite + private


NICE = 5
"""The `nice` value of an opening process, relative to the service: its share of CPU is a third of the service's."""


def read_answer(answer: bytes, key: RoundKey | SealingJob) -> list[bytes | None]:
    """Decode the answer to a piece: for each submission its inner envelopes joined, or None; or the sealed reports."""
    if isinstance(key, SealingJob):
        width = key.envelope_bytes
        return [answer[start : start + width] for start in range(0, len(answer), width)]
    width = 1 + key.inners
    return [answer[start + 1 : start + width] if answer[start] else None for start in range(0, len(answer), width)]


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """Answer pieces until stdin closes."""
    last = None
    while kind := asked.read(len(_OPEN)):
        size = HEADER_BYTES if kind == _SEAL else _HEADER.size
        if len(header := asked.read(size)) < size:
            return
        if kind == _SEAL:
            answer = _sealed(header, asked)
        else:
            task_id, number, key_set_hash, inners, count, name, private = _HEADER.unpack(header)
            suite, private_key = asked.read(name).decode(), asked.read(private)
            key = RoundKey(Destination(task_id, number, key_set_hash), private_key, inners, suite)
            if last is None or last[0] != key:
                last = key, key.opener()
            answer = _answer(last[1], key, asked.read(count * (SUBMISSION_ID_BYTES + key.outer)))
        answers.write(len(answer).to_bytes(LENGTH, "big") + answer)
        answers.flush()


def _sealed(header: bytes, asked: BinaryIO) -> bytes:
    """Return the envelopes of a piece; nothing if they cannot be sealed: the service then finds out why."""
    job, count = read_header(header, asked.read)
    reports = asked.read(count * job.report_bytes)
    try:
        return job.seal(reports)
    except EnvelopeError:
        return b""


def _answer(opener: OuterOpener, key: RoundKey, records: bytes) -> bytes:
    width, blank = SUBMISSION_ID_BYTES + key.outer, bytes(key.inners)
    parts = []
    for start in range(0, len(records), width):
        begin = start + SUBMISSION_ID_BYTES
        plain = _opened(opener, records[begin : start + width], records[start:begin])
        # An envelope that does not open takes as many bytes as one that does: answers are split by width alone.
        parts.append(_UNOPENABLE + blank if plain is None else _OPENED + plain)
    return b"".join(parts)


if __name__ == "__main__":
    disable_core_dumps()
    # The service ends this process by closing its stdin, after it drained; a signal to the process group must not.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    # A lower priority than the process that answers calls. Otherwise that process waits for a core among these, and
    # calls that it refuses at once would wait as long as calls that it accepts.
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)
