"""What a device keeps of a task from one round to the next, for questions over time.

It holds a person's last state and what was drawn once for all rounds, both in the clear, on the device alone. It
changes in the transaction that stores the reports drawn from it, and only from what they were drawn from: a second draw
or a second step of one round would be a second release.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hubbub.client.errors import StateError
from hubbub.client.state.records import RoundRef
from hubbub.protos.errors import HubbubError
from hubbub.queries.longitudinal.over_rounds import ERASED, Memory

Memories = Mapping[str, Memory]
"""By query."""


class MemoryMoved(HubbubError):
    """Another process stepped on meanwhile; nothing was stored. Whoever gets this reads the memory and draws again."""


@dataclass(frozen=True)
class MemoryUpdate:
    """What a memory was when reports were drawn from it, what it is to be, and when the task is over.

    A memory is never printed: it is in the clear.
    """

    before: str | None = field(repr=False)
    after: Memories = field(repr=False)
    over_at: float


def read_memories(content: str | None) -> Memories:
    """Return what a device keeps, by query.

    Raises:
        StateError: where it is no memory.
    """
    try:
        found = {} if content is None else json.loads(content)
        if not all(type(value) is int for memory in found.values() for value in memory.values()):
            raise ValueError("a value is no whole number")
    except (ValueError, AttributeError, RecursionError) as error:
        raise StateError("the state file holds a memory that cannot be read; it is damaged") from error
    return dict(found)


def find_memories(connection: sqlite3.Connection, task_id: bytes, devices: Collection[str]) -> dict[str, str]:
    """Return what is stored for these devices; those without are left out."""
    query = "SELECT device, content FROM memory WHERE task = ? AND device IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(query, (task_id, json.dumps(list(devices)))))


def step_memory(connection: sqlite3.Connection, of: RoundRef, device: str, step: MemoryUpdate) -> None:
    """Store what a device keeps after a round.

    Raises:
        MemoryMoved: where it is not what the reports were drawn from.
    """
    if find_memories(connection, of.task_id, [device]).get(device) != step.before:
        raise MemoryMoved(f"round {of.number} was drawn from a memory that changed meanwhile; draw again")
    content = json.dumps(step.after, sort_keys=True, separators=(",", ":"))
    put = "INSERT INTO memory VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET content = excluded.content"
    connection.execute(put, (of.task_id, device, content, step.over_at))


def erase_memory(connection: sqlite3.Connection, device: str) -> None:
    """Leave nothing of what a device keeps but that there was something, so that nothing of it is drawn anew."""
    rows = connection.execute("SELECT task, content FROM memory WHERE device = ?", (device,)).fetchall()
    for task_id, content in rows:
        left = json.dumps(dict.fromkeys(read_memories(content), ERASED))
        connection.execute("UPDATE memory SET content = ? WHERE task = ? AND device = ?", (left, task_id, device))
