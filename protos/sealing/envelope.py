"""Seals and opens HPKE (RFC 9180) envelopes: an inner one per query for the analyzer, an outer one for the shuffler.

A submission has one outer envelope. The library's single-shot HPKE has no associated data, so the full context of an
envelope goes into `info`: the protocol version, role, task id, round and key-set hash, then the submission id (outer)
or the query's index (inner). Each part has a fixed width. An envelope that is moved to another task, round, query,
submission or key set does not open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from hubbub.protos.errors import EnvelopeError
from hubbub.protos.sealing.suites import DEFAULT, Suite

SUBMISSION_ID_BYTES = 16

TASK_ID_BYTES = 32
"""Length of a task id, and of a key-set hash: both are SHA-256."""

NUMBER_LIMIT = 2**32
"""Rounds and queries are below this: an envelope is bound to them in four bytes each."""

FIRST_HOP = 2
"""The position of the first hop in the chain; the shuffler that devices submit to has position 1."""

_OUTER_LABEL = b"hubbub/v1 shuffler"
_INNER_LABEL = b"hubbub/v1 analyzer"
_HOP_LABEL = b"hubbub/v1 hop"


@dataclass(frozen=True)
class Destination:
    """The context of every envelope of a round: task id (32 bytes), round, key-set hash (32 bytes).

    Raises:
        EnvelopeError: if a part has another width: only fixed widths make destinations unambiguous.
    """

    task_id: bytes
    round: int
    key_set_hash: bytes

    def __post_init__(self) -> None:
        if len(self.task_id) != TASK_ID_BYTES or len(self.key_set_hash) != TASK_ID_BYTES:
            raise EnvelopeError(f"a task id and a key-set hash have {TASK_ID_BYTES} bytes each")
        if not 0 <= self.round < NUMBER_LIMIT:
            raise EnvelopeError(f"round is {self.round}; rounds are numbers from 0 to {NUMBER_LIMIT - 1}")

    def _encode(self) -> bytes:
        # No separators are needed: every part has one width, which the constructor checks, so no two encodings agree.
        return self.task_id + self.round.to_bytes(4, "big") + self.key_set_hash


def inner_bytes(report_bytes: int, suite: Suite = DEFAULT, layers: int = 1) -> int:
    """Return the length of the inner envelope of a report: the same for every answer and device of its query.

    `layers` counts the analyzer's layer, and one for each hop still ahead.
    """
    return report_bytes + layers * suite.overhead_bytes


def outer_bytes(inners: Sequence[int], suite: Suite = DEFAULT) -> int:
    """Return the length of a task's outer envelope, given the lengths of its inner envelopes."""
    return sum(inners) + suite.overhead_bytes


def _inner_info(destination: Destination, query: int, hop: int | None) -> bytes:
    """Return the context of an inner envelope, at the analyzer or at the hop in that position of the chain."""
    label = _INNER_LABEL if hop is None else _HOP_LABEL + hop.to_bytes(4, "big")
    return label + destination._encode() + query.to_bytes(4, "big")


class Sealer:
    """Seals the layers of one round's submissions, all in the task's suite. Takes raw public keys.

    `hop_keys` are those of the hops still ahead, in the chain's order; the first of them is in position `first_hop`. A
    device has all hops ahead of it, a hop those behind it.

    Raises:
        EnvelopeError: if a key does not belong to the suite.
    """

    def __init__(
        self,
        destination: Destination,
        shuffler_key: bytes,
        analyzer_key: bytes,
        suite: Suite = DEFAULT,
        hop_keys: Sequence[bytes] = (),
        first_hop: int = FIRST_HOP,
    ) -> None:
        self._outer_info = _OUTER_LABEL + destination._encode()
        self._destination = destination
        self._suite = suite
        # The last hop first: its layer is directly around the analyzer's.
        self._hops = [(position, suite.public_key(key)) for position, key in enumerate(hop_keys, first_hop)][::-1]
        self._shuffler = suite.public_key(shuffler_key)
        self._analyzer = suite.public_key(analyzer_key)

    def inner(self, report: bytes, query: int) -> bytes:
        """Seal one query's report to the analyzer, and the result to each hop; `inner_bytes` gives its length.

        Raises:
            EnvelopeError: if a public key cannot be sealed to.
        """
        sealed = self._suite.encrypt(report, self._analyzer, _inner_info(self._destination, query, None))
        for position, key in self._hops:
            sealed = self._suite.encrypt(sealed, key, _inner_info(self._destination, query, position))
        return sealed

    def outer(self, inners: Sequence[bytes], submission_id: bytes) -> bytes:
        """Seal the inner envelopes, in the order of the task's queries, to the shuffler.

        Raises:
            EnvelopeError: if the submission id has another length, an inner envelope is too short, or the shuffler's
                public key cannot be sealed to.
        """
        # All inner envelopes of a query have one length because its reports do, which is checked when they are drawn.
        # So they are joined without length fields: the shuffler knows the lengths from the task.
        overhead = self._suite.overhead_bytes
        if len(submission_id) != SUBMISSION_ID_BYTES or any(len(inner) <= overhead for inner in inners):
            raise EnvelopeError(
                f"a submission id has {SUBMISSION_ID_BYTES} bytes and an inner envelope more than {overhead}; other "
                "lengths would distinguish submissions"
            )
        return self._suite.encrypt(b"".join(inners), self._shuffler, self._outer_info + submission_id)


class OuterOpener:
    """Opens a round's outer envelopes with the shuffler's raw private key.

    `inners` are the lengths of the inner envelopes, in the order of the task's queries.

    Raises:
        EnvelopeError: if the key is none of the suite's.
    """

    def __init__(
        self, destination: Destination, private_key: bytes, inners: Sequence[int], suite: Suite = DEFAULT
    ) -> None:
        self._info = _OUTER_LABEL + destination._encode()
        self._suite = suite
        self._key = suite.private_key(private_key)
        self._inners = tuple(inners)
        self._length = sum(inners)

    def open(self, envelope: bytes, submission_id: bytes) -> tuple[bytes, ...]:
        """Return the inner envelopes in the order of the task's queries.

        Raises:
            EnvelopeError: if it does not open, or its content does not have the total length of the inner envelopes.
        """
        plain = self.open_merged(envelope, submission_id)
        ends = list(accumulate(self._inners))
        return tuple(plain[end - length : end] for end, length in zip(ends, self._inners, strict=True))

    def open_merged(self, envelope: bytes, submission_id: bytes) -> bytes:
        """Return the inner envelopes joined to one piece; raises the same as `open`.

        The shuffler's processes use this: they pass a submission's envelopes on in one piece.
        """
        plain = self._suite.decrypt(envelope, self._key, self._info + submission_id)
        if len(plain) != self._length:
            raise EnvelopeError(
                f"the envelope contains {len(plain)} bytes, but the task's inner envelopes have {self._length} together"
            )
        return plain


class InnerOpener:
    """Opens one layer of one query's inner envelopes with a raw private key: the analyzer's, or a hop's.

    `hop` is the hop's position in the chain, None for the analyzer.

    Raises:
        EnvelopeError: if the key is none of the suite's.
    """

    def __init__(
        self, destination: Destination, private_key: bytes, query: int, suite: Suite = DEFAULT, hop: int | None = None
    ) -> None:
        self._info = _inner_info(destination, query, hop)
        self._suite = suite
        self._key = suite.private_key(private_key)

    def open(self, envelope: bytes) -> bytes:
        """Return the content, shorter by the suite's overhead: a report, or the envelope for the next party.

        The report's randomizer decides whether it is valid.

        Raises:
            EnvelopeError: if it does not open.
        """
        return self._suite.decrypt(envelope, self._key, self._info)
