"""Chains the shuffler's releases of each task by digests.

A round counts as released from the moment when its batch records are signed, even if it is never delivered. Each such
record states its `ChainPosition`: how many rounds of the task were released before it, and the head of their chain. So
a record attests every earlier round: a list that omits one, or has another order or other numbers, has another head.

The head after no release is SHA-256 over the label, a zero byte and the task's id. After one more release it is SHA-256
over the label, a one byte, the previous head and the release as canonical JSON. Heads have one length, so the beginning
of a release is unambiguous. Two lists with one head would be a collision of SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, from_hex, parse_canonical
from hubbub.protos.identity.formats import HOP_RECORD, Label
from hubbub.protos.identity.keys import HASH_BYTES
from hubbub.protos.task.task import MAXIMUM_REPORTS, Task
from hubbub.queries.errors import shown

_MEMBERS = {"dummies", "records", "reports", "round"}


@dataclass(frozen=True)
class ChainPosition:
    """A round's position among its task's releases: `number` of them came before it, `head` is the head of these."""

    number: int
    head: bytes


@dataclass(frozen=True)
class Release:
    """A released round: its devices' `reports`, its `dummies` in each batch, and the hashes of its records.

    `records` has the SHA-256 of each batch record's body, in the task's order of queries.
    """

    round: int
    reports: int
    dummies: int
    records: tuple[bytes, ...]

    @classmethod
    def signed(cls, round_number: int, reports: int, dummies: int, documents: Sequence[SignedDocument]) -> Release:
        """Return the release with these batch records."""
        return cls(round_number, reports, dummies, tuple(record_hash(document) for document in documents))

    def content(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "dummies": self.dummies,
            "records": [record.hex() for record in self.records],
            "reports": self.reports,
            "round": self.round,
        }


def record_hash(document: SignedDocument) -> bytes:
    """Return the SHA-256 (32 bytes) of a signed batch record's body, without hops' records around it."""
    return hashlib.sha256(first_record(document).body).digest()


def first_record(document: SignedDocument) -> SignedDocument:
    """Return the record that the first shuffler signed, without those of hops around it; nothing is checked."""
    # In most tasks there is no hop, and nothing is parsed.
    while f'"{HOP_RECORD.format}"'.encode() in document.body:
        content = parse_canonical(document.body)
        if content.get("format") != HOP_RECORD.format:
            break
        document = SignedDocument.from_json(content["previous"])
    return document


def read_release(content: Any) -> Release:
    """Return what `Release.content` wrote.

    Raises:
        SignatureError: if it has another form.
    """
    if not isinstance(content, dict) or set(content) != _MEMBERS or not isinstance(content["records"], list):
        raise SignatureError(f"a release has the members {', '.join(sorted(_MEMBERS))}, but this is {shown(content)}")
    for name in ("dummies", "reports", "round"):
        # By type: True is an int to Python, and another value in JSON.
        if type(content[name]) is not int or not 0 <= content[name] <= MAXIMUM_REPORTS:
            raise SignatureError(f"a release's {name} is {shown(content[name])}; it must be a whole number from 0")
    records = tuple(from_hex(record, HASH_BYTES, "a release's record") for record in content["records"])
    return Release(content["round"], content["reports"], content["dummies"], records)


def check_release(task: Task, release: Release) -> None:
    """Check that a release is possible for the task.

    Raises:
        SignatureError: if it is no round of the task, is under the minimum, or has other queries or dummies.
    """
    where = f"the release of round {release.round}"
    if release.round >= task.schedule.rounds:
        raise SignatureError(f"{where} is not of one of the task's {task.schedule.rounds} rounds")
    if not task.minimum_reports <= release.reports <= MAXIMUM_REPORTS:
        limits = f"{task.minimum_reports} to {MAXIMUM_REPORTS}"
        raise SignatureError(f"{where} has {release.reports} reports; it must have {limits}")
    if release.dummies != task.privacy.dummies or len(release.records) != len(task.queries):
        raise SignatureError(
            f"{where} has {release.dummies} dummies and {len(release.records)} records, but the task has "
            f"{task.privacy.dummies} and {len(task.queries)}"
        )


def first_head(task_id: bytes) -> bytes:
    """Return the head (32 bytes) of a task without releases."""
    return hashlib.sha256(Label.RELEASES.encode() + b"\x00" + task_id).digest()


def next_head(head: bytes, release: Release) -> bytes:
    """Return the head (32 bytes) after one more release."""
    return hashlib.sha256(Label.RELEASES.encode() + b"\x01" + head + canonical(release.content())).digest()


def head_after(task_id: bytes, releases: Sequence[Release]) -> bytes:
    """Return the head (32 bytes) of a task after these releases, oldest first."""
    head = first_head(task_id)
    for release in releases:
        head = next_head(head, release)
    return head


def position_after(task_id: bytes, releases: Sequence[Release]) -> ChainPosition:
    """Return the position of the next release after these."""
    return ChainPosition(len(releases), head_after(task_id, releases))


def attested(task: Task, listed: Any, positions: Iterable[ChainPosition]) -> tuple[Release, ...]:
    """Return the releases that a certificate lists, checked against the positions in the records of its round.

    Raises:
        SignatureError: if a release was omitted, moved, inserted or changed, or the list has another form.
    """
    if not isinstance(listed, list):
        raise SignatureError(f"the releases are {shown(listed)}; they must be a list")
    releases = tuple(read_release(each) for each in listed)
    for release in releases:
        check_release(task, release)
    expected = position_after(task.id, releases)
    for position in positions:
        if position.number != expected.number:
            raise SignatureError(f"{position.number} rounds were released before it, but {expected.number} are listed")
        if position != expected:
            raise SignatureError(
                f"the {expected.number} releases listed are not those that the shuffler's batch records attest; one "
                "was changed, moved or put in another's place"
            )
    return releases


@dataclass(frozen=True)
class ReleaseChunk:
    """Consecutive releases, the first of them at position `first`."""

    first: int = 0
    releases: tuple[Release, ...] = ()

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.first + len(self.releases)


NO_RELEASES = ReleaseChunk()
"""No releases: of a task of which nothing was released yet."""


@dataclass(frozen=True)
class Known:
    """A receiver's knowledge of a task's releases: their number, their head, and the rounds among them not counted.

    A round that is still being delivered is not counted completely, and one that came too late not at all.
    """

    count: int
    head: bytes
    uncounted: tuple[int, ...] = ()
