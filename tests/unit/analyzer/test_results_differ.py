"""What somebody changes in the analyzer's store after a certificate is never shown beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hubbub.analyzer.certifier import accountant_statement
from hubbub.analyzer.records import Past
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.records.counts import DIGEST
from hubbub.protos.records.results import RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Task
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.randomizer import read_tally
from hubbub.queries.randomizers.sampling import Random
from support.changed_stores import by_hand
from support.krr_queries import krr_query, unary_query
from support.samples import HALF, signed
from vectors.make_kinds import DEVICES, reports_of, task_of
from vectors.make_signed import PARTIES

if TYPE_CHECKING:
    from conftest import Bench

PEOPLE = 120
SITES = tuple(f"site-{number}" for number in range(40))
CARRIER = Histogram("carrier", ("AA", "B6", "UA"))
QUERIES = (
    krr_query(CARRIER, HALF),
    unary_query(replace(CARRIER, name="flown"), HALF, HALF // 4),
    Query(Histogram("site", SITES, randomizer="hashed"), HashedResponse(len(SITES), 16, 8, HALF // 8)),
)


def drawn(seed: int) -> Random:
    return np.random.default_rng(seed).bytes


@pytest.fixture
async def counted(bench: Bench) -> Bench:
    """A certified round of three queries, one for each way in which reports are counted."""
    bench.store.close()
    bench.task = replace(bench.task, queries=QUERIES)
    bench.signed = signed(bench.task, bench.parties)
    bench.served = {bench.task.id}
    await bench.start()
    await deliver(bench)
    return bench


async def deliver(bench: Bench) -> None:
    random = drawn(5)
    reports = [[query.randomize(person % 3, random) for person in range(PEOPLE)] for query in QUERIES]
    await bench.deliver_batches([await bench.seal_reports(place, each) for place, each in enumerate(reports)])


async def change(bench: Bench, statement: str, *values: object) -> None:
    """Change the store as whoever has the machine can, while the service is down."""
    await bench.certifier.settle()
    bench.store.close()
    connection = by_hand(bench.folder / "analyzer.db")
    with connection:
        connection.execute(statement, values)
    connection.close()
    await bench.start()


async def change_counts(bench: Bench, query: int, changed: Callable[[Any], Any]) -> None:
    stored = (await bench.store.batches(bench.task.id, 0))[query].counts
    assert stored is not None
    after = changed(np.frombuffer(stored, dtype="<i8").copy()).astype("<i8").tobytes()
    assert after != stored
    await change(bench, "UPDATE batch SET counts = ? WHERE query = ?", after, query)


def moved(counts: Any) -> Any:
    """40 of the largest count moved to the smallest: what they add up to stays."""
    largest, smallest = counts.argmax(), counts.argmin()
    counts[largest] -= 40
    counts[smallest] += 40
    return counts


def added(counts: Any) -> Any:
    """1,000 added to a count."""
    counts[0] += 1000
    return counts


def other_cells(counts: Any) -> Any:
    """40 hashed reports moved to another cell of their table."""
    counts[:40] = counts[40]
    return counts


async def fetched(bench: Bench) -> RoundResults:
    return await bench.results.get_results(bench.task.id, 0, 0)


async def refused(bench: Bench) -> str:
    with pytest.raises(Refusal) as caught:
        await fetched(bench)
    assert caught.value.reason is Reason.RESULTS_DIFFER
    assert bench.results.refusals[Reason.RESULTS_DIFFER] == 1
    (incident,) = (await bench.results.get_incidents()).incidents
    assert incident.text == caught.value.message
    assert "The store was changed since" in incident.text
    return caught.value.message


async def test_what_nobody_changed_is_shown(counted: Bench) -> None:
    results = await fetched(counted)
    assert [query.valid for query in results.queries] == [PEOPLE] * 3
    await counted.restart()
    assert await fetched(counted) == results
    assert counted.results.refusals[Reason.RESULTS_DIFFER] == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("query", "changed", "problem"),
    [
        (0, moved, "they have another digest"),
        (0, added, "carrier: its counts do not fit its reports"),
        (0, lambda counts: counts[::-1], "they have another digest"),
        (
            0,
            lambda counts: np.add(counts, [1, 0, 0]),
            "carrier: its counts add up to 121, but 120 valid reports",
        ),
        (1, lambda counts: counts[[2, 0, 1]], "they have another digest"),
        (1, added, "flown: its counts do not fit its reports"),
        (2, other_cells, "they have another digest"),
        (2, lambda counts: counts[1:], "site: its counts do not fit its reports"),
    ],
)
async def test_counts_that_are_moved_or_added_after_the_certificate_are_refused(
    counted: Bench, query: int, changed: Callable[[Any], Any], problem: str
) -> None:
    await change_counts(counted, query, changed)
    assert problem in await refused(counted)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "UPDATE batch SET valid = valid - 20 WHERE query = 0",
            "carrier: 100 valid reports of 120 were counted",
        ),
        ("UPDATE batch SET reports = 119 WHERE query = 1", "flown: 120 valid reports of 119 were counted"),
        ("""UPDATE batch SET left_out = '{"duplicate": 3}' WHERE query = 2""", "site: 120 valid reports of 120"),
        ("UPDATE batch SET dummies = 30 WHERE query = 0", "the batch has 30 dummies, but task flights has 0"),
        ("UPDATE batch SET counts = NULL WHERE query = 0", "carrier: the certificate states that it is published"),
        ("UPDATE batch SET counts = x'0102' WHERE query = 0", "its counts are cut short"),
        ("UPDATE certificate SET document = substr(document, 1, 300)", "certificate is damaged"),
    ],
)
async def test_whatever_else_is_changed_of_a_certified_round_is_refused(
    counted: Bench, statement: str, problem: str
) -> None:
    await change(counted, statement)
    assert problem in await refused(counted)


async def test_a_certificate_without_its_digest_or_by_another_signer_is_refused(counted: Bench) -> None:
    certificate = await counted.store.certificate(counted.task.id, 0)
    assert certificate is not None
    content = {name: value for name, value in parse_canonical(certificate)["body"].items() if name != DIGEST}
    for key, problem in ((counted.parties.analyzer.key, "digest"), (counted.parties.operator.key, "not by")):
        document = canonical(SignedDocument.make(CERTIFICATE, content, key).as_json())
        await change(counted, "UPDATE certificate SET document = ?", document)
        assert problem in await refused(counted)


async def test_a_round_that_is_mended_is_shown_and_no_incident_any_more(counted: Bench) -> None:
    shown = await fetched(counted)
    await change_counts(counted, 0, moved)
    await refused(counted)
    stored = np.frombuffer(shown.queries[0].counts, dtype="<i8")
    await change(counted, "UPDATE batch SET counts = ? WHERE query = 0", stored.tobytes())
    assert await fetched(counted) == shown
    assert (await counted.results.get_incidents()).incidents == ()


async def test_counts_that_are_changed_before_the_certificate_are_not_certified(bench: Bench) -> None:
    def later(task: Task, past: Past) -> dict[str, Any]:
        raise OSError("the disk is away")

    quick, bench.state = bench.state, later
    await bench.restart()
    await bench.deliver_round()
    stored = (await bench.store.batches(bench.task.id, 0))[0].counts
    assert stored is not None
    counts = np.add(np.frombuffer(stored, dtype="<i8"), [1, 0, 0])
    bench.state = quick
    await change(bench, "UPDATE batch SET counts = ? WHERE query = 0", counts.astype("<i8").tobytes())
    await bench.certifier.run()
    assert "the stored counts are not those of the commit" in bench.certifier.failures[bench.task.id, 0]
    with pytest.raises(Refusal, match="not those of the commit"):
        await fetched(bench)


async def test_a_round_whose_certificate_is_taken_away_is_not_certified_anew(counted: Bench) -> None:
    """Neither over the counts as they are, nor over others."""
    await change(counted, "DELETE FROM certificate")
    await counted.certifier.run()
    assert "lost its certificate" in counted.certifier.failures[counted.task.id, 0]
    await change_counts(counted, 0, moved)
    await counted.certifier.run()
    assert "lost its certificate" in counted.certifier.failures[counted.task.id, 0]
    assert await counted.store.certificate(counted.task.id, 0) is None


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE batch SET counts = x'060000000000000001000000000000000100000000000000'", "not those of the commit"),
        ("UPDATE batch SET valid = 7", "not those of the commit"),
        ("UPDATE batch SET attestation = zeroblob(64)", "not those of the commit"),
        ("UPDATE batch SET attestation = NULL", "its counts have no signature"),
        ("UPDATE batch SET attestation = (SELECT attestation FROM batch WHERE key = 2)", "not those of the commit"),
        ("UPDATE batch SET left_out = '{\"duplicate\": 1}'", "not those of the commit"),
        ("UPDATE batch SET dummies = 2", "the batch has 2 dummies, but task flights has 0"),
    ],
)
async def test_what_is_changed_between_commit_and_certificate_is_not_certified(
    bench: Bench, statement: str, problem: str
) -> None:
    def later(task: Task, past: Past) -> dict[str, Any]:
        raise OSError("the disk is away")

    quick, bench.state = bench.state, later
    await bench.restart()
    await bench.deliver_round()
    bench.state = quick
    await change(bench, statement)
    await bench.certifier.run()
    assert problem in bench.certifier.failures[bench.task.id, 0]
    assert await bench.store.certificate(bench.task.id, 0) is None


async def test_hashed_counts_are_told_from_zero_by_what_was_reported(counted: Bench) -> None:
    """The three sites that people hold are significantly different from zero, and none of the 37 others.

    Cells are not counts.
    """
    (query,) = [each for each in (await fetched(counted)).queries if each.name == "site"]
    assert query.estimates is not None
    rows = [row for row in query.estimates.rows if row.statistic == "count"]
    assert [row.category for row in rows if row.significant] == list(SITES[:3])
    # Read from a store they are what they were when they were counted.
    assert query.estimates == QUERIES[2].estimates(read_tally(QUERIES[2].randomizer, query.counts, PEOPLE), 0)


async def test_a_round_before_that_lost_its_certificate_is_missed_in_estimates_over_time(bench: Bench) -> None:
    """They would follow from fewer rounds, and nobody would be told."""
    bench.store.close()
    name = "longitudinal-vector"
    bench.parties, bench.task = PARTIES, task_of(name)
    bench.signed, bench.served = signed(bench.task, PARTIES), {bench.task.id}
    bench.shuffler_key = bench.task.hpke.generate_key()
    await bench.start()
    width = len(reports_of(name)[0]) // DEVICES
    for number, joined in enumerate(reports_of(name)[:3]):
        reports = [joined[start : start + width] for start in range(0, len(joined), width)]
        await bench.deliver(0, await bench.seal_reports(0, reports, number), number)
        await bench.certifier.settle()
    (query,) = (await bench.results.get_results(bench.task.id, 2, 0)).queries
    assert query.rounds == (0, 1)
    await change(bench, "DELETE FROM certificate WHERE round = (SELECT key FROM round WHERE number = 1)")
    with pytest.raises(Refusal, match="round 1 has lost its certificate") as caught:
        await bench.results.get_results(bench.task.id, 2, 0)
    assert caught.value.reason is Reason.RESULTS_DIFFER


async def test_the_accountants_certificate_binds_the_counts_too(bench: Bench) -> None:
    bench.state = accountant_statement
    await bench.restart()
    await bench.deliver_round()
    assert len((await fetched(bench)).queries) == 2
    await change_counts(bench, 0, lambda counts: counts[::-1])
    assert "they have another digest" in await refused(bench)
