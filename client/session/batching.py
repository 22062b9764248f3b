"""Splits submissions into calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SUBMISSIONS, SUBMISSION_OVERHEAD

T = TypeVar("T")

PER_CALL = 100
"""Submissions in one call, by default. Larger calls hardly lower the cost of a submission."""


def most_per_call(envelope_bytes: int) -> int:
    """Return the most submissions in one call: those that fit into a message, up to the shuffler's limit."""
    return min(MAXIMUM_SUBMISSIONS, MAXIMUM_MESSAGE_BYTES // (envelope_bytes + SUBMISSION_OVERHEAD))


def chunks(items: Iterable[T], length: int) -> Iterator[list[T]]:
    """Yield the items in lists of `length`; the last may be shorter."""
    remaining = iter(items)
    while chunk := list(islice(remaining, length)):
        yield chunk
