"""The memory: data that a device keeps from one round of a task to the next, for longitudinal queries.

It contains a person's last state and the values that were drawn once for all rounds, both in the clear, on the device
only. It changes in the transaction that stores the reports drawn from it, and only if it still is the memory that they
were drawn from. A second draw or a second step of one round would be a second release.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hubbub.client.errors import NEW_FILE, StateError
from hubbub.client.state.rounds import RoundRef
from hubbub.protos.errors import HubbubError
from hubbub.protos.strict_json import read_json
from hubbub.queries.longitudinal.over_rounds import ERASED, Memory

Memories = Mapping[str, Memory]
"""By query."""


class MemoryMoved(HubbubError):
    """Another process changed the memory meanwhile; nothing was stored. The caller reads the memory and draws again."""


@dataclass(frozen=True)
class MemoryUpdate:
    """A memory before and after a round's reports were drawn from it, and when the task is over.

    A memory is never printed, because it is in the clear.
    """

    before: str | None = field(repr=False)
    after: Memories = field(repr=False)
    over_at: float


def read_memories(content: str | None) -> Memories:
    """Return the memory of a device, by query.

    Raises:
        StateError: if it cannot be read.
    """
    try:
        found = {} if content is None else read_json(content)
        if not all(type(value) is int for memory in found.values() for value in memory.values()):
            raise ValueError("a value is no whole number")
    except (ValueError, AttributeError, RecursionError) as error:
        raise StateError(f"the state file has a memory that cannot be read; it is damaged: {NEW_FILE}") from error
    return dict(found)


def find_memories(connection: sqlite3.Connection, task_id: bytes, devices: Collection[str]) -> dict[str, str]:
    """Return the stored memories of these devices; devices without one are left out."""
    query = "SELECT device, content FROM memory WHERE task = ? AND device IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(query, (task_id, json.dumps(list(devices)))))


def step_memory(connection: sqlite3.Connection, of: RoundRef, device: str, step: MemoryUpdate) -> None:
    """Store the memory of a device after a round.

    Raises:
        MemoryMoved: if the stored memory is not the one that the reports were drawn from.
    """
    if find_memories(connection, of.task_id, [device]).get(device) != step.before:
        raise MemoryMoved(f"round {of.number} was drawn from a memory that changed meanwhile; draw again")
    content = json.dumps(step.after, sort_keys=True, separators=(",", ":"))
    put = "INSERT INTO memory VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET content = excluded.content"
    connection.execute(put, (of.task_id, device, content, step.over_at))


def erase_memory(connection: sqlite3.Connection, device: str) -> None:
    """Erase a device's memories, but keep a mark for each query, so that nothing is drawn a second time."""
    _erase(connection, "SELECT task, device, content, over_at FROM memory WHERE device = ?", device)


def erase_ended(connection: sqlite3.Connection, now: float) -> None:
    """Erase the memories of tasks that are over at `now`, but for these marks.

    The marks stay for ever: a clock that was ahead may be set back, and then the task is not over.
    """
    _erase(connection, "SELECT task, device, content, ? FROM memory WHERE over_at < ?", math.inf, now)


def _erase(connection: sqlite3.Connection, query: str, *values: float | str) -> None:
    for task_id, device, content, over_at in connection.execute(query, values).fetchall():
        left = json.dumps(dict.fromkeys(read_memories(content), ERASED))
        put = "UPDATE memory SET content = ?, over_at = ? WHERE task = ? AND device = ?"
        connection.execute(put, (left, over_at, task_id, device))
