"""Databases: submissions held durably in PostgreSQL, against the driver that inserts as many rows by itself."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from parts import INNER_BYTES
from rows import Outcome, Row

from hubbub.shuffler.records import Opened
from support import postgres

CALLS, CALL, AT_ONCE = 400, 100, 32
"""Calls of a run, submissions in one of them, calls that wait at once."""

RUNS = 3


def hold_postgres() -> Iterator[Outcome]:
    """Held by calls of 100, some at once; beside it as much inserted and committed call by call on one connection."""
    found = [(_held(), _inserted()) for _ in range(RUNS)]
    held, inserted = (statistics.median(values) for values in zip(*found, strict=True))
    yield Row("hold_postgres", held, "submissions/s", inserted, ">=", 0.5)


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
                    await store.hold(round_, call, most=10**9)

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


ROWS = (hold_postgres,)
