"""What a store holds, read through the code that serves from it, as one JSON document."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hubbub.analyzer.stores.postgres.store import AnalyzerPostgresStore as AnalyzerPostgres
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.client.state.enrollment import find_enrollments, kept_successions
from hubbub.client.state.rounds import RoundRef
from hubbub.client.state.store import State
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.results import RoundId
from hubbub.shuffler.hop.sqlite import HopSqliteStore as HopStore
from hubbub.shuffler.records import FINAL
from hubbub.shuffler.records import Round as ShufflerRound
from hubbub.shuffler.stores.postgres import ShufflerPostgresStore
from hubbub.shuffler.stores.postgres import tables as postgres_tables
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerStore
from hubbub.shuffler.stores.sqlite import tables
from support.krr_queries import INNER_BYTES

T = TypeVar("T")
S = TypeVar("S", AnalyzerStore, HopStore, ShufflerStore)


def store_in(kind: type[S], folder: Path, **named: Any) -> S:
    """Open the store of that kind in a folder, which is made first where there is no file of a store."""
    if not any(folder.glob("*.db")):
        kind.create(folder)
    return kind(folder, **named)


def within(state: State, work: Callable[[sqlite3.Connection], T]) -> T:
    """Do work in one transaction of a device's state file."""
    with state.transaction() as connection:
        return work(connection)


def _digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


async def shuffler_content(store: ShufflerStore | ShufflerPostgresStore) -> dict[str, Any]:
    """Rounds with their keys, counts, batches and lists, the ledgers, and what devices are admitted with."""
    found = await store.rounds()
    masters, revoked = await store.masters(), await store.revoked()
    tasks = sorted({round_.task_id for round_ in found})
    charges = {task.hex(): [charge.digest for charge in await store.charges(task)] for task in tasks}
    releases = {task.hex(): [release.content() for release in await store.releases(task)] for task in tasks}
    rounds = [await _shuffler_round(store, round_) for round_ in found]
    return {
        "rounds": rounds,
        "charges": charges,
        "releases": releases,
        "masters": [[each.generation, _digest([each.secret]), each.state.value, each.since] for each in masters],
        "tickets": await store.redeemed(),
        "revoked": [sorted(each.hex() for each in part) for part in (revoked.devices, revoked.numbers)],
    }


def known_in(store: ShufflerStore, round_: ShufflerRound) -> list[tuple[bytes, bytes]]:
    """The ids that the file holds of a round, each with its digest, as the store's own table of them knows them too."""
    query = "SELECT entries FROM known WHERE key >= ? AND key < ?"
    blocks = [entries for (entries,) in store._database.reader.execute(query, tables._key_range(round_))]
    entries = [block[start : start + 32] for block in blocks for start in range(0, len(block), 32)]
    known = sorted((entry[:16], entry[16:]) for entry in entries)
    table = store._snapshot.ids(round_.key)
    assert len(table) == len(known)
    assert [table.get(submission_id) for submission_id, _digest in known] == [digest for _id, digest in known]
    return known


def _known_in_postgres(store: ShufflerPostgresStore, round_: ShufflerRound) -> list[tuple[bytes, bytes]]:
    """The ids that the database holds of a round, as it stores them, each with its digest."""
    cipher = store._keyring.of((round_.task_id, round_.number)).cipher
    if cipher is None:
        return []  # its tables are dropped
    statement = postgres_tables.of_round("SELECT id, digest FROM {ids} ORDER BY id", round_.key)
    rows = store._sessions.look(lambda connection: connection.execute(statement).fetchall())
    return [(stored, cipher.open_digest(stored, sealed)) for stored, sealed in rows]


async def _shuffler_round(store: ShufflerStore | ShufflerPostgresStore, round_: ShufflerRound) -> dict[str, Any]:
    batches = await store.batches(round_)
    known = _known_in_postgres(store, round_) if isinstance(store, ShufflerPostgresStore) else known_in(store, round_)
    lists = [
        await store.envelopes(round_, batch.query, 0, INNER_BYTES) for batch in batches if round_.state not in FINAL
    ]
    keys = round_.keys
    return {
        "round": round_.number,
        "state": round_.state.value,
        "submissions": await store.submissions(round_),
        "closed_by": round_.closed_by,
        "tally": dict(await store.tally(round_.task_id, round_.number)),
        "key_set": None if keys is None else keys.key_set.hash.hex(),
        "private_key": None if keys is None else _digest([keys.private_key]),
        "pseudonym_key": None if keys is None else _digest([keys.pseudonym_key]),
        "known": _digest(part for entry in known for part in entry),
        "batches": [[batch.query, batch.digest.hex(), batch.committed] for batch in batches],
        "lists": [_digest(envelopes) for envelopes in lists],
    }


async def analyzer_content(store: AnalyzerStore | AnalyzerPostgres) -> dict[str, Any]:
    """Rounds with their keys, batches, certificates and envelopes, and the ledgers."""
    rounds = [await _analyzer_round(store, progress.id) for progress in await store.progress(None)]
    tasks = sorted({round_["task"] for round_ in rounds})
    charges = {task: [charge.digest for charge in await store.charges(bytes.fromhex(task))] for task in tasks}
    chains = await store.chains()
    releases = {task.hex(): [release.content() for release, _ in chain] for task, chain in chains.items()}
    return {"rounds": rounds, "charges": charges, "releases": releases}


async def _analyzer_round(store: AnalyzerStore | AnalyzerPostgres, of: RoundId) -> dict[str, Any]:
    key = await store.key(of.task_id, of.round)
    assert key is not None
    batches = await store.batches(of.task_id, of.round)
    return {
        "task": of.task_id.hex(),
        "name": of.task_name,
        "round": of.round,
        "private_key": None if key.private is None else _digest([key.private]),
        "key_set": None if key.key_set_hash is None else key.key_set_hash.hex(),
        "certificate": _digest([await store.certificate(of.task_id, of.round) or b""]),
        "batches": [
            [batch.id.query, batch.digest.hex(), batch.next_offset, batch.committed and batch.committed.counted]
            for batch in batches
        ],
        "counts": [_digest([batch.counts or b""]) for batch in batches],
        "attestations": [_digest([batch.attestation or b""]) for batch in batches],
        "arrived": [_digest([next(store.arrived(batch.id), b"")]) for batch in batches],
    }


async def hop_content(store: HopStore) -> dict[str, Any]:
    """Rounds with their keys and batches, those of the two queries that samples have."""
    return {"rounds": [await _hop_round(store, found.task_id, found.round) for found in await store.statuses()]}


async def _hop_round(store: HopStore, task_id: bytes, number: int) -> dict[str, Any]:
    key = await store.key(task_id, number)
    assert key is not None
    found = [await store.batch(BatchId(task_id, number, query)) for query in range(2)]
    batches = [batch for batch in found if batch is not None]
    return {
        "task": task_id.hex(),
        "round": number,
        "private_key": None if key.private is None else _digest([key.private]),
        "batches": [
            [batch.id.query, batch.digest.hex(), batch.position, batch.committed and batch.committed.counted]
            for batch in batches
        ],
        "mixed": [batch.mixed_digest.hex() for batch in batches if batch.mixed is not None],
        "arrived": [_digest([next(store.arrived(batch.id), b"")]) for batch in batches],
    }


def state_content(state: State, task_id: bytes, device: str, rounds: Iterable[int]) -> dict[str, Any]:
    """What a device knows of its rounds, and what it has spent and enrolled with at successors."""
    found = []
    for number in rounds:
        of = RoundRef(task_id, number)
        key_set, entry = state.key_set(of), state.find(of, [device])[device]
        found.append(
            {
                "round": number,
                "key_set": None if key_set is None else key_set.hash.hex(),
                "id": entry.submission_id.hex(),
                "envelope": None if entry.envelope is None else _digest([entry.envelope]),
                "outcome": entry.outcome,
                "reports": None if entry.reports is None else entry.reports.hex(),
                "moment": entry.send_time,
            }
        )
    history = state.history(task_id, device)
    successions = within(state, kept_successions)
    enrolled = [within(state, partial(find_enrollments, shuffler=one.new, devices=[device])) for one in successions]
    return {
        "task": task_id.hex(),
        "device": device,
        "rounds": found,
        "waiting": state.waiting(task_id, device),
        "memory": {name: json.loads(kept) for name, kept in state.memories(task_id, [device]).items()},
        "history": [history.answered, history.sealed, history.expired, state.last_forgotten(task_id)],
        "opted_out": sorted(state.opted_out([device, "other"])),
        "accounts": [
            [account.task_cost.name, account.rounds, *map(str, (account.local, *account.central))]
            for account in state.accounts(device)
        ],
        "successions": [_digest([one.encode()]) for one in successions],
        "enrollments": [_digest([one.ticket, one.secret]) for found in enrolled for one in found.values()],
    }
