"""What a hop signed, and the key that it opens with, are compared with what its store gives back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from unit.shuffler.hop.test_chain import SYMBOLS, refused

from hubbub.protos.errors import Unreachable
from hubbub.protos.messages import Committed
from hubbub.protos.refusals import Reason
from hubbub.shuffler.hop.sqlite import FILE_NAME
from support.changed_stores import by_hand
from support.hop_chain import Chain
from support.patience import PATIENCE


@pytest.fixture
async def chain(tmp_path: Path) -> AsyncIterator[Chain]:
    made = Chain(tmp_path, 1)
    await made.start()
    yield made
    made.close()


def flip(chain: Chain, table: str, column: str, position: int) -> None:
    """Change a byte of a table's one row, counted from its end."""
    with closing(by_hand(chain.at("hop-2") / FILE_NAME, timeout=PATIENCE)) as connection:
        ((content,),) = connection.execute(f"SELECT {column} FROM {table}")  # noqa: S608
        changed = bytearray(content)
        changed[-position] ^= 0x10
        connection.execute(f"UPDATE {table} SET {column} = ?", (bytes(changed),))  # noqa: S608
        connection.commit()


@pytest.mark.parametrize(("table", "column"), [("released", "envelopes"), ("batch", "mixed_signature")])
async def test_a_list_that_is_not_what_the_hop_signed_is_not_passed_on(chain: Chain, table: str, column: str) -> None:
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)

    def broken(point: str) -> None:
        if point == "before begin at analyzer":
            raise Unreachable("it did not answer")

    chain.links[-1].incident = broken
    await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)  # it is mixed now
    chain.links[-1].incident = lambda _point: None
    flip(chain, table, column, 5)
    message = await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
    assert "this hop's store is damaged" in message
    stored = await chain.analyzer_store.batch(delivery.batch)
    assert stored is None or stored.next_offset == 0
    flip(chain, table, column, 5)  # as it was
    assert await chain.deliver(delivery, envelopes) == Committed(len(SYMBOLS), {})


async def test_a_list_that_is_damaged_after_the_analyzer_counted_it_is_passed_on_all_the_same(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)

    def broken(point: str) -> None:
        if point == "after commit at analyzer":
            raise Unreachable("its answer was lost")

    chain.links[-1].incident = broken
    await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
    chain.links[-1].incident = lambda _point: None
    flip(chain, "released", "envelopes", 5)
    assert await chain.deliver(delivery, envelopes) == Committed(len(SYMBOLS), {})


async def test_a_damaged_key_makes_the_round_wait_and_nothing_is_left_out(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)
    flip(chain, "private_key", "private_key", 10)
    message = await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
    assert "the key of round 0 of flights in hop-2's store is damaged" in message
    flip(chain, "private_key", "private_key", 10)  # as it was
    assert await chain.deliver(delivery, envelopes) == Committed(len(SYMBOLS), {})
