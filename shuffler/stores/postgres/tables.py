"""The SQL statements on rounds and their data; `inserts` has those that store submissions.

A round's data is in tables of its own, whose names end with the round's key: `ids_7`, `arrived_7`, `released_7`. So a
round is erased by dropping tables, which waits for no other rows and leaves no dead ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import RoundState
from hubbub.protos.records.release_chain import ChainPosition, Release
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.schedule import Close
from hubbub.service.errors import StoreError
from hubbub.service.fixed_width import split_records
from hubbub.service.postgres.ledger import insert_releases, last_of
from hubbub.service.postgres.sessions import Connection, lock
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RELEASED_BLOCK
from hubbub.shuffler.records import FINAL, Round, RoundId, StoredBatch, Tally, is_over
from hubbub.shuffler.stores.postgres.sealing import RoundCipher
from hubbub.shuffler.stores.postgres.secrets import StorageSecrets

_ROUNDS = (
    "SELECT key, task, number, state, submissions, closed_by, refusals, reason, "
    "shuffler_body, shuffler_signature, analyzer_body, analyzer_signature FROM round "
)
_READ_IDS = 10_000
"""Ids that are fetched at once while they are checked."""

_READ_BLOCKS = 8
"""Blocks of submissions that are fetched at once during mixing."""


def of_round(statement: str, key: int) -> sql.Composed:
    """Return a statement on the tables of a round; it names them {ids}, {arrived} and {released}."""
    names = ("ids", "arrived", "released")
    return sql.SQL(statement).format(**{name: sql.Identifier(f"{name}_{key}") for name in names})


# Rounds


def round_from(row: tuple[Any, ...]) -> Round:
    """Return a round from a row, its keys without those in the keyring."""
    key, task, number, state, submissions, closed_by, refusals, reason, *documents = row
    keys = None
    if documents[0] is not None:
        body, signature, analyzer_body, analyzer_signature = documents
        keys = RoundKeyMaterial(
            b"", KeySet(SignedDocument(body, signature), SignedDocument(analyzer_body, analyzer_signature))
        )
    close: Close | None = "operator" if closed_by == "operator" else "schedule" if closed_by else None
    return Round(key, task, number, RoundState(state), keys, submissions, close, read_json(refusals), reason)


def with_secrets(round_: Round, secrets: StorageSecrets) -> Round:
    """Return a round with those of its secret keys that it still has."""
    if round_.keys is None or is_over(round_):
        return round_
    private = secrets.private_key if round_.state in (RoundState.OPEN, RoundState.CUT) else b""
    keys = RoundKeyMaterial(private, round_.keys.key_set, secrets.pseudonym_key)
    return replace(round_, keys=keys)


def find(connection: Connection, task_id: bytes, number: int, *, locked: bool = False) -> Round | None:
    """Return a round; if `locked`, nobody else changes it until the transaction ends."""
    which = f"{_ROUNDS} WHERE task = %s AND number = %s"
    row = connection.execute(f"{which} FOR UPDATE" if locked else which, (task_id, number)).fetchone()
    return None if row is None else round_from(row)


def rounds(connection: Connection) -> list[Round]:
    """Return all rounds, in the order in which they began."""
    return [round_from(row) for row in connection.execute(f"{_ROUNDS} ORDER BY key").fetchall()]


def unfinished(connection: Connection) -> list[Round]:
    """Return the rounds that are not over, in the order in which they began."""
    over = [state.value for state in FINAL]
    statement = f"{_ROUNDS} WHERE NOT state = ANY(%s) ORDER BY key"
    return [round_from(row) for row in connection.execute(statement, (over,)).fetchall()]


def insert_round(connection: Connection, task_id: bytes, number: int) -> Round | None:
    """Begin a round with its tables; None if it began before, perhaps just now in another process."""
    # One at a time, so that keys are in the order in which rounds began.
    lock(connection, "rounds", "")
    row = connection.execute(
        "INSERT INTO round (key, task, number, state) SELECT coalesce(max(key), 0) + 1, %s, %s, %s FROM round "
        "ON CONFLICT DO NOTHING RETURNING key",
        (task_id, number, RoundState.OPEN.value),
    ).fetchone()
    if row is None:
        return None
    key: int = row[0]
    for statement in (
        "CREATE TABLE {ids} (id bytea PRIMARY KEY, digest bytea NOT NULL)",
        "CREATE TABLE {arrived} (position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, block bytea, inners bytea)",
        "CREATE TABLE {released} (query integer, block bigint, envelopes bytea NOT NULL, PRIMARY KEY (query, block))",
    ):
        connection.execute(of_round(statement, key))
    return Round(key, task_id, number, RoundState.OPEN)


def update_key_set(connection: Connection, round_: Round, key_set: KeySet) -> None:
    """Write a round's key records."""
    shuffler, analyzer = key_set.shuffler, key_set.analyzer
    connection.execute(
        "UPDATE round SET shuffler_body = %s, shuffler_signature = %s, analyzer_body = %s, analyzer_signature = %s "
        "WHERE key = %s",
        (shuffler.body, shuffler.signature, analyzer.body, analyzer.signature, round_.key),
    )


def held(connection: Connection, round_: Round) -> int:
    """Return how many submissions a round has or had."""
    row = connection.execute("SELECT held FROM round WHERE key = %s", (round_.key,)).fetchone()
    return 0 if row is None else int(row[0])


def digests(connection: Connection, round_: Round, stored: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the sealed digests of those ids that are stored; empty for a round that is over."""
    statement = of_round("SELECT id, digest FROM {ids} WHERE id = ANY(%s)", round_.key)
    try:
        return dict(connection.execute(statement, (list(stored),)).fetchall())
    except psycopg.errors.UndefinedTable:
        return {}


def check_ids(connection: Connection, round_: Round, cipher: RoundCipher) -> None:
    """Return only if each stored id of a cut round is as it was stored, and there are as many as submissions.

    An id that a disk changed is found by no retry, whose submission then counts a second time. The server checks its
    pages only if it has checksums.

    Raises:
        StoreError: if one was changed, or one is missing.
    """
    found = 0
    with connection.cursor("ids") as cursor:
        cursor.itersize = _READ_IDS
        cursor.execute(of_round("SELECT id, digest FROM {ids}", round_.key))
        for stored, sealed in cursor:
            cipher.open_digest(stored, sealed)
            found += 1
    if found != round_.submissions:
        raise StoreError(
            f"the database has {found} ids of {round_.submissions} acknowledged submissions; it may be damaged "
            "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )


def update_round(connection: Connection, round_: Round) -> None:
    """Write a round's state, its reason, and the numbers fixed at the cut."""
    refusals = json.dumps(dict(round_.refusals_at_cut), sort_keys=True)
    connection.execute(
        "UPDATE round SET state = %s, reason = %s, submissions = %s, closed_by = %s, refusals = %s WHERE key = %s",
        (round_.state.value, round_.reason, round_.submissions, round_.closed_by, refusals, round_.key),
    )


def drop(connection: Connection, round_: Round, *names: str) -> None:
    """Drop those of a round's tables that exist."""
    for name in names:
        connection.execute(of_round(f"DROP TABLE IF EXISTS {{{name}}}", round_.key))


# Counts


def add_tallies(connection: Connection, counts: Mapping[RoundId, Tally]) -> None:
    """Add to the counts, in one order for every process, to avoid deadlocks."""
    rows = sorted(
        (task, number, name, count) for (task, number), tally in counts.items() for name, count in tally.items()
    )
    if rows:
        connection.execute(
            "INSERT INTO tally (task, number, name, count) "
            "SELECT * FROM unnest(%s::bytea[], %s::bigint[], %s::text[], %s::bigint[]) "
            "ON CONFLICT (task, number, name) DO UPDATE SET count = tally.count + excluded.count",
            [list(column) for column in zip(*rows, strict=True)],
        )


def tally(connection: Connection, task_id: bytes, number: int) -> Tally:
    """Return all counts of a round."""
    rows = connection.execute("SELECT name, count FROM tally WHERE task = %s AND number = %s", (task_id, number))
    return Counter(dict(rows.fetchall()))


# Batches


class RoundTables:
    """A cut round's tables during mixing (`mix.mix.RoundContents`)."""

    def __init__(self, connection: Connection, round_: Round, cipher: RoundCipher, folder: Path) -> None:
        self.folder = folder
        self._connection = connection
        self._round = round_
        self._cipher = cipher

    def arrived(self) -> Iterator[bytes]:
        """Yield blocks of submissions as they came."""
        with self._connection.cursor("arrived") as cursor:
            cursor.itersize = _READ_BLOCKS
            cursor.execute(of_round("SELECT block, inners FROM {arrived} ORDER BY position", self._round.key))
            for block, inners in cursor:
                yield self._cipher.open_arrived(block, inners)

    def put_released(self, query: int, block: int, envelopes: bytes) -> None:
        statement = of_round("INSERT INTO {released} (query, block, envelopes) VALUES (%s, %s, %s)", self._round.key)
        sealed = self._cipher.seal_released(query, block, envelopes)
        self._connection.execute(statement, (query, block, sealed))

    def put_batch(self, query: int, digest: bytes, record: SignedDocument) -> None:
        self._connection.execute(
            "INSERT INTO batch (round, query, digest, body, signature) VALUES (%s, %s, %s, %s, %s)",
            (self._round.key, query, digest, record.body, record.signature),
        )

    def position(self) -> ChainPosition:
        return ChainPosition(*last_of(self._connection, self._round.task_id))

    def put_release(self, release: Release) -> None:
        """Store the round's release after those before it."""
        insert_releases(self._connection, self._round.task_id, [release])


def batches(connection: Connection, round_: Round) -> list[StoredBatch]:
    """Return a round's batches, by query."""
    statement = "SELECT query, digest, body, signature, committed FROM batch WHERE round = %s ORDER BY query"
    return [
        StoredBatch(query, digest, SignedDocument(body, signature), committed)
        for query, digest, body, signature, committed in connection.execute(statement, (round_.key,))
    ]


def batches_by_round(connection: Connection) -> dict[RoundId, int]:
    """Return the number of batches of each mixed round."""
    statement = "SELECT task, number, count(*) FROM batch JOIN round ON round.key = batch.round GROUP BY task, number"
    return {(task, number): count for task, number, count in connection.execute(statement)}


def all_records(connection: Connection) -> Iterator[tuple[bytes, int, SignedDocument]]:
    """Yield every batch record: its task's id, its query, the document."""
    statement = "SELECT task, query, body, signature FROM batch JOIN round ON round.key = batch.round"
    for task, query, body, signature in connection.execute(statement):
        yield task, query, SignedDocument(body, signature)


def envelopes(
    connection: Connection, round_: Round, cipher: RoundCipher, query: int, offset: int, width: int
) -> list[bytes]:
    """Return a chunk of a permuted list of envelopes of `width` bytes: from `offset` to the end of its block."""
    block, skipped = divmod(offset, RELEASED_BLOCK)
    statement = of_round("SELECT envelopes FROM {released} WHERE query = %s AND block = %s", round_.key)
    try:
        row = connection.execute(statement, (query, block)).fetchone()
    except psycopg.errors.UndefinedTable:
        return []
    joined = cipher.open_released(query, block, row[0]) if row else b""
    return split_records(joined[skipped * width :], width)


def commit_batch(connection: Connection, round_: Round, query: int) -> int:
    """Record a committed batch; return how many of the round's are left."""
    connection.execute("UPDATE batch SET committed = true WHERE round = %s AND query = %s", (round_.key, query))
    row = connection.execute("SELECT count(*) FROM batch WHERE round = %s AND NOT committed", (round_.key,)).fetchone()
    if row is None:
        raise StoreError("the database server returned no count; check the server")
    return int(row[0])
