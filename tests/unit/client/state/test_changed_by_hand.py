"""A state file that somebody changes by hand: what can be told is named, and the rest is the device's owner's."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hubbub.client import StateError
from hubbub.client.state.file import LARGEST_CHECKED_BYTES
from hubbub.client.state.longitudinal import MemoryUpdate
from hubbub.client.state.rounds import DONE, Drawn, RoundRef
from hubbub.client.state.store import State
from hubbub.protos.messages import Submission
from support.changed_stores import by_hand
from support.charges import BILL

TASK = bytes(range(32))
OVER_AT = 1000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a device that opted out, answered three rounds, has spent, and remembers."""
    state = State(tmp_path / "state.db")
    memory = MemoryUpdate(None, {"active": {"state": 1}}, 9000.0)
    for number in range(3):
        drawn = Drawn(os.urandom(16), b"reports")
        state.keep_reports(RoundRef(TASK, number), "kiosk", drawn, OVER_AT, BILL, None if number else memory)
    of = RoundRef(TASK, 1)
    sent = state.find(of, ["kiosk"])["kiosk"].submission_id
    state.seal(of, {"kiosk": Submission(sent, b"sealed")})
    state.settle(of, {"kiosk": DONE})
    state.keep_reports(RoundRef(TASK, 9), "old", Drawn(os.urandom(16), b"reports"), 10.0, BILL)
    state.forget(20.0)
    state.opt_out("other")
    state.close()
    return tmp_path / "state.db"


CHANGES = {
    "the budget raised: fewer rounds": "UPDATE spent SET rounds = 1",
    "the budget raised: a smaller price": "UPDATE spent SET local = '0'",
    "charges of another day": "UPDATE spent SET day = day + 9",
    "charges of another device": "UPDATE spent SET device = 'nobody' WHERE device = 'kiosk'",
    "a smaller promise": "UPDATE task_cost SET epsilon = 0.0",
    "an opt-out of another device": "UPDATE opted_out SET device = 'nobody'",
    "the last round that was forgotten put back": "UPDATE forgotten SET last = -1",
    "another answer": "UPDATE submission SET reports = x'72657375727473' WHERE reports NOT NULL",
    "an outcome taken away": "UPDATE submission SET outcome = NULL, reports = x'00' WHERE outcome NOT NULL",
    "another device's answer": "UPDATE submission SET device = 'nobody'",
    "a round's number put back": "UPDATE round SET number = number + 100",
    "another time of the end": "UPDATE round SET over_at = 1e12",
    "other keys": "UPDATE round SET key_set = x'7b7d'",
    "another memory": """UPDATE memory SET content = '{"active":{"state":0}}'""",
    "a history": "UPDATE history SET answered = 0",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_row_that_is_changed_is_named_when_the_file_is_opened(what: str, path: Path) -> None:
    """Also by a program that knows SQLite's format: it would have to compute the row's checksum."""
    (table,) = re.findall(r"UPDATE (\w+)", CHANGES[what])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError, match=r"no such function|unknown function"):
            connection.execute(CHANGES[what])
        connection.create_function("checksum_of_row", -1, lambda *_values: 7, deterministic=True)
        assert connection.execute(CHANGES[what]).rowcount
    state = State(path)
    says = rf"the state file .*state\.db is damaged \(a row of {table} is not as it was written\); move it away"
    for _ in range(2):
        with pytest.raises(StateError, match=says):
            state.opted_out(["kiosk"])
    state.close()


def test_whoever_computes_the_checksums_too_has_changed_the_file_as_its_owner_may(path: Path) -> None:
    """No key is on the device that its owner has not: docs/explanation/attacks-stores.md says what is left."""
    with closing(by_hand(path, isolation_level=None)) as connection:
        connection.execute("UPDATE spent SET rounds = 1")
        connection.execute("DELETE FROM opted_out")
    with closing(State(path)) as state:
        assert state.opted_out(["other"]) == set()


@pytest.mark.parametrize("left", [0.9, 0.5, 0.3])
def test_a_file_that_is_cut_short_is_named(path: Path, left: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * left)])
    with closing(State(path)) as state, pytest.raises(StateError, match=r"is damaged"):
        state.opted_out(["kiosk"])


def test_a_table_that_is_replaced_is_named(path: Path) -> None:
    """Without the column of checksums nothing would be compared."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE opted_out")
        connection.execute("CREATE TABLE opted_out (device TEXT PRIMARY KEY) WITHOUT ROWID")
    with closing(State(path)) as state, pytest.raises(StateError, match="differ from those of its version: opted_out"):
        state.opted_out(["kiosk"])


def test_a_fleets_large_file_is_opened_without_reading_all_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert path.stat().st_size < LARGEST_CHECKED_BYTES
    with closing(by_hand(path, isolation_level=None)) as connection:
        connection.create_function("checksum_of_row", -1, lambda *_values: 7, deterministic=True)
        connection.execute("UPDATE history SET answered = 0")
    monkeypatch.setattr("hubbub.client.state.file.LARGEST_CHECKED_BYTES", path.stat().st_size - 1)
    with closing(State(path)) as state:
        assert state.opted_out(["other"]) == {"other"}
