"""What opens a round's outer envelopes, and the process that does so for the shuffler.

X25519 holds the interpreter lock, so threads would not help and processes do the opening. Handing work to them then
limits how fast the service is: so a process reads requests from stdin and writes answers to stdout, in records of one
width. It is run as `python -m hubbub.shuffler.admit.opening_worker` and ends when its stdin does.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from hubbub.protos.errors import EnvelopeError
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, OuterOpener, outer_bytes
from hubbub.protos.sealing.suites import DEFAULT, suite_named
from hubbub.service.processes.hardening import disable_core_dumps

_HEADER = struct.Struct(">32sI32sIIHH")
"""A piece's beginning: task id, round, key-set hash, bytes of all inner envelopes, submissions, and the lengths of the
suite's name and of the private key, which follow."""

LENGTH = 4
"""Bytes of the number that precedes an answer and says how long it is."""

_OPENED, _UNOPENABLE = b"\1", b"\0"


@dataclass(frozen=True)
class RoundKey:
    """What a round's outer envelopes are opened with: where they were sealed for, and the raw private key.

    `inners` is how many bytes the inner envelopes of one submission have together; `suite` is the suite's name.
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
        """Make what opens them; it takes twice as long as opening one."""
        return OuterOpener(self.destination, self.private_key, [self.inners], suite_named(self.suite))


def open_each(opener: OuterOpener, submissions: Iterable[Submission]) -> list[bytes | None]:
    """Open submissions: for each its inner envelopes joined, or None if it does not open."""
    return [_opened(opener, submission.envelope, submission.id) for submission in submissions]


def _opened(opener: OuterOpener, envelope: bytes, submission_id: bytes) -> bytes | None:
    try:
        return opener.open_merged(envelope, submission_id)
    except EnvelopeError:
        return None


# What goes through the pipes


def write_records(key: RoundKey, submissions: Sequence[Submission]) -> bytes:
    """Encode submissions as a piece holds them, one after the other.

    Raises:
        ValueError: if an envelope is not as long as the round's envelopes are; it would shift all that follow.
    """
    length = key.outer
    if any(len(submission.envelope) != length for submission in submissions):
        raise ValueError(f"an envelope has not the {length} bytes that this round's have")
    return b"".join([part for submission in submissions for part in (submission.id, submission.envelope)])


def write_header(key: RoundKey, count: int) -> bytes:
    """Encode the header that precedes the records of `count` submissions."""
    to, suite, private = key.destination, key.suite.encode(), key.private_key
    head = _HEADER.pack(to.task_id, to.round, to.key_set_hash, key.inners, count, len(suite), len(private))
    return head + suite + private


NICE = 5
"""How much less than the service's own a process that opens is favoured (`nice`): it has a third of its weight."""


def read_answer(answer: bytes, key: RoundKey) -> list[bytes | None]:
    """Decode the answer to a piece: for each submission its inner envelopes joined, or None."""
    width = 1 + key.inners
    return [answer[start + 1 : start + width] if answer[start] else None for start in range(0, len(answer), width)]


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """Answer pieces until there are no more."""
    key, opener = None, None
    while len(header := asked.read(_HEADER.size)) == _HEADER.size:
        task_id, number, key_set_hash, inners, count, name, private = _HEADER.unpack(header)
        suite, private_key = asked.read(name).decode(), asked.read(private)
        wanted = RoundKey(Destination(task_id, number, key_set_hash), private_key, inners, suite)
        if opener is None or wanted != key:
            key, opener = wanted, wanted.opener()
        answer = _answer(opener, wanted, asked.read(count * (SUBMISSION_ID_BYTES + wanted.outer)))
        answers.write(len(answer).to_bytes(LENGTH, "big") + answer)
        answers.flush()


def _answer(opener: OuterOpener, key: RoundKey, records: bytes) -> bytes:
    width, blank = SUBMISSION_ID_BYTES + key.outer, bytes(key.inners)
    parts = []
    for start in range(0, len(records), width):
        begin = start + SUBMISSION_ID_BYTES
        plain = _opened(opener, records[begin : start + width], records[start:begin])
        # An envelope that does not open takes as many bytes as one that does: answers are cut apart by width alone.
        parts.append(_UNOPENABLE + blank if plain is None else _OPENED + plain)
    return b"".join(parts)


if __name__ == "__main__":
    disable_core_dumps()
    # The service ends this process by closing its stdin, once it has drained; a signal to the group is not for it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    # Behind the process that takes and answers calls: where all cores are busy, it would wait for its turn among these,
    # and what it had refused at once would have waited as long as what it takes.
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)
