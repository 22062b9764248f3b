"""A certificate as an analyzer makes it, from made-up counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.accountant.certificate.members import (
    ATTESTED,
    CERTIFICATE_FORMAT,
    IF_MINIMUM_VALID,
    UNATTESTED_FORMATS,
)
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.protos.identity.documents import SignedDocument, sign, write_canonical
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord
from hubbub.protos.records.counts import DIGEST
from hubbub.protos.records.release_chain import Release, place_after
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.formats import CERTIFICATE_FORMS, form_named
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

    They state the place after the releases `before`, where the task's records state one; hops pass on all they got.
    """
    place = None if task.stated is None else place_after(task.id, before)
    added = task.privacy.dummies if dummies is None else dummies
    records = [
        BatchRecord(
            BatchId(task.id, latest.round, index),
            query.reports,
            bytes(32),
            bytes(32),
            "schedule",
            {"too_late": 2},
            added,
            task.stated_mode,
            place,
        ).signed_by(parties.shuffler)
        for index, query in enumerate(latest.queries)
    ]
    for number, hop in enumerate(parties.hops, FIRST_HOP):
        records = [
            HopRecord(number, record, query.reports + added, {}, bytes(32)).signed_by(hop)
            for record, query in zip(records, latest.queries, strict=True)
        ]
    return records


def releases_of(task: Task, parties: Parties, history: Sequence[RoundCounts]) -> list[Release]:
    """The releases of these rounds, one after the other."""
    releases: list[Release] = []
    for counts in history:
        records = batch_records(task, parties, counts, before=releases)
        releases.append(Release.signed(counts.round, counts.queries[0].reports, task.privacy.dummies, records))
    return releases


def _before(task: Task, parties: Parties, history: Sequence[RoundCounts]) -> dict[str, Any]:
    if task.stated is None:
        return {"earlier": [batch_records(task, parties, earlier)[0].as_json() for earlier in history[:-1]]}
    before = releases_of(task, parties, history[:-1])
    return {"releases": [release.content() for release in before], "uncounted": []}


def content_of(
    task: Task, parties: Parties, history: Sequence[RoundCounts], *, form: str = CERTIFICATE_FORMAT
) -> dict[str, Any]:
    """The content of a certificate of that form."""
    before = [] if task.stated is None else releases_of(task, parties, history[:-1])
    return {
        **({} if form in UNATTESTED_FORMATS else {DIGEST: bytes(32).hex()}),
        "format": form,
        "task": signed(task, parties).as_json(),
        "round": history[-1].round,
        "batches": [record.as_json() for record in batch_records(task, parties, history[-1], before=before)],
        **_before(task, parties, history),
        **(without_words if form in UNATTESTED_FORMATS else dict)(statement(Terms.of(task), history)),
        **({} if task.stated is None else {"admission": task.admission.statement()}),
    }


def without_words(stated: Any) -> Any:
    """A statement as it was made before version 3, which does not say what rests on the analyzer's word."""
    if isinstance(stated, list):
        return [without_words(each) for each in stated]
    if not isinstance(stated, dict):
        return stated
    later = {ATTESTED, IF_MINIMUM_VALID, "valid_reports"}
    return {name: without_words(value) for name, value in stated.items() if name not in later}


def encode(content: Mapping[str, Any], parties: Parties) -> bytes:
    """Sign the content as the analyzer, in the form that it names, and return the file's bytes."""
    form = form_named(content["format"], CERTIFICATE_FORMS)
    body = write_canonical(content, form.version)
    document = SignedDocument(body, sign(form.label, body, parties.analyzer.key), form.version)
    return write_canonical(document.as_json(), form.version)
