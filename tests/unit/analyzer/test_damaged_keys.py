"""A round's key is compared with its signed record before a batch is opened: a damaged one withholds no round."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from unit.analyzer.conftest import SYMBOLS, Bench

from hubbub.analyzer.stores.sqlite.schema import FILE_NAME
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.messages import Committed
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.suites import SUITES, Suite
from hubbub.service.receiving.key_check import KeyDamaged, check_key
from support.changed_stores import by_hand
from support.patience import PATIENCE


def change_key(folder: Path) -> None:
    """Change a byte of the one private key."""
    with closing(by_hand(folder / FILE_NAME, timeout=PATIENCE)) as connection:
        changed = bytearray(connection.execute("SELECT private_key FROM private_key").fetchone()[0])
        changed[-10] ^= 0x10
        connection.execute("UPDATE private_key SET private_key = ?", (bytes(changed),))
        connection.commit()


async def sealed(bench: Bench) -> list[Sequence[bytes]]:
    return [await bench.seal(query, symbols) for query, symbols in enumerate(SYMBOLS)]


RECORD = {"public_key": ("record", 200), "first": ("record", 2), "signature": ("signature", 20)}
"""Where a byte of the key's record is changed: the column, and the position in it."""


def change_record(folder: Path, column: str, place: int) -> None:
    """Change one byte of the one key record."""
    with closing(by_hand(folder / FILE_NAME, timeout=PATIENCE)) as connection:
        changed = bytearray(connection.execute(f"SELECT {column} FROM round").fetchone()[0])  # noqa: S608
        changed[place] ^= 0x01
        connection.execute(f"UPDATE round SET {column} = ?", (bytes(changed),))  # noqa: S608
        connection.commit()


async def test_a_damaged_key_makes_the_round_wait_and_nothing_is_called_unopenable(bench: Bench) -> None:
    batches = await sealed(bench)
    change_key(bench.folder)
    await bench.receiver.check_keys()
    (incident,) = bench.incidents.now()
    assert "the key of round 0 of flights in the analyzer's store is damaged" in incident.text
    assert "give the round up at the shuffler" in incident.text
    with pytest.raises(Refusal, match="the private key does not belong to the key's record") as refusal:
        await bench.deliver(0, batches[0])
    assert refusal.value.reason is Reason.NOT_READY
    change_key(bench.folder)  # as it was
    assert await bench.deliver(0, batches[0]) == Committed(len(batches[0]), {})


@pytest.mark.parametrize("where", RECORD)
async def test_a_damaged_record_makes_the_round_wait_as_its_key_cannot_be_checked(bench: Bench, where: str) -> None:
    envelopes = await bench.seal(0, SYMBOLS[0])
    record = await bench.record(0, envelopes)
    await bench.begin(record)
    await bench.put(0, 0, envelopes)
    change_record(bench.folder, *RECORD[where])
    await bench.receiver.check_keys()
    (incident,) = bench.incidents.now()
    assert "the key of round 0 of flights in the analyzer's store is damaged" in incident.text
    with pytest.raises(Refusal, match="its signed record is invalid") as refusal:
        await bench.receiver.commit(record.batch, record.digest)
    assert refusal.value.reason is Reason.NOT_READY
    change_record(bench.folder, *RECORD[where])  # as it was
    assert await bench.receiver.commit(record.batch, record.digest) == Committed(len(envelopes), {})


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_a_key_with_one_byte_changed_is_damaged(suite: Suite) -> None:
    private, public = suite.generate_key()
    record = SignedDocument(canonical({"public_key": public.hex()}), b"")
    check_key(private, record, suite)
    for position in (1, 20):
        changed = private[:position] + bytes([private[position] ^ 0x81]) + private[position + 1 :]
        with pytest.raises(KeyDamaged):
            check_key(changed, record, suite)


def test_a_key_of_another_record_or_beside_one_that_cannot_be_read_is_damaged() -> None:
    suite = next(iter(SUITES.values()))
    (private, _), (_, public) = suite.generate_key(), suite.generate_key()
    record = canonical({"public_key": public.hex()})
    for key, body in ((private, record), (private, b"\xff"), (private, b"{}"), (b"short", record)):
        with pytest.raises(KeyDamaged) as error:
            check_key(key, SignedDocument(body, b""), suite)
        assert private.hex()[:8] not in str(error.value)
