"""Says why an envelope does not open: it is tried with the keys and contexts that a client takes by mistake.

Only for keys that protect nothing. A service never tries a second context.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hubbub.protos.errors import EnvelopeError
from hubbub.protos.sealing.envelope import FIRST_HOP, Destination
from hubbub.protos.sealing.suites import Suite

OUTER, INNER, HOP = b"hubbub/v1 shuffler", b"hubbub/v1 analyzer", b"hubbub/v1 hop"

MOST_QUERIES = 256
"""Indices of other queries that are tried."""


@dataclass(frozen=True)
class RoundKeys:
    """The private keys of a round, raw; `hops` are those of the hops in their order, the first in position 2."""

    shuffler: bytes = field(repr=False)
    analyzer: bytes = field(repr=False)
    hops: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class TriedContext:
    """A context that an envelope may have been sealed with: the key, the `info`, and what is wrong with it."""

    key: bytes = field(repr=False)
    info: bytes = field(repr=False)
    wrong: str


def why_outer(suite: Suite, keys: RoundKeys, to: Destination, submission_id: bytes, envelope: bytes) -> str:
    """Return why the envelope for the shuffler does not open, as far as that can be found."""
    right = TriedContext(keys.shuffler, OUTER + _written(to) + submission_id, "")
    remedy = f"info is the label {OUTER.decode()!r}, the destination and the submission id, in this order"
    return _why(suite, envelope, right, _outer_contexts(keys, to, submission_id), remedy)


def why_inner(suite: Suite, keys: RoundKeys, to: Destination, query: int, envelope: bytes) -> str:
    """Return why the envelope of a query's report does not open, as far as that can be found."""
    right = TriedContext(keys.analyzer, INNER + _written(to) + query.to_bytes(4, "big"), "")
    remedy = f"info is the label {INNER.decode()!r}, the destination and the query's index, in this order"
    return _why(suite, envelope, right, _inner_contexts(keys, to, query), remedy)


def why_hop(suite: Suite, keys: RoundKeys, to: Destination, query: int, position: int, envelope: bytes) -> str:
    """Return why the layer for the hop in that position does not open, as far as that can be found."""
    rest = _written(to) + query.to_bytes(4, "big")
    right = TriedContext(keys.hops[position - FIRST_HOP], HOP + position.to_bytes(4, "big") + rest, "")
    remedy = (
        f"info is the label {HOP.decode()!r}, the position in 4 bytes, the destination and the query's index, in this "
        f"order; the first hop is in position {FIRST_HOP}, and the last hop is sealed to first"
    )
    return _why(suite, envelope, right, _hop_contexts(keys, to, query, position), remedy)


def _why(suite: Suite, envelope: bytes, right: TriedContext, contexts: Iterator[TriedContext], remedy: str) -> str:
    for context in contexts:
        if _opens(suite, envelope, context):
            return f"it opens, but {context.wrong}; {remedy}"
    size = suite.overhead_bytes - _TAG_BYTES
    if _opens(suite, envelope[-size:] + envelope[:-size], right):
        return "its encapsulated key is at the end; it comes first"
    return (
        f"it opens with no key and context of this round; {remedy}, without associated data; the suite is {suite.name}"
    )


def _opens(suite: Suite, envelope: bytes, context: TriedContext) -> bool:
    try:
        suite.decrypt(envelope, suite.private_key(context.key), context.info)
    except EnvelopeError:
        return False
    return True


_TAG_BYTES = 16


def _written(to: Destination) -> bytes:
    return next(_destinations(to))[0]


def _destinations(to: Destination) -> Iterator[tuple[bytes, str]]:
    """Return the bytes of a destination, right first, and then as they may be written by mistake."""
    task, number, keys = to.task_id, to.round, to.key_set_hash
    yield task + number.to_bytes(4, "big") + keys, ""
    yield task + number.to_bytes(4, "little") + keys, "the round is little-endian"
    yield task + number.to_bytes(8, "big") + keys, "the round has eight bytes in place of four"
    yield task + str(number).encode() + keys, "the round is written as text"
    yield task + keys, "the round is missing"
    yield task + number.to_bytes(4, "big"), "the hash of the key set is missing"
    yield keys + number.to_bytes(4, "big") + task, "the parts of the destination are in another order"
    yield task.hex().encode() + number.to_bytes(4, "big") + keys.hex().encode(), "the hashes are written in hex"
    yield b"", "the destination is missing"


def _outer_contexts(keys: RoundKeys, to: Destination, submission_id: bytes) -> Iterator[TriedContext]:
    for written, wrong in _destinations(to):
        if wrong:
            yield TriedContext(keys.shuffler, OUTER + written + submission_id, wrong)
        yield TriedContext(keys.shuffler, OUTER + written, wrong or "the submission id is missing in info")
    right = _written(to)
    yield TriedContext(keys.shuffler, OUTER + submission_id + right, "the submission id is before the destination")
    yield TriedContext(
        keys.shuffler, OUTER + right + submission_id.hex().encode(), "the submission id is written in hex"
    )
    yield from _labeled(OUTER, right + submission_id, (keys.shuffler, keys.analyzer), "the analyzer's")


def _inner_contexts(keys: RoundKeys, to: Destination, query: int) -> Iterator[TriedContext]:
    index = query.to_bytes(4, "big")
    for written, wrong in _destinations(to):
        if wrong:
            yield TriedContext(keys.analyzer, INNER + written + index, wrong)
    right = _written(to)
    for other in range(MOST_QUERIES):
        if other != query:
            wrong = f"the index is {other}, and this query has {query}: count from 0, in the task's order"
            yield TriedContext(keys.analyzer, INNER + right + other.to_bytes(4, "big"), wrong)
    yield TriedContext(keys.analyzer, INNER + right, "the query's index is missing")
    yield TriedContext(keys.analyzer, INNER + right + query.to_bytes(4, "little"), "the query's index is little-endian")
    yield TriedContext(keys.analyzer, INNER + right + bytes([query % 256]), "the query's index has one byte, not four")
    yield TriedContext(keys.analyzer, INNER + index + right, "the query's index is before the destination")
    yield from _labeled(INNER, right + index, (keys.analyzer, keys.shuffler), "the shuffler's")


def _hop_contexts(keys: RoundKeys, to: Destination, query: int, position: int) -> Iterator[TriedContext]:
    key, right, index = keys.hops[position - FIRST_HOP], _written(to), query.to_bytes(4, "big")
    place = position.to_bytes(4, "big")
    for written, wrong in _destinations(to):
        if wrong:
            yield TriedContext(key, HOP + place + written + index, wrong)
    for other in range(len(keys.hops) + FIRST_HOP):
        if other != position:
            wrong = f"the position is {other}, and this hop is in position {position}"
            yield TriedContext(key, HOP + other.to_bytes(4, "big") + right + index, wrong)
    for behind, other_key in enumerate(keys.hops, FIRST_HOP):
        info = HOP + behind.to_bytes(4, "big") + right + index
        yield TriedContext(other_key, info, f"it is the layer of the hop in position {behind}, so the order is wrong")
        yield TriedContext(other_key, HOP + place + right + index, f"it is sealed with the key of position {behind}")
    yield TriedContext(keys.analyzer, INNER + right + index, "it is the analyzer's layer, which is inside the hops'")
    yield TriedContext(key, HOP + right + index, "the position is missing")
    yield TriedContext(key, HOP + bytes([position]) + right + index, "the position has one byte, not four")
    yield TriedContext(key, HOP + position.to_bytes(4, "little") + right + index, "the position is little-endian")
    yield TriedContext(key, HOP + right + place + index, "the position is behind the destination")
    yield TriedContext(key, HOP + place + right, "the query's index is missing")
    yield TriedContext(key, INNER + right + index, f"its label is {INNER.decode()!r}, not {HOP.decode()!r}")
    yield TriedContext(keys.analyzer, HOP + place + right + index, "it is sealed with the analyzer's key")
    yield TriedContext(key, b"", "it is sealed without any info")


def _labeled(label: bytes, rest: bytes, of: tuple[bytes, bytes], other: str) -> Iterator[TriedContext]:
    own, others = of
    another = INNER if label == OUTER else OUTER
    yield TriedContext(others, label + rest, f"it is sealed with {other} key")
    yield TriedContext(own, another + rest, f"its label is {another.decode()!r}, not {label.decode()!r}")
    yield TriedContext(own, label + b"\0" + rest, "there is a zero byte behind the label")
    yield TriedContext(own, rest, "the label is missing")
    yield TriedContext(own, b"", "it is sealed without any info")
