"""What services keep durably in PostgreSQL, against the driver that writes as much by itself."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from row import Outcome, Row
from sample_task import INNER_BYTES

from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.records.release_chain import position_after
from hubbub.service.receiving.round_keys import make_key
from hubbub.shuffler.records import Opened
from support import postgres
from support.samples import Parties, sample_task, signed

CALLS, CALL, AT_ONCE = 400, 100, 32
"""Calls of a run, submissions in one of them, calls that wait at once."""

RUNS = 3


def hold_postgres() -> Iterator[Outcome]:
    """Held by calls of 100, some at once; beside it as much inserted and committed call by call on one connection."""
    found = [(_held(), _inserted()) for _ in range(RUNS)]
    held, inserted = zip(*found, strict=True)
    yield Row.of("hold_postgres", "submissions/s", held, inserted)


def _held() -> float:
    return asyncio.run(_measured())


async def _measured() -> float:
    calls = iter([_call() for _ in range(CALLS)])
    with tempfile.TemporaryDirectory() as folder:
        store = postgres.store_in(Path(folder) / "data")
        try:
            round_ = await store.add_round(bytes(32), 0)

            async def caller() -> None:
                for call in calls:
                    await store.insert(round_, call, most=10**9)

            started = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
            return CALLS * CALL / (time.perf_counter() - started)
        finally:
            store.close()


def _call() -> list[Opened]:
    return [Opened(os.urandom(16), os.urandom(16), os.urandom(INNER_BYTES)) for _ in range(CALL)]


def _inserted() -> float:
    calls = [_call() for _ in range(CALLS)]
    with psycopg.connect(postgres.new_database(), autocommit=True) as connection:
        connection.execute("CREATE TABLE ids (id bytea PRIMARY KEY, digest bytea)")
        connection.execute("CREATE TABLE blocks (block bytea)")
        started = time.perf_counter()
        for call in calls:
            with connection.transaction():
                connection.execute(
                    "INSERT INTO ids SELECT * FROM unnest(%s::bytea[], %s::bytea[]) ON CONFLICT DO NOTHING",
                    ([each.id for each in call], [each.digest for each in call]),
                )
                connection.execute("INSERT INTO blocks VALUES (%s)", (b"".join(each.inners for each in call),))
        return CALLS * CALL / (time.perf_counter() - started)


ENVELOPES, CHUNK = 100_000, 5_000
"""Envelopes of a batch that the analyzer receives, and of one chunk of it."""


def receive_postgres() -> Iterator[Outcome]:
    """Received by chunks, each sealed and committed; beside it as much copied in one transaction by the driver."""
    found = [(_received(), _copied()) for _ in range(RUNS)]
    received, copied = zip(*found, strict=True)
    yield Row.of("receive_postgres", "envelopes/s", received, copied)


def _received() -> float:
    return asyncio.run(_receiving())


async def _receiving() -> float:
    parties = Parties.generate()
    task = sample_task(parties)
    chunks = _chunks()
    batch = BatchId(task.id, 0, 0)
    record = BatchRecord(
        batch, ENVELOPES, bytes(32), bytes(32), "schedule", admission="open", position=position_after(task.id, ())
    )
    with tempfile.TemporaryDirectory() as folder:
        store = postgres.ANALYZER.store_in(Path(folder) / "data")
        try:
            await store.add_tasks([signed(task, parties)])
            await store.add_key(task.id, 0, make_key(Role.ANALYZER, task, 0, parties.analyzer))
            await store.announce(record, record.signed_by(parties.shuffler), bytes(32), lambda _stored: None)
            started, offset = time.perf_counter(), 0
            for chunk in chunks:
                offset = await store.append(Envelopes(batch, offset, chunk))
            return offset / (time.perf_counter() - started)
        finally:
            store.close()


def _chunks() -> list[tuple[bytes, ...]]:
    return [tuple(os.urandom(INNER_BYTES) for _ in range(CHUNK)) for _ in range(0, ENVELOPES, CHUNK)]


def _copied() -> float:
    chunks = _chunks()
    with psycopg.connect(postgres.new_database(), autocommit=True) as connection:
        connection.execute("CREATE TABLE chunks (first bigint PRIMARY KEY, envelopes bytea STORAGE EXTERNAL)")
        started = time.perf_counter()
        with connection.cursor() as cursor, cursor.copy("COPY chunks FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int8", "bytea"])
            for number, chunk in enumerate(chunks):
                copy.write_row((number, b"".join(chunk)))
        return ENVELOPES / (time.perf_counter() - started)


ROWS = (hold_postgres, receive_postgres)
