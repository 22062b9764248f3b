"""Past: what is known of the rounds that were released before one, inside one transaction."""

from __future__ import annotations

import sqlite3

from hubbub.analyzer.records import Past
from hubbub.analyzer.sqlite.tables import Tables
from hubbub.protos.releases import Known
from hubbub.service.chain_table import last_of, releases_of


def known(connection: sqlite3.Connection, task_id: bytes) -> Known:
    """Return how many releases of a task are stored, their head, and those of their rounds that are not counted."""
    whole = _counted(connection, task_id)
    rounds = [release.round for release in releases_of(connection, task_id)]
    return Known(*last_of(connection, task_id), tuple(number for number in rounds if number not in whole))


def past(connection: sqlite3.Connection, tables: Tables, task_id: bytes, round_number: int) -> Past:
    """Return what a round's certificate composes, by the releases where its task's records state places."""
    releases = releases_of(connection, task_id)
    rounds = [release.round for release in releases]
    if round_number not in rounds:
        return Past((), tables.history(task_id, round_number))
    before = releases[: rounds.index(round_number)]
    whole = _counted(connection, task_id)
    counted = [release.round for release in before if release.round in whole]
    history = [(number, tables.batches(task_id, number)) for number in (*counted, round_number)]
    others = [release.round for release in before if release.round not in whole]
    return Past(tuple(before), history, tuple(number for number in others if not _is_over(tables, task_id, number)))


def _counted(connection: sqlite3.Connection, task_id: bytes) -> set[int]:
    """Return the rounds of a task whose batches are all counted."""
    rows = connection.execute(
        "SELECT rounds.round FROM rounds JOIN tasks ON tasks.id = rounds.task WHERE task_id = ? AND tasks.queries ="
        " (SELECT count(*) FROM batches WHERE batches.round = rounds.id AND valid IS NOT NULL)",
        (task_id,),
    )
    return {number for (number,) in rows}


def _is_over(tables: Tables, task_id: bytes, round_number: int) -> bool:
    """Whether a round's key was destroyed: what was not counted of it will never be."""
    key = tables.key(task_id, round_number)
    return key is not None and key.private is None
