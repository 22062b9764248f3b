"""Whether a task's releases go on where they were, at whoever receives them, and in a store that is opened."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.records.batch import BatchRecord
from hubbub.protos.records.release_chain import (
    Release,
    ReleaseChunk,
    check_release,
    first_head,
    first_record,
    head_after,
    next_head,
    record_hash,
)
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError

Signed = tuple[bytes, int, SignedDocument]
"""A batch record in a store: its task's id, its query, the document."""


def check_chain(
    task: Task, record: BatchRecord, document: SignedDocument, sent: ReleaseChunk, stored: Sequence[Release]
) -> None:
    """Return only if a batch's round goes on where the task's `stored` releases are, or stands among them already.

    `sent` are the releases that came with the record, the last of them its own round's. Releases of rounds that never
    came here may be among them: whatever was signed was released.

    Raises:
        Refusal: FORKED where the sender's releases are not those that are stored, BAD_RECORD where what it sent does
            not hold in itself, INCOMPLETE where releases are missing between the stored ones and those sent.
    """
    _check_sent(task, record, document, sent)
    if sent.first > len(stored):
        raise Refusal(
            Reason.INCOMPLETE, f"{len(stored)} releases are known here; send those from position {len(stored)}"
        )
    for position, (known, other) in enumerate(zip(stored[sent.first :], sent.releases, strict=False), sent.first):
        if known != other:
            raise _forked(
                task, f"at position {position} it has round {other.round} now, and had round {known.round} before"
            )
    before = [*stored[: sent.first], *sent.releases[:-1]]
    if len({release.round for release in before} | {record.batch.round}) != len(before) + 1:
        raise Refusal(Reason.BAD_RECORD, f"a round is twice among the releases of task {task.name}")
    if head_after(task.id, before) != record.position.head:
        raise _forked(task, f"the head before round {record.batch.round} is another than that of the rounds before it")


def _forked(task: Task, what: str) -> Refusal:
    return Refusal(
        Reason.FORKED,
        f"the shuffler's releases of task {task.name} are not those that it had: {what}. Its store is an old copy, or "
        "somebody else signs with its key: put its newest store back, or end the task",
    )


def _check_sent(task: Task, record: BatchRecord, document: SignedDocument, sent: ReleaseChunk) -> None:
    try:
        for release in sent.releases:
            check_release(task, release)
    except SignatureError as error:
        raise Refusal(Reason.BAD_RECORD, str(error)) from error
    if not sent.releases or sent.end != record.position.number + 1:
        raise Refusal(Reason.BAD_RECORD, "the releases that came with the record do not end with its round's position")
    own = sent.releases[-1]
    stated = (record.batch.round, record.reports, record.dummies, record_hash(document))
    if stated != (own.round, own.reports, own.dummies, own.records[record.batch.query]):
        raise Refusal(Reason.BAD_RECORD, "the batch record is not the one in the release that came with it")


def check_chains(
    whose: str, chains: Mapping[bytes, Sequence[tuple[Release, bytes]]], records: Iterable[Signed], *, own: bool
) -> None:
    """Return only if every task's releases follow each other, and hold the batch records that are stored.

    `own`: these are the releases of the store's own service, which has signed a record of each of them.

    Raises:
        StoreError: if they do not: the file was changed by somebody else, or is an old copy in part.
    """
    for task_id, chain in chains.items():
        _check_heads(whose, task_id, chain)
    found = 0
    for task_id, query, document in records:
        content = json.loads(first_record(document).body)
        if not _stands(chains.get(task_id, ()), content, query, document):
            raise _broken(whose, task_id, f"round {content['round']} was signed, and is not among them as it was")
        found += 1
    held = sum(len(release.records) for chain in chains.values() for release, _ in chain)
    if own and found != held:
        raise StoreError(f"the {whose}'s releases hold {held} batch records, and {found} are stored; {_RESTORE}")


_RESTORE = "put the newest copy of the store back, or end its tasks"


def _check_heads(whose: str, task_id: bytes, chain: Sequence[tuple[Release, bytes]]) -> None:
    head = first_head(task_id)
    for position, (release, stated) in enumerate(chain):
        head = next_head(head, release)
        if head != stated:
            raise _broken(whose, task_id, f"the release at position {position} was changed")


def _stands(
    chain: Sequence[tuple[Release, bytes]], content: Mapping[str, Any], query: int, document: SignedDocument
) -> bool:
    position: int = content["position"]
    return position < len(chain) and chain[position][0].records[query : query + 1] == (record_hash(document),)


def _broken(whose: str, task_id: bytes, what: str) -> StoreError:
    return StoreError(f"the {whose}'s releases of task {task_id.hex()} do not hold: {what}; {_RESTORE}")
