"""Stores the ledger and releases of each task in append-only tables on PostgreSQL; the database refuses changes."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.identity.documents import canonical
from hubbub.protos.records.release_chain import Release, first_head, next_head, read_release
from hubbub.protos.strict_json import read_json
from hubbub.service.errors import damage_in
from hubbub.service.ledger.charges import Charge, Charges, check_follows
from hubbub.service.postgres.sessions import Connection


def charges(connection: Connection) -> dict[bytes, list[Charge]]:
    """Return every task's ledger, oldest charge first."""
    found: dict[bytes, list[Charge]] = {}
    for task, *charge in connection.execute("SELECT task, position, entry, digest FROM ledger ORDER BY task, position"):
        found.setdefault(task, []).append(Charge(*charge))
    return found


def charges_of(connection: Connection, task_id: bytes) -> list[Charge]:
    """Return a task's ledger, oldest charge first."""
    rows = connection.execute(
        "SELECT position, entry, digest FROM ledger WHERE task = %s ORDER BY position", (task_id,)
    )
    return [Charge(*row) for row in rows]


def check_charges(connection: Connection, task_id: bytes, more: Charges) -> None:
    """Check that charges follow those of a task.

    Raises:
        LedgerMoved: if they do not.
    """
    row = connection.execute("SELECT count(*) FROM ledger WHERE task = %s", (task_id,)).fetchone()
    check_follows(0 if row is None else row[0], more)


def insert_charges(connection: Connection, task_id: bytes, more: Charges) -> None:
    """Add to a task's ledger."""
    for charge in more:
        connection.execute(
            "INSERT INTO ledger (task, position, entry, digest) VALUES (%s, %s, %s, %s)",
            (task_id, charge.position, charge.entry, charge.digest),
        )


def releases(connection: Connection) -> dict[bytes, list[tuple[Release, bytes]]]:
    """Return every task's releases, oldest first, each with its stored head."""
    found: dict[bytes, list[tuple[Release, bytes]]] = {}
    with damage_in("a release's"):
        for task, entry, head in connection.execute("SELECT task, entry, head FROM chain ORDER BY task, position"):
            found.setdefault(task, []).append((read_release(read_json(entry)), bytes.fromhex(head)))
    return found


def releases_of(connection: Connection, task_id: bytes) -> list[Release]:
    """Return a task's releases, oldest first."""
    rows = connection.execute("SELECT entry FROM chain WHERE task = %s ORDER BY position", (task_id,))
    with damage_in("a release's"):
        return [read_release(read_json(entry)) for (entry,) in rows]


def last_of(connection: Connection, task_id: bytes) -> tuple[int, bytes]:
    """Return the number of a task's releases, and their head."""
    row = connection.execute(
        "SELECT position, head FROM chain WHERE task = %s ORDER BY position DESC LIMIT 1", (task_id,)
    ).fetchone()
    return (0, first_head(task_id)) if row is None else (row[0] + 1, bytes.fromhex(row[1]))


def insert_releases(connection: Connection, task_id: bytes, more: Sequence[Release]) -> None:
    """Add to a task's releases."""
    position, head = last_of(connection, task_id)
    for number, release in enumerate(more, position):
        head = next_head(head, release)
        entry = canonical(release.content()).decode()
        connection.execute(
            "INSERT INTO chain (task, position, entry, head) VALUES (%s, %s, %s, %s)",
            (task_id, number, entry, head.hex()),
        )
