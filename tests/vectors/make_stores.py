"""Writes the stores of tests/vectors/stores as this version of hubbub writes them, one file for each kind and version.

    python tests/vectors/make_stores.py

Of a store in PostgreSQL it writes the server's dump (`.sql.gz`) and the keyring (`.db.gz`), in a folder of their own.
Run it after a store's version was raised, and commit the new file beside the old ones: those stay, so that tests see
what becomes of them. Until the first release version 1 may change: remove its file, and it is written anew. Keys in
them were made for the vectors and protect nothing. `NAME-VERSION.json` says what is in `NAME-VERSION.db.gz`. Nothing is
written over.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import os
import sys
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import structlog

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from unit.analyzer.conftest import SYMBOLS, Bench  # noqa: E402
from unit.shuffler.world import World, unreachable  # noqa: E402

from hubbub.analyzer.stores.sqlite.schema import LAYOUT as ANALYZER  # noqa: E402
from hubbub.client.privacy.ledger import ProvenLoss  # noqa: E402
from hubbub.client.state.enrollment import keep_successions, take_tickets  # noqa: E402
from hubbub.client.state.file import STATE  # noqa: E402
from hubbub.client.state.longitudinal import MemoryUpdate  # noqa: E402
from hubbub.client.state.rounds import DONE, Drawn, RoundRef  # noqa: E402
from hubbub.client.state.store import State  # noqa: E402
from hubbub.protos.enrollment.tickets import new_tickets  # noqa: E402
from hubbub.protos.identity.keys import Identity, Role  # noqa: E402
from hubbub.protos.identity.successions import Succession  # noqa: E402
from hubbub.protos.messages import CredentialAction as MasterStep  # noqa: E402
from hubbub.protos.messages import Envelopes, RoundState, Submission  # noqa: E402
from hubbub.protos.task.admission import OPEN  # noqa: E402
from hubbub.shuffler.hop.sqlite import LAYOUT as HOP  # noqa: E402
from hubbub.shuffler.records import RedeemedTicket  # noqa: E402
from hubbub.shuffler.records import Round as ShufflerRound  # noqa: E402
from hubbub.shuffler.stores.postgres import tables  # noqa: E402
from hubbub.shuffler.stores.sqlite.schema import LAYOUT as SHUFFLER  # noqa: E402
from support import postgres  # noqa: E402
from support.charges import BILL  # noqa: E402
from support.fake_shuffler import FakeShuffler  # noqa: E402
from support.hop_chain import Chain  # noqa: E402
from support.samples import Parties, sample_task  # noqa: E402
from support.store_contents import analyzer_content, hop_content, shuffler_content, state_content, within  # noqa: E402

FOLDER = Path(__file__).parent / "stores"


def keep(name: str, version: int, database: Path, content: dict[str, Any]) -> None:
    """Compress a store without a timestamp, and say beside it what it holds."""
    packed = FOLDER / f"{name}-{version}.db.gz"
    if packed.exists():
        sys.stderr.write(f"{packed.name} is there already and stays as it is\n")
        return
    packed.write_bytes(gzip.compress(database.read_bytes(), mtime=0))
    described = json.dumps(content, indent=1, sort_keys=True)
    (FOLDER / f"{name}-{version}.json").write_text(described + "\n")


def keep_in_postgres(name: str, kind: postgres.Kind[Any], folder: Path, content: dict[str, Any]) -> None:
    """Do so with a store in PostgreSQL whose keyring is in `folder`."""
    packed = FOLDER / "postgres" / f"{name}-1.sql.gz"
    keep(f"postgres/{name}", 1, folder / "keyring.db", content)
    if not packed.exists():
        dump = postgres.dumped((folder / postgres.ADDRESS_FILE).read_text(), kind.schema)
        packed.write_bytes(gzip.compress(dump.encode(), mtime=0))


async def shuffler(world: World) -> dict[str, Any]:
    """Round 0 erased, 1 mixed and undelivered, 2 open with submissions and refusals, 3 open with all keys.

    A ticket is redeemed, and its device revoked.
    """
    await world.start()
    await world.live(0)
    world.analyzer.incident = unreachable("begin")
    world.clock.now = float(world.task.schedule.opens(1))
    world.rounds.timer.recheck()
    await world.until(lambda: world.has_keys_of(1))
    await world.fill(round_number=1)
    await world.cut(1)
    await world.until(lambda: getattr(world.found(1), "state", None) is RoundState.MIXED)
    await world.until(lambda: world.has_keys_of(2))
    submissions = await world.fill(round_number=2)
    await world.send(submissions[:2], await world.destination(2))
    await world.rounds.stop()
    open_ = world.found(2)
    assert open_ is not None
    assert open_.keys is not None
    enrolled = await world.store.add_round(world.task.id, 3)
    await world.store.install(enrolled, replace(open_.keys, pseudonym_key=os.urandom(32)))
    await world.store.step_masters(MasterStep.STATUS, os.urandom(32), 0)
    await world.store.redeem([RedeemedTicket(bytes(32), bytes(32), bytes(16), 2**40)])
    await world.store.revoke([bytes(32)])
    content = await shuffler_content(world.store)
    await world.stop()
    return content


async def analyzer(bench: Bench) -> dict[str, Any]:
    """Round 0 certified, round 1 half delivered."""
    await bench.start()
    await bench.deliver_round()
    envelopes = await bench.seal(0, SYMBOLS[0], 1)
    records, releases = await bench.released([envelopes, await bench.seal(1, SYMBOLS[1], 1)], 1)
    await bench.begin(records[0], releases=releases)
    await bench.put(0, 0, envelopes[:5], 1)
    content = await analyzer_content(bench.store)
    await bench.stop()
    return content


class PostgresWorld(World):
    """A shuffler whose store is in PostgreSQL."""

    def found(self, round_number: int = 0) -> ShufflerRound | None:
        with psycopg.connect((self.folder / postgres.ADDRESS_FILE).read_text()) as connection:
            connection.execute("SET search_path = hubbub_shuffler")
            found = tables.find(connection, self.task.id, round_number)
        keyring: Any = self.store
        return None if found is None else tables.with_secrets(found, keyring._keyring.of((found.task_id, found.number)))


async def in_sqlite(folder: Path) -> None:
    """The services' stores as SQLite files."""
    world = World(folder, admission=OPEN)
    content = await shuffler(world)
    keep("shuffler", SHUFFLER.version, world.folder / "shuffler.db", content)
    content = await analyzer(Bench(folder / "analyzer", admission=OPEN))
    keep("analyzer", ANALYZER.version, folder / "analyzer" / "analyzer.db", content)
    await hop(folder / "chain")


async def in_postgres(folder: Path) -> None:
    """The services' stores in PostgreSQL, which do the same."""

    def opened_by(kind: postgres.Kind[Any]) -> Any:
        return lambda _kind, place, **named: kind.store_in(place, **named)

    with mock.patch("unit.shuffler.world.store_in", opened_by(postgres.SHUFFLER)):
        world = PostgresWorld(folder, admission=OPEN)
        content = await shuffler(world)
    keep_in_postgres("shuffler", postgres.SHUFFLER, world.folder, content)
    with mock.patch("unit.analyzer.conftest.store_in", opened_by(postgres.ANALYZER)):
        content = await analyzer(Bench(folder / "analyzer", admission=OPEN))
    keep_in_postgres("analyzer", postgres.ANALYZER, folder / "analyzer", content)


async def hop(folder: Path) -> None:
    """Round 0 passed on and over, round 1 half arrived."""
    with contextlib.closing(Chain(folder)) as chain:
        await chain.start()
        sent = {query: await chain.seal([0, 1, 2, 0, 1, 2], query) for query in range(2)}
        for query, delivery in (await chain.deliveries(sent)).items():
            await chain.deliver(delivery, sent[query])
        envelopes = await chain.seal([0, 1, 2, 0, 1], number=1)
        delivery = await chain.delivery(envelopes, number=1)
        await chain.hops[0].begin(delivery.record, delivery.key_set, delivery.releases)
        await chain.hops[0].put(Envelopes(delivery.batch, 0, tuple(envelopes[:3])))
        content = await hop_content(chain.stores[0])
    keep("hop", HOP.version, chain.at("hop-2") / "hop.db", content)


def client(folder: Path) -> None:
    """Round 0 forgotten, 1 acknowledged, 2 waiting to be sent, 3 to be sealed later, with a memory and a ticket."""
    parties = Parties.generate()
    fake = FakeShuffler(sample_task(parties), parties)
    state = State(folder / "state.db")
    for number in range(3):
        of = RoundRef(fake.task.id, number)
        state.pin(of, fake.keys(number)[2], 1000.0 * (number + 1))
        state.keep(of, {"kiosk": Submission(os.urandom(16), os.urandom(232))}, BILL)
    state.settle(RoundRef(fake.task.id, 1), {"kiosk": DONE})
    step = MemoryUpdate(None, {"active": {"changes": 1, "period": 4, "state": 1}}, 9000.0)
    drawn = Drawn(os.urandom(16), os.urandom(8))
    state.keep_reports(RoundRef(fake.task.id, 3), "kiosk", drawn, 4000.0, BILL, step, send_time=3456.75)
    state.add_certificate(RoundRef(fake.task.id, 1), ProvenLoss(1, 0, Fraction(5, 4)), None)
    state.opt_out("other")
    old, new = parties.shuffler, Identity.generate()
    succession = Succession(Role.SHUFFLER, old.public, new.public, parties.operator.public, 1_796_083_200)
    for signer in (old, new, parties.operator):
        succession = succession.signed_by(signer)
    (ticket,) = new_tickets(1, old.public, 2_000_000_000, [parties.operator])
    within(state, lambda connection: keep_successions(connection, [succession]))
    within(state, lambda connection: take_tickets(connection, new.public, {"kiosk": ticket}, os.urandom))
    state.forget(1500.0)
    content = state_content(state, fake.task.id, "kiosk", (1, 2, 3))
    state.close()
    keep("state", STATE.version, folder / "state.db", content)


def main() -> None:
    """Write what is missing."""
    (FOLDER / "postgres").mkdir(parents=True, exist_ok=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(in_sqlite(Path(temporary)))
        client(Path(temporary))
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stopped:
        stopped.callback(postgres.stop)
        asyncio.run(in_postgres(Path(temporary)))


if __name__ == "__main__":
    main()
