"""An answer means on disk, and a disk that fails is answered, not suffered."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.world import FakeAnalyzer, World, reason

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.refusals import Reason
from hubbub.service.sqlite import secure_delete
from hubbub.shuffler.keys import RoundKeyMaterial, make_keys
from hubbub.shuffler.records import InsertOutcome, Opened, StoreError
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.messages import FOLDER_IN_USE, OTHER_KIND_OF_FILE
from support.samples import Parties, sample_task
from support.store_contents import store_in

TASK = bytes(32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ShufflerSqliteStore]:
    store = store_in(ShufflerSqliteStore, tmp_path / "data")
    yield store
    store.close()


def submission(number: int, digest: bytes = b"d" * 16) -> Opened:
    return Opened(number.to_bytes(16, "big"), digest, bytes(104))


@contextlib.contextmanager
def full_disk(store: ShufflerSqliteStore) -> Iterator[None]:
    """The database may not grow: SQLite says then what it says on a full disk."""
    connection = store._database.writer
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    try:
        yield
    finally:
        connection.execute("PRAGMA max_page_count = 1073741823").fetchall()


async def test_each_submission_of_a_call_is_held_by_itself(store: ShufflerSqliteStore) -> None:
    round_ = await store.add_round(TASK, 0)
    outcomes = await store.insert(round_, [submission(1), submission(1), submission(1, b"e" * 16), submission(2)])
    assert outcomes == [InsertOutcome.STORED, InsertOutcome.DUPLICATE, InsertOutcome.CONFLICT, InsertOutcome.STORED]
    assert await store.submissions(round_) == 2


@pytest.mark.parametrize("order", [range(40), range(39, -1, -1), [at * 7 % 40 for at in range(40)]])
async def test_no_key_of_an_erased_round_is_left_where_its_row_once_stood(
    store: ShufflerSqliteStore, tmp_path: Path, order: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a large file, which is not written anew: rows of rounds share pages, and are moved between them.
    monkeypatch.setattr(secure_delete, "REWRITE_LIMIT_PAGES", 0)
    keys, rounds = [], [await store.add_round(TASK, number) for number in range(40)]
    for number in order:
        keys.append(os.urandom(32))
        documents = [SignedDocument(os.urandom(329), os.urandom(64)) for _ in range(2)]
        await store.install(rounds[number], RoundKeyMaterial(keys[-1], KeySet(*documents)))
    assert all(key in _files(tmp_path) for key in keys)
    for round_ in rounds:
        await store.erase(await store.cut(round_, "schedule", 0), RoundState.EXPIRED)
    assert [key for key in keys if key in _files(tmp_path)] == []


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_nothing_is_known_before_it_is_on_disk(store: ShufflerSqliteStore) -> None:
    round_ = await store.add_round(TASK, 0)
    seen = store._snapshot.ids(round_.key)
    assert (
        await store._writer.submit(lambda transaction: (transaction.insert(round_, [submission(1)]), len(seen))[1]) == 0
    )
    assert await store.known(round_, [submission(1).id, submission(2).id]) == [b"d" * 16, None]


async def test_files_hold_what_was_acknowledged_at_that_moment(store: ShufflerSqliteStore, tmp_path: Path) -> None:
    round_ = await store.add_round(TASK, 0)
    for number in range(5):
        await store.insert(round_, [submission(number)])
        copy = tmp_path / f"copy{number}"
        copy.mkdir()
        for path in (tmp_path / "data").glob("shuffler.db*"):
            if not path.name.endswith("-shm"):
                (copy / path.name).write_bytes(path.read_bytes())
        with contextlib.closing(ShufflerSqliteStore(copy)) as other:
            assert await other.submissions(round_) == number + 1


async def test_round_that_is_cut_takes_nothing_new_but_knows_what_it_holds(store: ShufflerSqliteStore) -> None:
    round_ = await store.add_round(TASK, 0)
    await store.insert(round_, [submission(1)])
    cut = await store.cut(round_, "schedule", 1)
    assert (cut.state, cut.submissions) == (RoundState.CUT, 1)
    assert await store.insert(round_, [submission(1), submission(2)]) == [InsertOutcome.DUPLICATE, InsertOutcome.CUT]
    assert await store.tally(TASK, 0) == {"retried": 1, "too_late": 1}


async def test_round_is_added_once(store: ShufflerSqliteStore) -> None:
    assert await store.add_round(TASK, 0) == await store.add_round(TASK, 0)
    assert len(await store.rounds()) == 1


async def test_full_disk_fails_the_call_and_the_next_one_works(store: ShufflerSqliteStore) -> None:
    round_ = await store.add_round(TASK, 0)
    with full_disk(store), pytest.raises(StoreError, match="full"):
        await store.insert(round_, [replace(submission(1), inners=bytes(100_000))])
    assert await store.known(round_, [submission(1).id]) == [None]
    assert await store.insert(round_, [submission(1)]) == [InsertOutcome.STORED]
    assert await store.submissions(round_) == 1


async def test_device_is_told_to_come_again_when_the_disk_is_full(world: World) -> None:
    submissions = await world.seal([(0, 0)] * 60)
    with full_disk(world.store):
        answers = await world.send(submissions)
    refused = [answer for answer in answers if not isinstance(answer, Receipt)]
    assert refused
    assert {(reason(answer), answer.retry_after) for answer in refused} == {(Reason.OVERLOADED, 5.0)}
    assert all(isinstance(answer, Receipt) for answer in await world.send(submissions))
    assert (await world.status()).submissions == 60
    assert (await world.status()).refusals == {"overloaded": len(refused)}


async def test_counts_alone_are_on_disk_after_a_drain(tmp_path: Path) -> None:
    store = store_in(ShufflerSqliteStore, tmp_path / "data")
    for _ in range(3):
        store.count(TASK, 0, {"wrong_size": 2})
    store.close()
    with contextlib.closing(ShufflerSqliteStore(tmp_path / "data")) as again:
        assert await again.tally(TASK, -1) == {"wrong_size": 6}


def test_one_shuffler_at_a_time(store: ShufflerSqliteStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=FOLDER_IN_USE):
        ShufflerSqliteStore(tmp_path / "data")


def test_foreign_file_is_refused(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "shuffler.db")) as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(StoreError, match=rf"{OTHER_KIND_OF_FILE} \(shuffler's store\)"):
        ShufflerSqliteStore(tmp_path)
    (tmp_path / "shuffler.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError):
        ShufflerSqliteStore(tmp_path)


async def test_acknowledgements_rest_on_full_synchronisation_and_secure_deletion(store: ShufflerSqliteStore) -> None:
    connection = store._database.writer
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_closed_store_says_so(tmp_path: Path) -> None:
    store = store_in(ShufflerSqliteStore, tmp_path / "data")
    store.close()
    with pytest.raises(StoreError, match="stopping"):
        await store.add_round(TASK, 0)


async def test_killed_opening_process_is_replaced(world: World) -> None:
    submissions = await world.seal([(0, 0)] * 40)
    destination = await world.destination()
    await world.admission.submit(destination, submissions[:20])
    (worker,) = world.openers._workers
    assert worker._process is not None
    worker._process.kill()
    answers = await world.admission.submit(destination, submissions[20:])
    assert all(isinstance(answer, Receipt) for answer in answers)


async def test_many_rounds_in_any_order_leave_no_trace_of_keys_and_ids(
    store: ShufflerSqliteStore, tmp_path: Path
) -> None:
    """Rows of many rounds share pages, which SQLite splits and joins: no copy may stay behind there."""
    parties = Parties.generate()
    task = sample_task(parties)
    analyzer = FakeAnalyzer(task, parties)
    secrets, rounds = [], []
    for number in range(40):
        keys = make_keys(task, number, parties.shuffler, await analyzer.get_key(task.id, number))
        round_ = await store.install(await store.add_round(task.id, number), keys)
        rounds.append(round_)
        secrets.append(keys.private_key)
    for turn in range(5):
        for round_ in rounds:
            held = Opened(os.urandom(16), os.urandom(16), os.urandom(104 * (1 + turn)))
            secrets += [held.id, held.digest, held.inners]
            await store.insert(round_, [held])
    data = tmp_path / "data"
    before = b"".join(path.read_bytes() for path in data.iterdir())
    assert all(secret in before for secret in secrets)
    for round_ in sorted(rounds, key=lambda round_: round_.number * 7 % 40):
        await store.cut(round_, "schedule", 2)
        await store.erase(round_, RoundState.EXPIRED)
    after = b"".join(path.read_bytes() for path in data.iterdir())
    assert not any(secret[start : start + 8] in after for secret in secrets for start in (0, len(secret) - 8))
