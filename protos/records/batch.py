"""Defines the batch of one query's permuted inner envelopes, and the signed record of its release.

If a task names hops, each of them signs its own record around the one that it received. So the last record contains all
others, and with it anybody can check the input and output of each shuffler.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument, from_hex
from hubbub.protos.identity.formats import BATCH_RECORD, HOP_RECORD, Label
from hubbub.protos.identity.keys import HASH_BYTES, Identity
from hubbub.protos.records.release_chain import ChainPosition
from hubbub.protos.refusals import Reason
from hubbub.protos.sealing.envelope import FIRST_HOP, NUMBER_LIMIT
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.schedule import Close
from hubbub.protos.task.task import FIRST_SHUFFLER, MAXIMUM_ADDED, MAXIMUM_HOPS, MAXIMUM_REPORTS, Task


class LeftOut(StrEnum):
    """Why a delivered envelope is not passed on, or not counted."""

    DUPLICATE = "duplicate"
    """A byte-identical envelope was counted already."""
    UNOPENABLE = "unopenable"
    """The envelope does not open with the key that the party has for the round."""
    OUT_OF_DOMAIN = "out_of_domain"
    """The envelope opens, but has no symbol of the query."""


AT_A_HOP = frozenset({LeftOut.DUPLICATE, LeftOut.UNOPENABLE})
"""The reasons that a hop can have; only the analyzer sees the content of inner envelopes."""


@dataclass(frozen=True, order=True)
class BatchId:
    """The id of a batch: the task's id (32 bytes), the round, and the query's index in the task."""

    task_id: bytes
    round: int
    query: int


def released_digest(envelopes: Iterable[bytes]) -> bytes:
    """Return the SHA-256 (32 bytes) of a released list: a label, then the envelopes, all of one length, in order."""
    digest = begun_digest()
    for envelope in envelopes:
        digest.update(envelope)
    return digest.digest()


def begun_digest() -> hashlib._Hash:
    """Return the hash of a released list before its first envelope, for adding envelopes one by one."""
    # No lengths in between: the envelopes of a query have one length, which the task fixes.
    return hashlib.sha256(Label.BATCH_DIGEST.encode())


@dataclass(frozen=True)
class HopRecord:
    """A hop's statement about a batch: the envelopes that it received, left out (by reason), added and released.

    `position` is the hop's in the chain of shufflers, 2 for the first hop. `previous` is the record that came with the
    batch, signed by its sender. `dummies` is the sum of what the hop drew as noise. `digest` is the `released_digest`
    of the permuted list of the envelopes that opened and of the dummies.
    """

    position: int
    previous: SignedDocument
    received: int
    left_out: Mapping[str, int]
    digest: bytes
    dummies: int = 0

    @property
    def released(self) -> int:
        """How many envelopes it passed on."""
        return self.received - sum(self.left_out.values()) + self.dummies

    def signed_by(self, identity: Identity) -> SignedDocument:
        """Sign this record."""
        return SignedDocument.make(HOP_RECORD, self._content(), identity.key)

    def _content(self) -> dict[str, Any]:
        return {
            "digest": self.digest.hex(),
            "dummies": self.dummies,
            "format": HOP_RECORD.format,
            "hop": self.position,
            "left_out": dict(self.left_out),
            "previous": self.previous.as_json(),
            "received": self.received,
            "released": self.released,
        }

    @classmethod
    def read(cls, document: SignedDocument, identity: bytes) -> HopRecord:
        """Return the record, checked to be signed by the hop's `identity` (32 bytes); `previous` is not checked yet.

        Raises:
            SignatureError: if the signature is invalid, or the content is not a hop record's.
        """
        content = document.content(HOP_RECORD, identity)
        try:
            record = cls._from_content(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SignatureError(f"not a hop record of {HOP_RECORD.format}: {error!r:.200}") from error
        # Equal only if the numbers add up, and if there is no other member.
        if record._content() != content:
            raise SignatureError(
                f"not a hop record of {HOP_RECORD.format}: its numbers do not add up, or it has other members"
            )
        return record

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> HopRecord:
        left_out, most = content["left_out"], MAXIMUM_REPORTS + MAXIMUM_ADDED
        numbers = [content["received"], content["released"], content["dummies"], *left_out.values()]
        if any(type(number) is not int or not 0 <= number <= most for number in numbers):
            raise ValueError(f"counts are whole numbers up to {most}")
        if type(content["hop"]) is not int or not FIRST_HOP <= content["hop"] < FIRST_HOP + MAXIMUM_HOPS:
            raise ValueError(f"hops have the positions {FIRST_HOP} to {FIRST_HOP + MAXIMUM_HOPS - 1}")
        if not set(left_out) <= AT_A_HOP or 0 in left_out.values():
            raise ValueError("unknown reason, or one that was never met")
        if sum(left_out.values()) > content["received"]:
            raise ValueError(f"it left out {sum(left_out.values())} envelopes, but received {content['received']}")
        return cls(
            position=content["hop"],
            previous=SignedDocument.from_json(content["previous"]),
            received=content["received"],
            left_out=dict(left_out),
            digest=from_hex(content["digest"], HASH_BYTES, "digest"),
            dummies=content["dummies"],
        )


@dataclass(frozen=True)
class BatchRecord:
    """The shuffler's statement about a batch: the number of devices' `reports`, its digest, the round's refusals.

    The released list has `envelopes` envelopes: those of the `reports`, and `dummies` more, uniform ones or noise, that
    the shuffler made. `digest` is the list's `released_digest`. `refusals` counts refused submissions by reason.
    `closed_by` names the cause of the cut. `key_set_hash` is the hash to which all its envelopes are bound. `admission`
    is the mode in which the shuffler admitted submissions, `position` the round's position among the task's releases.
    `hops` are the records that hops signed around this one, in order; the shuffler's signature does not cover them.
    """

    batch: BatchId
    reports: int
    digest: bytes
    key_set_hash: bytes
    closed_by: Close
    refusals: Mapping[str, int] = field(default_factory=dict)
    dummies: int = 0
    admission: str = field(kw_only=True)
    position: ChainPosition = field(kw_only=True)
    hops: tuple[HopRecord, ...] = ()

    def __post_init__(self) -> None:
        if (self.admission is None) is not (self.position is None):
            raise ValueError("a batch record states admission and position, or neither")

    @property
    def envelopes(self) -> int:
        """The number of envelopes in the list that the end of the chain released: the shuffler, or its last hop."""
        return self.hops[-1].released if self.hops else self.reports + self.dummies

    @property
    def added(self) -> int:
        """How many reports all shufflers of the chain added to the batch."""
        return self.dummies + sum(hop.dummies for hop in self.hops)

    def dummies_differ(self, task: Task) -> str | None:
        """Return in words why one of the shufflers cannot have added as many reports as it states; None if all can."""
        stated = ((FIRST_SHUFFLER, self.dummies), *((hop.position, hop.dummies) for hop in self.hops))
        differ = (task.dummies_differ(self.batch.query, number, position) for position, number in stated)
        return next((words for words in differ if words is not None), None)

    @property
    def last_digest(self) -> bytes:
        """The digest of that list."""
        return self.hops[-1].digest if self.hops else self.digest

    @property
    def left_out(self) -> dict[str, int]:
        """How many envelopes the hops left out, by reason; reasons without any are absent."""
        return dict(sum((Counter(hop.left_out) for hop in self.hops), Counter[str]()))

    def signed_by(self, identity: Identity) -> SignedDocument:
        """Sign this record."""
        return SignedDocument.make(BATCH_RECORD, self._content(), identity.key)

    def _content(self) -> dict[str, Any]:
        return {
            "admission": self.admission,
            "closed_by": self.closed_by,
            "digest": self.digest.hex(),
            "dummies": self.dummies,
            "format": BATCH_RECORD.format,
            "head": self.position.head.hex(),
            "key_set": self.key_set_hash.hex(),
            "position": self.position.number,
            "query": self.batch.query,
            "refusals": dict(self.refusals),
            "reports": self.reports,
            "round": self.batch.round,
            "task": self.batch.task_id.hex(),
        }

    @classmethod
    def read(cls, document: SignedDocument, identity: bytes, hops: Sequence[bytes] = ()) -> BatchRecord:
        """Return the record, checked to be signed by the shuffler's `identity` (32 bytes).

        With the identities of `hops`, in order, `document` is the record of the last hop, and the result has the
        records of all.

        Raises:
            SignatureError: if a signature is invalid, the content is not a record's, or a hop received another number
                of envelopes than the party before it released.
        """
        if hops:
            return cls._read_behind(HopRecord.read(document, hops[-1]), identity, hops)
        content = document.content(BATCH_RECORD, identity)
        try:
            record = cls._from_content(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SignatureError(f"not a batch record of {BATCH_RECORD.format}: {error!r:.200}") from error
        # Equal only if there was no other member.
        if record._content() != content:
            raise SignatureError(f"not a batch record of {BATCH_RECORD.format}: it has members that are not read here")
        return record

    @classmethod
    def _read_behind(cls, last: HopRecord, identity: bytes, hops: Sequence[bytes]) -> BatchRecord:
        before = cls.read(last.previous, identity, hops[:-1])
        if last.position != FIRST_HOP + len(hops) - 1:
            raise SignatureError(
                f"the record of hop {last.position} is in the place of hop {FIRST_HOP + len(hops) - 1}"
            )
        if last.received != before.envelopes:
            raise SignatureError(
                f"hop {last.position} received {last.received} envelopes, but the one before it released "
                f"{before.envelopes}"
            )
        return replace(before, hops=(*before.hops, last))

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> BatchRecord:
        refusals = content["refusals"]
        counts = [content["query"], content["round"], content["reports"], content["dummies"], content["position"]]
        numbers = [*counts, *refusals.values()]
        if any(type(number) is not int or not 0 <= number <= MAXIMUM_REPORTS for number in numbers):
            raise ValueError(f"counts are whole numbers up to {MAXIMUM_REPORTS}")
        if max(content["query"], content["round"]) >= NUMBER_LIMIT:
            raise ValueError(f"rounds and queries are numbers below {NUMBER_LIMIT}")
        if not set(refusals) <= {reason.value for reason in Reason} or content["closed_by"] not in (
            "schedule",
            "operator",
        ):
            raise ValueError("unknown reason")
        return cls(
            batch=BatchId(from_hex(content["task"], HASH_BYTES, "task"), content["round"], content["query"]),
            reports=content["reports"],
            digest=from_hex(content["digest"], HASH_BYTES, "digest"),
            key_set_hash=from_hex(content["key_set"], HASH_BYTES, "key_set"),
            closed_by=content["closed_by"],
            refusals=dict(refusals),
            dummies=content["dummies"],
            admission=Mode(content["admission"]).value,
            position=ChainPosition(content["position"], from_hex(content["head"], HASH_BYTES, "head")),
        )


def round_named(document: SignedDocument) -> tuple[bytes, int]:
    """Return the task's id and the round that a record names; nothing in it is checked yet.

    Raises:
        SignatureError: if it does not name them.
    """
    try:
        content = read_json(document.body)
        while content.get("format") == HOP_RECORD.format:
            content = content["previous"]["body"]
        number = content["round"]
        if type(number) is not int:
            raise ValueError("its round is not a number")
        return from_hex(content["task"], HASH_BYTES, "task"), number
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SignatureError(f"not a batch record of {BATCH_RECORD.format}: {error!r:.200}") from error


def left_out_by_hops(document: SignedDocument) -> dict[str, int]:
    """Return how many envelopes hops left out, by reason, from a record that was checked before it was stored."""
    found = Counter[str]()
    # In most tasks there is no hop, and nothing is parsed.
    content = read_json(document.body) if f'"{HOP_RECORD.format}"'.encode() in document.body else {}
    while content.get("format") == HOP_RECORD.format:
        found.update(content["left_out"])
        content = content["previous"]["body"]
    return dict(found)
