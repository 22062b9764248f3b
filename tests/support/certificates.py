"""A certificate as an analyzer makes it, from made-up counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord
from hubbub.protos.records.counts import DIGEST
from hubbub.protos.records.release_chain import Release, position_after
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.task import Task
from support.samples import Parties, signed


def counts(task: Task, round_number: int, reports: int, left_out: int = 0) -> RoundCounts:
    """A round in which every query got `reports` reports, `left_out` of which did not open."""
    queries = [
        QueryCount(query.name, mechanism, reports, reports - left_out, {"unopenable": left_out} if left_out else {})
        for query, mechanism in zip(task.queries, [query.mechanism for query in task.queries], strict=True)
    ]
    return RoundCounts(round_number, tuple(queries))


def batch_records(
    task: Task,
    parties: Parties,
    latest: RoundCounts,
    dummies: int | None = None,
    before: Sequence[Release] = (),
) -> list[SignedDocument]:
    """The shuffler's record of each query's batch, with the task's dummies or another number of them.

    They state the position after the releases `before`; hops pass on all they got.
    """
    added = [task.privacy.dummies + query.noise if dummies is None else dummies for query in latest.queries]
    records = [
        BatchRecord(
            BatchId(task.id, latest.round, index),
            query.reports,
            bytes(32),
            bytes(32),
            "schedule",
            {"too_late": 2},
            added[index],
            admission=task.admission.mode.value,
            position=position_after(task.id, before),
        ).signed_by(parties.shuffler)
        for index, query in enumerate(latest.queries)
    ]
    for number, hop in enumerate(parties.hops, FIRST_HOP):
        records = [
            HopRecord(number, record, query.reports + more, {}, bytes(32)).signed_by(hop)
            for record, query, more in zip(records, latest.queries, added, strict=True)
        ]
    return records


def releases_of(task: Task, parties: Parties, history: Sequence[RoundCounts]) -> list[Release]:
    """The releases of these rounds, one after the other."""
    releases: list[Release] = []
    for counts in history:
        records = batch_records(task, parties, counts, before=releases)
        releases.append(Release.signed(counts.round, counts.queries[0].reports, task.privacy.dummies, records))
    return releases


def content_of(task: Task, parties: Parties, history: Sequence[RoundCounts]) -> dict[str, Any]:
    """The content of a certificate."""
    before = releases_of(task, parties, history[:-1])
    return {
        "admission": task.admission_statement,
        "batches": [record.as_json() for record in batch_records(task, parties, history[-1], before=before)],
        DIGEST: bytes(32).hex(),
        "format": CERTIFICATE.format,
        "releases": [release.content() for release in before],
        "round": history[-1].round,
        "successions": [],
        "task": signed(task, parties).as_json(),
        "uncounted": [],
        **statement(Terms.of(task), history),
    }


def encode(content: Mapping[str, Any], parties: Parties) -> bytes:
    """Sign the content as the analyzer, and return the file's bytes."""
    return canonical(SignedDocument.make(CERTIFICATE, dict(content), parties.analyzer.key).as_json())
