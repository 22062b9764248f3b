"""Each is logged when it begins, changes and ends, and in between rarely; what lasts can be asked for."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hubbub.protos.errors import HubbubError
from hubbub.protos.rpc.health import PARTS
from hubbub.service.observability import logs
from hubbub.service.observability.incidents import REMINDER_SECONDS, IncidentKind, Incidents
from support.source_tree import ROOT


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def incidents(clock: Clock) -> Incidents:
    return Incidents(clock)


def meet(incidents: Incidents, text: str = "no room", error: Exception | None = None) -> None:
    incidents.open("key", IncidentKind.ROUNDS, "a step failed", text, error, round=3)


def events(found: list[MutableMapping[str, Any]]) -> list[tuple[str, int]]:
    return [(line["event"], line["count"]) for line in found]


def test_an_incident_that_is_met_again_and_again_is_logged_once(incidents: Incidents, clock: Clock) -> None:
    with capture_logs() as found:
        for _ in range(50):
            meet(incidents)
            clock.now += 5
    assert events(found) == [("a step failed", 1)]
    assert (found[0]["log_level"], found[0]["round"], found[0]["error"]) == ("error", 3, "no room")
    (incident,) = incidents.now()
    assert (incident.kind, incident.text, incident.since, incident.count) == ("rounds", "no room", 1000.0, 50)


def test_it_is_logged_again_with_its_count_once_in_a_while(incidents: Incidents, clock: Clock) -> None:
    with capture_logs() as found:
        for _ in range(3):
            meet(incidents)
            clock.now += REMINDER_SECONDS / 2
            meet(incidents)
            clock.now += REMINDER_SECONDS / 2
    assert events(found) == [("a step failed", count) for count in (1, 3, 5)]


def test_it_is_logged_when_it_says_something_else_and_when_it_is_over(incidents: Incidents, clock: Clock) -> None:
    with capture_logs() as found:
        meet(incidents)
        meet(incidents, "no answer")
        clock.now += 2.5
        incidents.resolve("key")
        incidents.resolve("key")
        incidents.resolve("another key")
    assert events(found) == [("a step failed", 1), ("a step failed", 2), ("a step failed: over", 2)]
    assert found[-1]["seconds"] == 2.5
    assert incidents.now() == ()
    assert incidents.of("key") is None


def test_one_that_comes_and_goes_is_not_logged_each_time(incidents: Incidents, clock: Clock) -> None:
    with capture_logs() as found:
        for _ in range(20):
            meet(incidents)
            incidents.resolve("key")
            clock.now += 5
        clock.now += REMINDER_SECONDS
        meet(incidents)
    assert events(found) == [("a step failed", 1), ("a step failed: over", 1), ("a step failed", 1)]


def test_what_nobody_foresaw_is_logged_with_its_traceback(incidents: Incidents) -> None:
    with capture_logs() as found:
        meet(incidents, "a", ValueError("a bug"))
        meet(incidents, "b", HubbubError("foreseen"))
    assert isinstance(found[0]["exc_info"], ValueError)
    assert found[1]["exc_info"] is None


def test_a_peer_with_incidents_is_a_warning(incidents: Incidents) -> None:
    with capture_logs() as found:
        incidents.open("key", IncidentKind.PEER, "not delivered", "did not answer", HubbubError("no"))
    assert found[0]["log_level"] == "warning"
    assert (incidents.count(IncidentKind.PEER), incidents.count(IncidentKind.STORE)) == (1, 0)


def test_incidents_are_the_oldest_first_and_lost_lines_are_among_them(
    incidents: Incidents, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet(incidents)
    clock.now += 10
    incidents.open("store", IncidentKind.STORE, "a transaction failed", "full")
    monkeypatch.setattr(logs, "unreported", lambda: (7, 1005.0, "No space left on device"))
    monkeypatch.setattr(logs, "lost", lambda: 12)
    incident_report = incidents.report()
    assert [each.kind for each in incident_report.incidents] == ["rounds", "log", "store"]
    assert incident_report.incidents[1].text.startswith("7 lines of the log were lost: No space left on device; ")
    assert incident_report.log_lines_lost == 12


def failure(code: int, text: str) -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (failure(sqlite3.SQLITE_FULL, "database or disk is full"), "make room on its disk"),
        (failure(sqlite3.SQLITE_IOERR | 3 << 8, "disk I/O error"), "check its disk"),
        (failure(sqlite3.SQLITE_READONLY, "attempt to write a readonly database"), "mount its disk for writing"),
        (
            failure(sqlite3.SQLITE_CORRUPT, "database disk image is malformed"),
            "do not repair it or restore an old copy",
        ),
        (OSError(28, "No space left on device"), "make room on its disk"),
        (OSError(27, "File too large"), "make room on its disk"),
        (OSError(30, "Read-only file system"), "mount its disk for writing"),
        (OSError(5, "Input/output error"), "check its disk"),
        (RuntimeError("a bug"), "check its disk"),
    ],
    ids=str,
)
def test_a_store_that_fails_is_told_by_its_file_with_what_to_do(
    incidents: Incidents, error: Exception, remedy: str
) -> None:
    path = Path("/srv/hubbub/shuffler.db")
    told = incidents.of_store(path)
    told(error)
    (incident,) = incidents.now()
    assert incident.kind == "store"
    assert all(part in incident.text for part in (str(path), str(error), remedy))
    told(None)
    assert incidents.now() == ()


def test_the_contract_and_health_list_every_kind() -> None:
    contract = (ROOT / "protos" / "v1" / "incidents.proto").read_text()
    (listed,) = re.findall(r"// Its kind: (.*?)\.", contract)
    assert tuple(re.findall(r'"(\w+)"', listed)) == PARTS == tuple(IncidentKind)
