"""A round's key is compared with its signed record before a batch is opened: a damaged one withholds no round."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from unit.analyzer.conftest import SYMBOLS, Bench

from hubbub.analyzer.sqlite.schema import FILE_NAME
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.messages import Committed
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.suites import SUITES, Suite
from hubbub.service.receiving.key_check import KeyDamaged, checked_key


def change_key(folder: Path, *places: int) -> None:
    """Change bytes of the one private key, counted from its end."""
    with closing(sqlite3.connect(folder / FILE_NAME, timeout=10)) as connection:
        changed = bytearray(connection.execute("SELECT private FROM private_keys").fetchone()[0])
        for place in places:
            changed[-place] ^= 0x10
        connection.execute("UPDATE private_keys SET private = ?", (bytes(changed),))
        connection.commit()


async def sealed(bench: Bench) -> list[Sequence[bytes]]:
    return [await bench.seal(query, symbols) for query, symbols in enumerate(SYMBOLS)]


async def test_one_byte_of_a_key_is_mended_by_its_record_and_the_round_is_counted(bench: Bench) -> None:
    batches = await sealed(bench)
    change_key(bench.folder, 10)
    counted = await bench.deliver_batches(batches)
    assert counted == [Committed(len(each), {}) for each in batches]


async def test_a_damaged_key_is_mended_at_the_start(bench: Bench) -> None:
    await bench.key_set()
    key = await bench.store.key(bench.task.id, 0)
    change_key(bench.folder, 10)
    await bench.restart()
    await bench.acceptor.check_keys()
    assert await bench.store.key(bench.task.id, 0) == key
    assert bench.troubles.now() == ()


RECORD = {"public_key": ("record", 200), "first": ("record", 2), "signature": ("signature", 20)}
"""Where a byte of the key's record is changed: the column, and the place in it."""


def change_record(folder: Path, column: str, place: int) -> None:
    """Change one byte of the one key record."""
    with closing(sqlite3.connect(folder / FILE_NAME, timeout=10)) as connection:
        changed = bytearray(connection.execute(f"SELECT {column} FROM rounds").fetchone()[0])  # noqa: S608
        changed[place] ^= 0x01
        connection.execute(f"UPDATE rounds SET {column} = ?", (bytes(changed),))  # noqa: S608
        connection.commit()


@pytest.mark.parametrize("where", RECORD)
async def test_a_damaged_record_does_not_make_a_right_key_useless(bench: Bench, where: str) -> None:
    """It lies beside the key, so which of the two was changed only its signature says."""
    batches = await sealed(bench)
    key = await bench.store.key(bench.task.id, 0)
    change_record(bench.folder, *RECORD[where])
    assert await bench.store.key(bench.task.id, 0) != key
    await bench.acceptor.check_keys()
    assert await bench.store.key(bench.task.id, 0) == key
    assert bench.troubles.now() == ()
    assert await bench.deliver(0, batches[0]) == Committed(len(batches[0]), {})


async def test_a_key_and_its_record_that_are_both_damaged_are_not_made_anew(bench: Bench) -> None:
    await bench.key_set()
    change_key(bench.folder, 10)
    change_record(bench.folder, *RECORD["public_key"])
    left = await bench.store.key(bench.task.id, 0)
    await bench.acceptor.check_keys()
    (trouble,) = bench.troubles.now()
    assert "the signature of the key's record does not hold" in trouble.text
    assert await bench.store.key(bench.task.id, 0) == left


async def test_a_key_that_cannot_be_mended_makes_the_round_wait_and_nothing_is_called_unopenable(bench: Bench) -> None:
    batches = await sealed(bench)
    change_key(bench.folder, 10, 11)
    await bench.acceptor.check_keys()
    (trouble,) = bench.troubles.now()
    assert "the key of round 0 of flights in the analyzer's store is damaged" in trouble.text
    assert "give the round up at the shuffler" in trouble.text
    with pytest.raises(Refusal, match="the key of round 0 of flights in the analyzer's store is damaged") as refusal:
        await bench.deliver(0, batches[0])
    assert refusal.value.reason is Reason.NOT_READY
    change_key(bench.folder, 10, 11)  # as it was
    assert await bench.deliver(0, batches[0]) == Committed(len(batches[0]), {})


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_a_key_is_told_by_its_public_half_and_mended_wherever_one_byte_differs(suite: Suite) -> None:
    private, public = suite.generate_key()
    record = SignedDocument(canonical({"public_key": public.hex()}), b"")
    assert suite.public_of(private) == public
    assert checked_key(private, record, suite) == private
    for place in (1, 20):
        changed = private[:place] + bytes([private[place] ^ 0x81]) + private[place + 1 :]
        mended = checked_key(changed, record, suite)
        assert suite.public_of(mended) == public


def test_a_key_of_another_record_or_beside_one_that_cannot_be_read_is_damaged() -> None:
    suite = next(iter(SUITES.values()))
    (private, _), (_, public) = suite.generate_key(), suite.generate_key()
    for key, body in ((private, canonical({"public_key": public.hex()})), (private, b"\xff"), (b"short", b"{}")):
        with pytest.raises(KeyDamaged) as error:
            checked_key(key, SignedDocument(body, b""), suite)
        assert private.hex()[:8] not in str(error.value)
