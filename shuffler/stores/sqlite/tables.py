"""The SQL statements of the store. Rounds own ranges of keys, so that one is read or deleted as a chunk."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import RoundState
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.schedule import Close
from hubbub.service.fixed_width import split_records
from hubbub.service.sqlite.ledger_table import all_charges
from hubbub.service.sqlite.secure_delete import pad_for_erasure, unpad
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RELEASED_BLOCK
from hubbub.shuffler.records import Round, StoredBatch, is_over
from hubbub.shuffler.stores.sqlite.id_index import IdIndex
from hubbub.shuffler.stores.sqlite.snapshot import Snapshot

# A key is round << 32 | query << 26 | block: a round, and each of its queries, is one range of keys.
_ROUND_SHIFT = 32
_QUERY_SHIFT = 26


def _first_key(round_key: int, query: int = 0, block: int = 0) -> int:
    return round_key << _ROUND_SHIFT | query << _QUERY_SHIFT | block


def _key_range(round_: Round) -> tuple[int, int]:
    return _first_key(round_.key), _first_key(round_.key + 1)


# Loading

_ROUNDS = """
SELECT key, task, number, state, submissions, closed_by, refusals, reason, private_key, pseudonym_key,
    shuffler_body, shuffler_signature, analyzer_body, analyzer_signature
FROM round
"""


def load(connection: sqlite3.Connection) -> Snapshot:
    """Read rounds, counts, ledgers, and the ids of rounds that are not over."""
    snapshot = Snapshot(charges=all_charges(connection))
    for row in connection.execute(_ROUNDS):
        round_ = _round(row)
        snapshot.rounds[round_.task_id, round_.number] = round_
    for task, number, name, count in connection.execute("SELECT task, number, name, count FROM tally"):
        snapshot.tallies.setdefault((task, number), Counter())[name] = count
    for round_ in snapshot.rounds.values():
        if not is_over(round_):
            snapshot.known[round_.key], snapshot.next_block[round_.key] = _known(connection, round_)
        if _unswept(connection, round_):
            snapshot.unswept.add(round_.key)
    return snapshot


def _round(row: tuple[Any, ...]) -> Round:
    key, task, number, state, submissions, closed_by, refusals, reason, private, pseudonym, *documents = row
    keys = None
    if documents[0] is not None:
        body, signature, analyzer_body, analyzer_signature = documents
        key_set = KeySet(SignedDocument(body, signature), SignedDocument(analyzer_body, analyzer_signature))
        keys = RoundKeyMaterial(_secret(private), key_set, _secret(pseudonym))
    close: Close | None = "operator" if closed_by == "operator" else "schedule" if closed_by else None
    return Round(key, task, number, RoundState(state), keys, submissions, close, read_json(refusals), reason)


def _secret(stored: bytes | None) -> bytes:
    return unpad(stored) if stored else b""


def _known(connection: sqlite3.Connection, round_: Round) -> tuple[IdIndex, int]:
    first, end = _key_range(round_)
    query = "SELECT entries FROM known WHERE key >= ? AND key < ? ORDER BY key"
    known = IdIndex.stored(entries for (entries,) in connection.execute(query, (first, end)))
    (last,) = connection.execute("SELECT max(key) FROM known WHERE key >= ? AND key < ?", (first, end)).fetchone()
    return known, 0 if last is None else last - first + 1


# Rounds


def insert_round(connection: sqlite3.Connection, task_id: bytes, number: int) -> int:
    """Begin a round; return its key."""
    statement = "INSERT INTO round (task, number, state) VALUES (?, ?, ?)"
    key = connection.execute(statement, (task_id, number, RoundState.OPEN.value)).lastrowid
    return key or 0


def update_keys(connection: sqlite3.Connection, round_: Round) -> None:
    """Write a round's keys."""
    if round_.keys is None:
        return
    shuffler, analyzer = round_.keys.key_set.shuffler, round_.keys.key_set.analyzer
    secrets = (
        pad_for_erasure(round_.keys.private_key),
        pad_for_erasure(round_.keys.pseudonym_key) if round_.keys.pseudonym_key else None,
    )
    documents = (shuffler.body, shuffler.signature, analyzer.body, analyzer.signature)
    connection.execute(
        "UPDATE round SET private_key = ?, pseudonym_key = ?, shuffler_body = ?, shuffler_signature = ?, "
        "analyzer_body = ?, analyzer_signature = ? WHERE key = ?",
        (*secrets, *documents, round_.key),
    )


def update_cut(connection: sqlite3.Connection, round_: Round) -> None:
    """Write the numbers that are fixed at the cut."""
    refusals = json.dumps(dict(round_.refusals_at_cut), sort_keys=True)
    connection.execute(
        "UPDATE round SET state = ?, submissions = ?, closed_by = ?, refusals = ? WHERE key = ?",
        (round_.state.value, round_.submissions, round_.closed_by, refusals, round_.key),
    )


def update_state(connection: sqlite3.Connection, round_: Round) -> None:
    """Write a round's state and reason, and destroy the secret keys that it no longer has."""
    statement = "UPDATE round SET state = ?, reason = ? WHERE key = ?"
    connection.execute(statement, (round_.state.value, round_.reason, round_.key))
    if round_.keys is not None and not round_.keys.private_key:
        connection.execute("UPDATE round SET private_key = NULL WHERE key = ?", (round_.key,))
    if round_.keys is not None and not round_.keys.pseudonym_key:
        connection.execute("UPDATE round SET pseudonym_key = NULL WHERE key = ?", (round_.key,))


def add_tallies(connection: sqlite3.Connection, counts: Mapping[tuple[bytes, int], Mapping[str, int]]) -> None:
    """Add to the counts."""
    connection.executemany(
        "INSERT INTO tally (task, number, name, count) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (task, number, name) DO UPDATE SET count = count + excluded.count",
        [(task, number, name, count) for (task, number), tally in counts.items() for name, count in tally.items()],
    )


# Submissions


def insert_block(
    connection: sqlite3.Connection, round_key: int, block: int, known: Mapping[bytes, bytes], inners: Sequence[bytes]
) -> None:
    """Append the submissions of one commit to a round."""
    key = _first_key(round_key, block=block)
    entries = b"".join(itertools.chain.from_iterable(known.items()))
    connection.execute("INSERT INTO known (key, entries) VALUES (?, ?)", (key, entries))
    connection.execute("INSERT INTO arrived (key, inners) VALUES (?, ?)", (key, b"".join(inners)))


STEP_BYTES = 2**21
"""About the bytes that one transaction stages or deletes of a round, so that other writes wait only a moment."""

_READ_ROWS = 16
"""Blocks of submissions read at once, since a reader keeps the write-ahead log from being cut."""

_DELETED_ROWS = 1024
"""Most rows deleted at once: even short rows are pages to be written."""

Table = Literal["known", "arrived", "released"]

CONTENTS: Sequence[Table] = ("arrived", "known", "released")
"""The tables with data of a round that is erased with it."""

_SIZES: Mapping[Table, str] = {
    "arrived": "SELECT key, length(inners) FROM arrived WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
    "known": "SELECT key, length(entries) FROM known WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
    "released": "SELECT key, length(envelopes) FROM released WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
}
_DELETIONS: Mapping[Table, str] = {
    "arrived": "DELETE FROM arrived WHERE key >= ? AND key <= ?",
    "known": "DELETE FROM known WHERE key >= ? AND key <= ?",
    "released": "DELETE FROM released WHERE key >= ? AND key <= ?",
}


def delete_some(connection: sqlite3.Connection, table: Table, round_: Round) -> bool:
    """Delete about `STEP_BYTES` of a round's rows of a table; return whether there were any."""
    first, end = _key_range(round_)
    last, held = -1, 0
    for key, length in connection.execute(_SIZES[table], (first, end, _DELETED_ROWS)).fetchall():
        last, held = key, held + length
        if held >= STEP_BYTES:
            break
    if last < 0:
        return False
    connection.execute(_DELETIONS[table], (first, last))
    return True


def arrived(connection: sqlite3.Connection, round_: Round, after: int) -> list[tuple[int, bytes]]:
    """Return some of a round's blocks of submissions, with their keys, beginning after key `after`."""
    first, end = _key_range(round_)
    query = "SELECT key, inners FROM arrived WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
    return connection.execute(query, (max(first, after + 1), end, _READ_ROWS)).fetchall()


def _unswept(connection: sqlite3.Connection, round_: Round) -> bool:
    """Return whether a mixed round still has submissions as they came."""
    query = "SELECT EXISTS (SELECT 1 FROM arrived WHERE key >= ? AND key < ?)"
    mixed = round_.state in (RoundState.MIXED, RoundState.RELEASED)
    return mixed and bool(connection.execute(query, _key_range(round_)).fetchone()[0])


# Batches


def block_key(round_: Round, query: int, block: int) -> int:
    """Return the key of a block of a permuted list."""
    return _first_key(round_.key, query, block)


def insert_released(connection: sqlite3.Connection, blocks: Sequence[tuple[int, bytes]]) -> None:
    """Store blocks of permuted lists, each under its key."""
    connection.executemany("INSERT INTO released (key, envelopes) VALUES (?, ?)", blocks)


def insert_batch(
    connection: sqlite3.Connection, round_: Round, query: int, digest: bytes, record: SignedDocument
) -> None:
    """Store a permuted list's digest and signed record."""
    connection.execute(
        "INSERT INTO batch (round, query, digest, body, signature) VALUES (?, ?, ?, ?, ?)",
        (round_.key, query, digest, record.body, record.signature),
    )


def batches(connection: sqlite3.Connection, round_: Round) -> list[StoredBatch]:
    """Return a round's batches, by query."""
    statement = "SELECT query, digest, body, signature, committed FROM batch WHERE round = ? ORDER BY query"
    return [
        StoredBatch(query, digest, SignedDocument(body, signature), bool(committed))
        for query, digest, body, signature, committed in connection.execute(statement, (round_.key,)).fetchall()
    ]


def batches_by_round(connection: sqlite3.Connection) -> dict[tuple[bytes, int], int]:
    """Return the number of batches of each mixed round (task id, number)."""
    statement = "SELECT task, number, count(*) FROM batch JOIN round ON round.key = batch.round GROUP BY task, number"
    return {(task, number): count for task, number, count in connection.execute(statement)}


def all_records(connection: sqlite3.Connection) -> Iterator[tuple[bytes, int, SignedDocument]]:
    """Yield every batch record: its task's id, its query, the document."""
    statement = "SELECT task, query, body, signature FROM batch JOIN round ON round.key = batch.round"
    for task, query, body, signature in connection.execute(statement):
        yield task, query, SignedDocument(body, signature)


def envelopes(connection: sqlite3.Connection, round_: Round, query: int, offset: int, width: int) -> list[bytes]:
    """Return a chunk of a permuted list of envelopes of `width` bytes: from `offset` to the end of its block."""
    block, skipped = divmod(offset, RELEASED_BLOCK)
    key = _first_key(round_.key, query, block)
    row = connection.execute("SELECT envelopes FROM released WHERE key = ?", (key,)).fetchone()
    joined: bytes = row[0] if row else b""
    return split_records(joined[skipped * width :], width)


def commit_batch(connection: sqlite3.Connection, round_: Round, query: int) -> int:
    """Record a committed batch; return how many of the round's are left."""
    connection.execute("UPDATE batch SET committed = 1 WHERE round = ? AND query = ?", (round_.key, query))
    statement = "SELECT count(*) FROM batch WHERE round = ? AND NOT committed"
    left: int = connection.execute(statement, (round_.key,)).fetchone()[0]
    return left
