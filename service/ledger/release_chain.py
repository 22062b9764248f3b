"""Checks that a task's releases continue its chain, at each receiver of batches and in each store that is opened."""

from __future__ import annotations

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
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError

Signed = tuple[bytes, int, SignedDocument]
"""A stored batch record: its task's id, its query, the document."""


def check_chain(
    task: Task, record: BatchRecord, document: SignedDocument, sent: ReleaseChunk, stored: Sequence[Release]
) -> None:
    """Check that a batch's round continues the task's `stored` releases, or is already among them.

    `sent` are the releases that came with the record; the last of them is its own round's. They may include releases of
    rounds that were never delivered here: every signed round was released.

    Raises:
        Refusal: FORKED if the sender's releases differ from the stored ones, BAD_RECORD if the sent releases are
            inconsistent in themselves, INCOMPLETE if releases between the stored and the sent ones are missing.
    """
    _check_sent(task, record, document, sent)
    if sent.first > len(stored):
        raise Refusal(
            Reason.INCOMPLETE, f"{len(stored)} releases are known here; send those from position {len(stored)}"
        )
    for position, (known, other) in enumerate(zip(stored[sent.first :], sent.releases, strict=False), sent.first):
        if known != other:
            raise _forked(task, _difference(position, known, other))
    before = [*stored[: sent.first], *sent.releases[:-1]]
    if len({release.round for release in before} | {record.batch.round}) != len(before) + 1:
        raise Refusal(
            Reason.BAD_RECORD,
            f"a round occurs twice among the releases of task {task.name}, but a round is released once; check the "
            "shuffler's store",
        )
    if head_after(task.id, before) != record.position.head:
        raise _forked(task, f"the head before round {record.batch.round} is not that of the rounds before it")


def _difference(position: int, known: Release, other: Release) -> str:
    if known.round == other.round:
        return f"its release of round {other.round} has other contents than the one that it sent before"
    return f"its release at position {position} is of round {other.round} now, and was of round {known.round} before"


def _forked(task: Task, what: str) -> Refusal:
    return Refusal(
        Reason.FORKED,
        f"the shuffler's releases of task {task.name} differ from those that it sent before: {what}. Its store is an "
        "old copy, or another party signs with its key: restore its newest store, or end the task",
    )


def _check_sent(task: Task, record: BatchRecord, document: SignedDocument, sent: ReleaseChunk) -> None:
    try:
        for release in sent.releases:
            check_release(task, release)
    except SignatureError as error:
        raise Refusal(Reason.BAD_RECORD, str(error)) from error
    if not sent.releases or sent.end != record.position.number + 1:
        raise Refusal(
            Reason.BAD_RECORD,
            "the releases that came with the record do not end with its round; send all releases up to that round",
        )
    own = sent.releases[-1]
    # A release states the task's dummies, which `check_release` checked; noise is in the records alone.
    stated = (record.batch.round, record.reports, record_hash(document))
    if stated != (own.round, own.reports, own.records[record.batch.query]):
        raise Refusal(
            Reason.BAD_RECORD,
            "the batch record is not the one in the release that came with it; send the record that was released",
        )


def check_chains(
    whose: str, chains: Mapping[bytes, Sequence[tuple[Release, bytes]]], records: Iterable[Signed], *, own: bool
) -> None:
    """Check that every task's releases form a chain, and include the batch records that are stored.

    `own`: these are the releases of the store's own service, which has signed a record of each of them.

    Raises:
        StoreError: if they do not: somebody else changed the file, or parts of it are an old copy.
    """
    for task_id, chain in chains.items():
        _check_heads(whose, task_id, chain)
    found = 0
    for task_id, query, document in records:
        content = read_json(first_record(document).body)
        if not _stands(chains.get(task_id, ()), content, query, document):
            raise _broken(whose, task_id, f"round {content['round']} was signed, and is not among them unchanged")
        found += 1
    held = sum(len(release.records) for chain in chains.values() for release, _ in chain)
    if own and found != held:
        raise StoreError(f"the {whose}'s releases name {held} batch records, but {found} are stored; {_RESTORE}")


_RESTORE = "restore the newest copy of the store, or end its tasks"


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
    return StoreError(f"the {whose}'s releases of task {task_id.hex()} are invalid: {what}; {_RESTORE}")
