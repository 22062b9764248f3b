"""Checks the counts of a round against the digest in its certificate.

Estimates follow from the counts and the task alone (`Query.estimates_over`). So anybody with the counts of a
certificate can recompute them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.documents import canonical, check_signed_file, parse_canonical
from hubbub.protos.identity.formats import CERTIFICATE, Label
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.results import QueryResult, QueryState
from hubbub.protos.records.results_document import parse_certificate
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task, followed, signers
from hubbub.queries.query import Query
from hubbub.queries.randomizers.randomizer import read_tally

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Tally

DIGEST = "counts_digest"
"""The member of a certificate with the digest."""

_CERTIFICATES = 512
"""Certificates whose statements are remembered: a year of daily rounds fits."""

_STATED = ("reports", "valid", "left_out", "state")


class CountsDiffer(HubbubError):
    """Counted or published numbers differ from those of the round's certificate; the message names the place."""


@dataclass(frozen=True)
class Counted:
    """One query's counted batch: its people's reports, the valid ones, those left out by reason, and its tally.

    `tally` includes the dummies; it is None if the query is withheld. `noise` is the sum of what all shufflers drew as
    noise: the batch has so many dummies in addition to the task's.
    """

    reports: int
    valid: int
    left_out: Mapping[str, int]
    tally: Tally | None = field(repr=False)
    noise: int = 0

    @classmethod
    def published(cls, task: Task, result: QueryResult, noise: int) -> Counted:
        """Return the counted batch of a query from its published results, with so much noise by its certificate.

        Raises:
            CountsDiffer: if the bytes of its counts cannot be its randomizer's.
        """
        facts = (result.reports, result.valid, result.left_out)
        if result.counts and result.estimates is not None and result.estimates.table:
            raise CountsDiffer(f"{result.name}: it has counts and a table, which may differ; a result has one of them")
        if result.state is QueryState.WITHHELD:
            return cls(*facts, None, noise)
        randomizer = task.queries[task.query_index(result.name)].randomizer
        try:
            tally = read_tally(randomizer, result.tallied, result.valid + task.privacy.dummies + noise)
            return cls(*facts, tally, noise)
        except ValueError as error:
            raise CountsDiffer(f"{result.name}: its counts cannot be read: {error}") from error


@dataclass(frozen=True)
class Certified:
    """A certificate's task and content, signed by the task's analyzer; nothing else in it is checked."""

    task: Task
    content: Mapping[str, Any] = field(repr=False)
    """Its statements about the round's counts: `round`, the relevant members of `queries`, and the digest.

    Also the rounds that are composed with it: `history` (each round's number and the valid reports of its queries) and
    `uncounted`.
    """

    def noise(self, index: int) -> int:
        """Return the sum of the noise in a query's batch, by the shufflers' records; 0 if the query has none."""
        dummies: int = self.content["queries"][index]["dummies"]
        return 0 if self.task.queries[index].noise is None else dummies

    def rounds_before(self, index: int | None = None) -> tuple[int, ...]:
        """Return the earlier rounds, ascending, on which estimates over time depend: those that were counted.

        With the `index` of a query, only rounds in which it is published. Rounds that were released or certified later
        are never included, so a round's results never change.
        """
        number, least, uncounted = self.content["round"], self.task.minimum_reports, self.content["uncounted"]
        found = [
            earlier
            for earlier, valid in self.content["history"]
            if earlier < number and earlier not in uncounted and (index is None or valid[index] >= least)
        ]
        return tuple(sorted(found))


def read_certified(certificate: bytes) -> Certified:
    """Return the statements of a certificate, checked to be signed by the analyzer that its task names.

    `hubbub verify` checks the rest. The same bytes are read once; they are not kept, only their hash is.

    Raises:
        CountsDiffer: if it cannot be read, or another key signed it.
    """
    digest = _digest_of(certificate)
    with _REMEMBERING:
        if digest in _REMEMBERED:
            _REMEMBERED.move_to_end(digest)
            return _REMEMBERED[digest]
    try:
        found = _read_certified(certificate)
    except (HubbubError, SignatureError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CountsDiffer(
            f"the round's certificate is damaged, or its analyzer did not sign it: {error!s:.300}"
        ) from error
    with _REMEMBERING:
        _REMEMBERED[digest] = found
        if len(_REMEMBERED) > _CERTIFICATES:
            _REMEMBERED.popitem(last=False)
    return found


_REMEMBERED: OrderedDict[bytes, Certified] = OrderedDict()
_REMEMBERING = Lock()


@lru_cache(maxsize=4)
def _digest_of(certificate: bytes) -> bytes:
    """Return the SHA-256 of a certificate; the last are kept, as each of their rows may ask for the statements."""
    return hashlib.sha256(certificate).digest()


def _read_certified(certificate: bytes) -> Certified:
    value = parse_certificate(certificate)
    body = value["body"]
    task = _task_in(canonical(body["task"]))
    task = followed(task, [Succession.from_json(each) for each in body["successions"]])
    content = check_signed_file(certificate, value, CERTIFICATE, signers(task, body["round"]).analyzer)
    # Only a query with noise needs the number of dummies from here; without noise it is the task's.
    stated = [
        {**{name: query[name] for name in _STATED}, "dummies": query["dummies"] if asked.noise else 0}
        for asked, query in zip(task.queries, content["queries"], strict=True)
    ]
    known = {name: content[name] for name in ("round", DIGEST)}
    history = [
        _shared((each["round"], tuple(query["valid"] for query in each["queries"])))
        for each in content["all_rounds"]["history"]
    ]
    before = {"history": history, "uncounted": list(content["uncounted"])}
    return Certified(task, {**known, **before, "queries": stated})


@lru_cache(maxsize=16)
def _task_in(written: bytes) -> Task:
    """Return a task from the canonical form of a signed task; all certificates of one task share it."""
    return SignedTask.from_json(parse_canonical(written)).task


@lru_cache(maxsize=8192)
def _shared(composed: tuple[Any, tuple[Any, ...]]) -> tuple[Any, tuple[Any, ...]]:
    """Return what a round adds to the history of every later certificate, as one object for all of them.

    Without it, the certificates of a year of daily rounds have 66,000 such objects.
    """
    return composed


def counts_digest(task: Task, number: int, counted: Sequence[Counted]) -> bytes:
    """Return the SHA-256 (32 bytes) of a round's counts, with the queries in the task's order.

    The hash covers the label, a zero byte, the task's id (32 bytes) and the round (4). Then for each query it covers
    its index (4), the valid reports (8), the dummies among the counts (8), whether it is published (1), the number of
    counts (8) and each count (8). Numbers are whole and big-endian. A withheld query has no counts.
    """
    digest = hashlib.sha256(Label.COUNTS.encode() + b"\x00" + task.id + number.to_bytes(4, "big"))
    for index, each in enumerate(counted):
        digest.update(index.to_bytes(4, "big"))
        digest.update(each.valid.to_bytes(8, "big") + (task.privacy.dummies + each.noise).to_bytes(8, "big"))
        counts = b"" if each.tally is None else each.tally.canonical.astype(">i8").tobytes()
        digest.update(bytes([each.tally is not None]) + (len(counts) // 8).to_bytes(8, "big"))
        digest.update(counts)
    return digest.digest()


def check_tallies(task: Task, counted: Sequence[Counted]) -> None:
    """Check that each query's counts can be those of its valid reports and the dummies.

    Raises:
        CountsDiffer: naming the query, the sum of its counts, and the expected sum.
    """
    for query, each in zip(task.queries, counted, strict=True):
        if each.tally is not None:
            _check_tally(query, each.tally, each.valid, task.privacy.dummies + each.noise)


def _check_tally(query: Query, tally: Tally, valid: int, dummies: int) -> None:
    try:
        query.randomizer.check(tally)
    except ValueError as error:
        raise CountsDiffer(f"{query.name}: its counts do not fit its reports: {error}") from error
    total = int(tally.counts.sum())
    if query.randomizer.one_symbol_per_report and total != valid + dummies:
        raise CountsDiffer(
            f"{query.name}: its counts add up to {total}, but {valid} valid reports and {dummies} dummies add up to "
            f"{valid + dummies}"
        )


def check_counted(task: Task, number: int, counted: Sequence[Counted], certified: Certified) -> None:
    """Check that these are the counts of the round when its certificate was signed.

    Raises:
        CountsDiffer: naming the first difference.
    """
    content = certified.content
    if certified.task.id != task.id or content["round"] != number:
        raise CountsDiffer("the certificate belongs to another task or round")
    _check_stated(
        task, [(each.reports, each.valid, each.left_out, each.tally is not None) for each in counted], content
    )
    check_tallies(task, counted)
    if content[DIGEST] != counts_digest(task, number, counted).hex():
        raise CountsDiffer("the counts differ from those of the certificate: they have another digest")


def _check_stated(
    task: Task, counted: Sequence[tuple[int, int, Mapping[str, int], bool]], content: Mapping[str, Any]
) -> None:
    """Compare reports, valid reports, those left out, and publication of each query with the certificate."""
    stated = [tuple(each[name] for name in _STATED) for each in content["queries"]]
    if not len(counted) == len(stated) == len(task.queries):
        raise CountsDiffer(f"{len(counted)} queries were counted, but {len(stated)} are certified")
    for query, given, (reports, valid, left_out, state) in zip(task.queries, counted, stated, strict=True):
        came, good, bad, is_published = given
        if (came, good, dict(bad)) != (reports, valid, left_out):
            raise CountsDiffer(
                f"{query.name}: {good} valid reports of {came} were counted, but {valid} of {reports} are certified, "
                "or the reasons of the reports left out differ"
            )
        if is_published != (state == QueryState.PUBLISHED):
            raise CountsDiffer(f"{query.name}: the certificate states that it is {state}, but its counts are not")


def check_published(results: Sequence[QueryResult], task: Task, number: int, certified: Certified) -> list[Counted]:
    """Return the counts in a round's published results, checked against its certificate.

    Raises:
        CountsDiffer: naming the first difference.
    """
    names = [each.name for each in results]
    if names != [query.name for query in task.queries]:
        raise CountsDiffer(f"the results are of queries {', '.join(names)}, but the certificate is of others")
    stated = [(each.reports, each.valid, each.left_out, each.state is QueryState.PUBLISHED) for each in results]
    _check_stated(task, stated, certified.content)
    counted = [Counted.published(task, each, certified.noise(index)) for index, each in enumerate(results)]
    check_counted(task, number, counted, certified)
    for index, (query, each) in enumerate(zip(task.queries, results, strict=True)):
        before = certified.rounds_before(index) if query.horizon and each.state is QueryState.PUBLISHED else ()
        if tuple(each.rounds) != before:
            raise CountsDiffer(
                f"{each.name}: its estimates are stated to follow from {_rounds(each.rounds)} too, but what was "
                f"composed with it, counted and published is {_rounds(before)}"
            )
    return counted


def _rounds(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no round"
    return f"round{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
