from __future__ import annotations

import asyncio
import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hubbub.analyzer.opening import OpenedBatch
from hubbub.analyzer.receiver import _valid_reports
from hubbub.analyzer.records import ReceivedBatch
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.schedule import key_validity
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.service.processes.opening_pool import OpeningPool
from support.krr_queries import INNER_BYTES
from support.patience import PATIENCE

if TYPE_CHECKING:
    from conftest import Bench


async def refused(call: Awaitable[Any], reason: Reason) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await call
    assert caught.value.reason is reason
    return caught.value


# Keys


async def test_a_round_has_one_key_record_whatever_happens(bench: Bench) -> None:
    first = await asyncio.gather(*(bench.receiver.get_key(bench.task.id, 0) for _ in range(5)))
    await bench.restart()
    assert set(first) == {await bench.receiver.get_key(bench.task.id, 0)}
    assert await bench.receiver.get_key(bench.task.id, 1) not in first


async def test_a_key_record_is_signed_and_bound_to_its_round_and_time(bench: Bench) -> None:
    record = KeyRecord.read(await bench.receiver.get_key(bench.task.id, 2), bench.parties.analyzer.public)
    record.check_for(Role.ANALYZER, bench.task.id, 2, bench.task.suite)
    schedule = bench.task.schedule
    assert record.not_before == key_validity(schedule, 2).not_before
    assert record.not_after == schedule.cut(2) + 30 * 86_400


async def test_keys_of_unknown_tasks_and_rounds_are_refused(bench: Bench) -> None:
    await refused(bench.receiver.get_key(bytes(32), 0), Reason.UNKNOWN_TASK)
    await refused(bench.receiver.get_key(bench.task.id, 3), Reason.UNKNOWN_ROUND)


async def test_a_key_no_batch_came_for_is_destroyed_when_its_time_is_over(bench: Bench) -> None:
    await bench.seal(0, [0])
    envelopes = await bench.seal(0, [0] * 5, 1)
    await bench.begin(await bench.record(0, envelopes, 1))
    late = bench.task.schedule.cut(2) + 31 * 86_400
    assert await bench.store.expire_keys(bench.task.schedule.cut(0)) == 0
    # The second had begun: it stands at the minimum, as rounds do that are never counted.
    assert await bench.store.expire_keys(late) == 2
    for number in (0, 1):
        await refused(bench.receiver.get_key(bench.task.id, number), Reason.ERASED)


# Begin


async def test_begin_again_answers_where_to_go_on(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0, 1, 2, 0, 1, 2])
    record = await bench.record(0, envelopes)
    assert await bench.begin(record) == 0
    await bench.put(0, 0, envelopes[:4])
    await bench.restart()
    assert await bench.begin(record) == 4
    await bench.put(0, 4, envelopes[4:])
    await bench.receiver.commit(record.batch, record.digest)
    await bench.restart()
    assert await bench.begin(record) == 6


@pytest.mark.parametrize("when", ["announced", "committed", "certified"])
async def test_another_digest_under_a_known_id_is_refused(bench: Bench, when: str) -> None:
    envelopes, others = await bench.seal(0, [0] * 6), await bench.seal(0, [1] * 6)
    second = await bench.seal(1, [0] * 6)
    other, key_set = await bench.record(0, others), await bench.key_set()
    (record, _), _ = await bench.released([envelopes, second])
    await bench.begin(record, key_set)
    if when != "announced":
        await bench.deliver(0, envelopes)
    if when == "certified":
        await bench.deliver(1, second)
        await bench.certifier.settle()
    await refused(bench.begin(other, key_set), Reason.FORKED)
    await refused(bench.receiver.commit(record.batch, other.digest), Reason.DIGEST_DIFFERS)


async def test_the_same_digest_with_other_facts_is_refused_too(bench: Bench) -> None:
    record = await bench.record(0, await bench.seal(0, [0] * 6))
    await bench.begin(record)
    await refused(bench.begin(dataclasses.replace(record, refusals={"too_late": 1})), Reason.FORKED)


async def test_a_record_by_somebody_else_is_refused(bench: Bench) -> None:
    record = await bench.record(0, await bench.seal(0, [0] * 6))
    forged = record.signed_by(Identity.generate())
    await refused(bench.receiver.begin(forged, await bench.key_set()), Reason.BAD_RECORD)
    document = record.signed_by(bench.parties.shuffler)
    changed = SignedDocument(document.body.replace(b'"reports":6', b'"reports":7'), document.signature)
    await refused(bench.receiver.begin(changed, await bench.key_set()), Reason.BAD_RECORD)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"closed_by": "operator"}, Reason.BAD_RECORD),
        ({"reports": 4}, Reason.BELOW_MINIMUM),
        ({"key_set_hash": bytes(32)}, Reason.KEY_SET_DIFFERS),
    ],
)
async def test_a_record_that_breaks_the_task_is_refused(bench: Bench, changes: dict[str, Any], reason: Reason) -> None:
    record = await bench.record(0, await bench.seal(0, [0] * 6), **changes)
    await refused(bench.begin(record), reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task_id": bytes(32)}, Reason.UNKNOWN_TASK),
        ({"round": 3}, Reason.UNKNOWN_ROUND),
        ({"query": 2}, Reason.BAD_RECORD),
    ],
)
async def test_a_batch_of_nothing_that_is_asked_is_refused(
    bench: Bench, changes: dict[str, Any], reason: Reason
) -> None:
    record = await bench.record(0, await bench.seal(0, [0] * 6))
    moved = dataclasses.replace(record, batch=dataclasses.replace(record.batch, **changes))
    await refused(bench.begin(moved, await bench.key_set()), reason)


async def test_batches_of_one_round_that_contradict_each_other_are_refused(bench: Bench) -> None:
    late = {"refusals": {"too_late": 2}}
    for number, (count, changes) in enumerate(((6, {}), (5, late), (6, late))):
        envelopes = [await bench.seal(query, [0] * 6, number) for query in (0, 1)]
        first = await bench.record(0, envelopes[0], number, **late)
        other = await bench.record(1, envelopes[1][:count], number, **changes)
        releases = bench.release([first, other])
        await bench.begin(first, releases=releases)
        if (count, changes) != (6, late):
            await refused(bench.begin(other, releases=releases), Reason.BAD_RECORD)
    assert await bench.begin(other, releases=releases) == 0


async def other_shuffler_key(bench: Bench, signer: Identity | None = None, round_number: int = 0) -> KeySet:
    key_set = await bench.key_set()
    public = DEFAULT.generate_key()[1]
    record = KeyRecord(Role.SHUFFLER, bench.task.id, round_number, bench.task.suite, public, 0, 2**37)
    return KeySet(record.signed_by(signer or bench.parties.shuffler), key_set.analyzer)


async def begin_with(bench: Bench, query: int, key_set: KeySet) -> int:
    record = await bench.record(query, await bench.seal(query, [0] * 6), key_set_hash=key_set.hash)
    return await bench.begin(record, key_set)


async def test_a_round_has_one_key_set_for_all_its_queries(bench: Bench) -> None:
    other, key_set = await other_shuffler_key(bench), await bench.key_set()
    first = await bench.record(0, await bench.seal(0, [0] * 6))
    second = await bench.record(1, await bench.seal(1, [0] * 6), key_set_hash=other.hash)
    releases = bench.release([first, second])
    await bench.begin(first, key_set, releases)
    await refused(bench.begin(second, other, releases), Reason.KEY_SET_DIFFERS)


async def test_key_records_that_are_not_the_round_s_are_refused(bench: Bench) -> None:
    foreign = await other_shuffler_key(bench, Identity.generate())
    await refused(begin_with(bench, 0, foreign), Reason.BAD_RECORD)
    elsewhere = await other_shuffler_key(bench, round_number=1)
    await refused(begin_with(bench, 0, elsewhere), Reason.BAD_RECORD)
    swapped = KeySet(foreign.shuffler, foreign.shuffler)
    await refused(begin_with(bench, 0, swapped), Reason.BAD_RECORD)


async def test_an_analyzer_key_that_is_not_its_own_is_refused(bench: Bench) -> None:
    key_set = await bench.key_set()
    own = KeyRecord.read(key_set.analyzer, bench.parties.analyzer.public)
    other = dataclasses.replace(own, public_key=DEFAULT.generate_key()[1]).signed_by(bench.parties.analyzer)
    await refused(begin_with(bench, 0, KeySet(key_set.shuffler, other)), Reason.KEY_SET_DIFFERS)


# Put


async def test_a_chunk_that_repeats_what_is_stored_changes_nothing(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0, 1, 2, 0, 1, 2])
    await bench.begin(await bench.record(0, envelopes))
    assert await bench.put(0, 0, envelopes[:2]) == 2
    assert await bench.put(0, 2, envelopes[2:3]) == 3
    await bench.restart()
    assert await bench.put(0, 0, envelopes[:2]) == 3
    assert await bench.put(0, 1, envelopes[1:3]) == 3
    assert await bench.put(0, 1, envelopes[1:5]) == 5
    assert await bench.put(0, 5, []) == 5
    assert await bench.put(0, 0, envelopes) == 6
    assert (await bench.deliver(0, envelopes)).counted == 6


async def test_a_gap_and_too_many_envelopes_are_refused(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0, 1, 2, 0, 1, 2])
    await bench.begin(await bench.record(0, envelopes))
    refusal = await refused(bench.put(0, 1, envelopes[1:2]), Reason.WRONG_OFFSET)
    assert "continue at 0" in refusal.message
    await refused(bench.put(0, 0, [*envelopes, envelopes[0]]), Reason.WRONG_OFFSET)
    assert await bench.put(0, 0, envelopes) == 6
    await refused(bench.put(0, 6, envelopes[:1]), Reason.WRONG_OFFSET)


async def test_other_envelopes_at_a_known_place_are_refused(bench: Bench) -> None:
    envelopes, others = await bench.seal(0, [0] * 6), await bench.seal(0, [1] * 6)
    await bench.begin(await bench.record(0, envelopes))
    await bench.put(0, 0, envelopes[:2])
    await bench.put(0, 2, envelopes[2:4])
    await refused(bench.put(0, 0, [*envelopes[:3], *others[3:]]), Reason.DIGEST_DIFFERS)
    assert await bench.put(0, 4, envelopes[4:]) == 6
    assert (await bench.deliver(0, envelopes)).counted == 6


@pytest.mark.parametrize("width", [0, INNER_BYTES - 1, INNER_BYTES + 1, 2 * INNER_BYTES])
async def test_envelopes_of_another_length_than_the_query_s_are_refused(bench: Bench, width: int) -> None:
    """Stored ones are cut at the query's length: one of another would shift all that follow it."""
    envelopes = await bench.seal(0, [0] * 6)
    await bench.begin(await bench.record(0, envelopes))
    for chunk in ([bytes(width)], [*envelopes[:2], bytes(width)]):
        refusal = await refused(bench.put(0, 0, chunk), Reason.MALFORMED)
        assert f"has {INNER_BYTES} bytes" in refusal.message
    assert await bench.put(0, 0, envelopes) == 6
    assert (await bench.deliver(0, envelopes)).counted == 6


async def test_envelopes_of_a_query_that_is_not_asked_are_refused(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0] * 6)
    refusal = await refused(bench.put(2, 0, envelopes), Reason.MALFORMED)
    assert "has queries 0 to 1, but the envelopes are of query 2" in refusal.message


async def test_putting_and_committing_need_an_announcement(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0] * 6)
    await refused(bench.put(0, 0, envelopes), Reason.INCOMPLETE)
    await refused(bench.receiver.commit(bench.batch(0), bytes(32)), Reason.INCOMPLETE)


# Commit


async def test_commit_before_all_arrived_is_refused(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0] * 6)
    record = await bench.record(0, envelopes)
    await bench.begin(record)
    await bench.put(0, 0, envelopes[:5])
    refusal = await refused(bench.receiver.commit(record.batch, record.digest), Reason.INCOMPLETE)
    assert "5 of 6" in refusal.message
    await refused(bench.receiver.commit(record.batch, bytes(32)), Reason.DIGEST_DIFFERS)


async def test_a_batch_is_counted_once_whoever_asks_and_whenever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    original = OpeningPool.open
    monkeypatch.setattr(OpeningPool, "open", lambda self, *rest: opened.append(rest[2]) or original(self, *rest))
    envelopes = await bench.seal(0, [0] * 6)
    record = await bench.record(0, envelopes)
    await bench.begin(record)
    await bench.put(0, 0, envelopes)
    answers = await asyncio.gather(*(bench.receiver.commit(record.batch, record.digest) for _ in range(5)))
    await bench.restart()
    answers.append(await bench.receiver.commit(record.batch, record.digest))
    assert answers == [Committed(6, {})] * 6
    assert opened == [6]
    charges = await bench.store.charges(bench.task.id)
    assert [charge.position for charge in charges] == [0, 1]


async def test_a_caller_that_gives_up_does_not_stop_the_count(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0] * 1500)
    record = await bench.record(0, envelopes)
    await bench.begin(record)
    await bench.put(0, 0, envelopes)
    commits = bench.receiver.receiver._commits
    caller = asyncio.create_task(bench.receiver.commit(record.batch, record.digest))
    while not commits:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.gather(*commits.values())
    batch = await bench.store.batch(record.batch)
    assert batch is not None
    assert batch.committed == Committed(1500, {})


async def test_a_list_that_is_not_the_record_s_is_delivered_again(bench: Bench) -> None:
    envelopes = await bench.seal(0, [0] * 6)
    record = await bench.record(0, envelopes)
    await bench.begin(record)
    await bench.put(0, 0, envelopes[::-1])
    await refused(bench.receiver.commit(record.batch, record.digest), Reason.DIGEST_DIFFERS)
    assert await bench.begin(record) == 0
    await bench.put(0, 0, envelopes)
    assert await bench.receiver.commit(record.batch, record.digest) == Committed(6, {})


async def test_what_is_bad_is_left_out_by_reason(bench: Bench) -> None:
    good, outside = await bench.seal(0, [0, 1, 2]), await bench.seal(0, [3, 2**32 - 1])
    elsewhere, broken = await bench.seal(1, [0]), bytes([good[0][0] ^ 1]) + good[0][1:]
    envelopes = [*good, good[1], *outside, *elsewhere, broken, good[1], broken]
    committed = await bench.deliver(0, envelopes)
    assert committed == Committed(3, {"duplicate": 3, "out_of_domain": 2, "unopenable": 2})
    batch = await bench.store.batch(bench.batch(0))
    assert batch is not None
    assert batch.counts == b"".join(count.to_bytes(8, "little") for count in (1, 1, 1))


async def test_reports_of_another_round_do_not_open(bench: Bench) -> None:
    envelopes = [*await bench.seal(0, [0] * 5), *await bench.seal(0, [1] * 5, 1)]
    assert await bench.deliver(0, envelopes) == Committed(5, {"unopenable": 5})


async def test_a_killed_analyzer_goes_on_from_its_files_after_every_step(bench: Bench, tmp_path: Path) -> None:
    """A copy of the files at any moment is what a killed process leaves behind."""
    envelopes = [await bench.seal(query, [0, 1, 2] * 3) for query in (0, 1)]
    records, _ = await bench.released(envelopes)
    copies = 0

    async def die() -> None:
        nonlocal copies
        copies += 1
        copy = tmp_path / f"copy{copies}"
        shutil.copytree(bench.folder, copy)
        await bench.certifier.settle()
        bench.store.close()
        bench.folder = copy
        await bench.start()

    for query, record in enumerate(records):
        assert await bench.begin(record) == 0
        await die()
        assert await bench.put(query, 0, envelopes[query][:5]) == 5
        await die()
        assert await bench.begin(record) == 5
        await bench.put(query, 5, envelopes[query][5:])
        await die()
        assert await bench.receiver.commit(record.batch, record.digest) == Committed(9, {})
        await die()
        assert await bench.receiver.commit(record.batch, record.digest) == Committed(9, {})
    await bench.certifier.run()
    (round_id,) = await bench.results.list_results(bench.task.id)
    results = await bench.results.get_results(bench.task.id, round_id.round, 0)
    assert [query.valid for query in results.queries] == [9, 9]


async def test_a_batch_is_opened_by_processes_too(bench: Bench) -> None:
    bench.opening_pool = OpeningPool(2, chunk=50)
    await bench.restart()
    envelopes = await bench.seal(0, [0, 1, 2] * 60)
    committed = await bench.deliver(0, [*envelopes, envelopes[7], bytes(52)])
    assert committed == Committed(180, {"duplicate": 1, "unopenable": 1})


def test_the_accountant_is_loaded_while_a_batch_arrives_and_not_before() -> None:
    wanted = "{'hubbub.analyzer.charges', 'hubbub.analyzer.certificate_statement', 'scipy'}"
    script = (
        "import sys; from hubbub.analyzer.receiver import _load_accountant as load; "
        f"before = {wanted} & set(sys.modules); load(); sys.exit(bool(before) or not {wanted} <= set(sys.modules))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE)


@pytest.mark.parametrize(("valid", "counted"), [(30, 0), (35, 5)])
def test_dummies_are_none_of_the_reports_counted(valid: int, counted: int) -> None:
    assert _valid_reports(batch_of_dummies(30), OpenedBatch(tally_of(valid), {})) == counted


def test_fewer_good_reports_than_the_shuffler_s_own_dummies_are_refused() -> None:
    with pytest.raises(Refusal, match="29 envelopes are valid, but the records state 30 dummies among them") as caught:
        _valid_reports(batch_of_dummies(30), OpenedBatch(tally_of(29), {}))
    assert caught.value.reason is Reason.BAD_RECORD


def tally_of(valid: int) -> Tally:
    return Tally(np.zeros(3, dtype=np.int64), valid)


def batch_of_dummies(dummies: int) -> ReceivedBatch:
    document = SignedDocument(b"", b"")
    return ReceivedBatch(BatchId(bytes(32), 0, 0), document, 10, dummies, bytes(32), 10 + dummies, None, None)
