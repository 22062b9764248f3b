"""Says how a round's dummies are sealed, also to a process that seals them.

Sealing keeps the interpreter lock, as opening does, so the shuffler's opening processes seal a batch's dummies, too. A
job and its reports reach such a process as a header of fixed width, the names and keys, and the reports. The answer is
as wide for each report as its envelope.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property

from hubbub.protos.sealing.envelope import Destination, Sealer, inner_bytes
from hubbub.protos.sealing.suites import suite_named

_HEADER = struct.Struct(">32sI32sIIIIHHH")
"""Task id, round, key-set hash, position of the first hop behind, query, bytes of a report, number of reports; then the
number of keys, the length of each, and that of the suite's name. The name and the keys follow."""

HEADER_BYTES = _HEADER.size


@dataclass(frozen=True)
class SealingJob:
    """The query whose reports are sealed, and for whom; nothing of it is secret.

    `public_keys` are the raw ones of the shuffler, the analyzer and the hops behind, in the chain's order. The first of
    those hops has position `first_hop`.
    """

    destination: Destination
    public_keys: tuple[bytes, ...]
    suite: str
    first_hop: int
    query: int
    report_bytes: int

    @cached_property
    def envelope_bytes(self) -> int:
        """Length of each envelope: a layer for the analyzer, and one for each hop."""
        return inner_bytes(self.report_bytes, suite_named(self.suite), len(self.public_keys) - 1)

    def seal(self, reports: bytes) -> bytes:
        """Seal joined reports; return their envelopes, joined in the same order.

        Raises:
            EnvelopeError: if a public key is none of the suite's, or cannot be sealed to.
        """
        shuffler, analyzer, *hops = self.public_keys
        sealer = Sealer(self.destination, shuffler, analyzer, suite_named(self.suite), hops, self.first_hop)
        size = self.report_bytes
        return b"".join(
            sealer.inner(reports[start : start + size], self.query) for start in range(0, len(reports), size)
        )

    def write_header(self, count: int) -> bytes:
        """Encode what precedes `count` reports."""
        here, name = self.destination, self.suite.encode()
        lengths = len(self.public_keys), len(self.public_keys[0]), len(name)
        numbers = self.first_hop, self.query, self.report_bytes, count
        head = _HEADER.pack(here.task_id, here.round, here.key_set_hash, *numbers, *lengths)
        return b"".join([head, name, *self.public_keys])


def read_header(header: bytes, read: Callable[[int], bytes]) -> tuple[SealingJob, int]:
    """Return what `write_header` wrote, given its first bytes and a function that reads more: the job, and the count.

    The reports follow.
    """
    task_id, number, key_set_hash, first_hop, query, size, count, keys, length, name = _HEADER.unpack(header)
    suite, joined = read(name).decode(), read(keys * length)
    each = tuple(joined[start : start + length] for start in range(0, len(joined), length))
    return SealingJob(Destination(task_id, number, key_set_hash), each, suite, first_hop, query, size), count


SealReports = Callable[[SealingJob, bytes], Awaitable[bytes]]
"""Seals joined reports without stopping the event loop; raises what `SealingJob.seal` does."""
