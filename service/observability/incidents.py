"""Tracks the open problems of a service, for its log, `hubbub status`, the metrics and health.

A failing step is retried forever, and would be logged each time. So an incident is logged when it begins, when its text
changes, once in `REMINDER_SECONDS` with its count, and when it is over.
"""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Incident, IncidentReport
from hubbub.service.errors import StoreAwayError, as_store_error
from hubbub.service.observability import logs
from hubbub.service.sqlite.group_commit import Outcome

REMINDER_SECONDS = 600.0
"""How often an incident that lasts, or that comes and goes, is logged."""

_LOG = structlog.get_logger(__name__)


class IncidentKind(StrEnum):
    """The part of a service that has an incident."""

    STORE = "store"
    """The store cannot be read or written."""
    ROUNDS = "rounds"
    """A step of a round fails at this service."""
    PEER = "peer"
    """Another party does not answer, or one of the two refuses the other."""
    LOG = "log"
    """Log lines are lost."""
    PORTS = "ports"
    """Calls are refused because a limit of a port is reached."""
    STANDBYS = "standbys"
    """Fewer standbys follow than the settings ask for."""
    TICKETS = "tickets"
    """A front end has no tickets redeemed: no leader answers, or the leader redeems none."""
    FEED = "feed"
    """An entry of the feed of tasks is refused, the feed cannot be read, or a front end cannot answer for its task."""


_FORESEEN = frozenset({IncidentKind.PEER, IncidentKind.STANDBYS, IncidentKind.TICKETS})
"""Kinds whose cause is another process: this one works, so they are warnings."""


@dataclass
class _Open:
    """An incident, with its log event, the time of its last log line, and whether it still lasts."""

    incident: Incident
    event: str
    names: dict[str, Any]
    logged: float
    said: bool
    """Whether it was logged since it last began."""
    lasts: bool = True


class Incidents:
    """The incidents of a service; may be called from any thread. `clock` gives seconds since 1970.

    If they are not `logged` here, another process that reads them (`active`) logs them.
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, logged: bool = True) -> None:
        self._clock = clock
        self._logged = logged
        self._lock = threading.Lock()
        self._open: dict[Hashable, _Open] = {}

    def open(
        self, key: Hashable, kind: IncidentKind, event: str, text: str, error: Exception | None = None, **names: Any
    ) -> None:
        """Record an occurrence of an incident, under its own key; log `event`, with `names`, if that is due.

        An unexpected `error` is logged with its traceback. What fails because a database is away is not logged: the
        incident of the database is.
        """
        quiet = _is_of_an_outage(error)
        with self._lock:
            met, due = self._noted(key, Incident(kind, text, self._clock(), 1), event, names, quiet=quiet)
        if due and self._logged:
            unforeseen = error is not None and not isinstance(error, HubbubError)
            log = _LOG.error if unforeseen or kind not in _FORESEEN else _LOG.warning
            log(event, **names, error=text, count=met.incident.count, exc_info=error if unforeseen else None)

    def show(self, key: Hashable, kind: IncidentKind, event: str, text: str) -> None:
        """Record an occurrence like `open`, but log nothing: another line of the log has the cause."""
        with self._lock:
            self._noted(key, Incident(kind, text, self._clock(), 1), event, {}, quiet=True)

    def _noted(
        self, key: Hashable, incident: Incident, event: str, names: dict[str, Any], *, quiet: bool
    ) -> tuple[_Open, bool]:
        now, before = incident.since, self._open.get(key)
        going_on = before is not None and before.lasts
        if before is not None and going_on:
            incident = replace(incident, since=before.incident.since, count=before.incident.count + 1)
        told = before is not None and before.incident.text == incident.text and now - before.logged < REMINDER_SECONDS
        due = not told and not quiet
        logged = now if due else before.logged if before is not None else -math.inf
        said = due or (before is not None and going_on and before.said)
        self._open[key] = _Open(incident, event, names, logged, said)
        return self._open[key], due

    def resolve(self, key: Hashable, over: str = "", **more: Any) -> None:
        """Record that an incident is over, or that there is none.

        If the incident was logged, so is its end: as event `over` with the fields `more`, or as the incident's own
        event with ": over" and its count.
        """
        with self._lock:
            met = self._open.get(key)
            if met is None or not met.lasts:
                return
            met.lasts = False
            self._forget()
        seconds = round(self._clock() - met.incident.since, 3)
        if met.said and self._logged:
            count = {} if over else {"count": met.incident.count}
            _LOG.info(over or f"{met.event}: over", **met.names, **count, seconds=seconds, **more)

    def _forget(self) -> None:
        # An incident that is over is kept for as long as a repetition would not be logged.
        due = self._clock() - REMINDER_SECONDS
        self._open = {key: met for key, met in self._open.items() if met.lasts or met.logged > due}

    def of(self, key: Hashable) -> Incident | None:
        """Return the incident under a key, while it lasts."""
        met = self._open.get(key)
        return met.incident if met is not None and met.lasts else None

    def keys(self, kind: IncidentKind) -> list[Hashable]:
        """Return the keys under which there are incidents of a kind."""
        with self._lock:
            return [key for key, met in self._open.items() if met.lasts and met.incident.kind == kind]

    def active(self) -> list[tuple[Hashable, str, Incident]]:
        """Return all open incidents, with their key and event."""
        with self._lock:
            return [(key, met.event, met.incident) for key, met in self._open.items() if met.lasts]

    def now(self) -> tuple[Incident, ...]:
        """Return all open incidents, oldest first, including lost log lines that the log does not report yet."""
        with self._lock:
            found = [met.incident for met in self._open.values() if met.lasts]
        lines, since, why = logs.unreported()
        if lines:
            lost = "1 line of the log was" if lines == 1 else f"{lines} lines of the log were"
            text = f"{lost} lost: {why}; work continues, check the destination of its stderr"
            found.append(Incident(IncidentKind.LOG, text, since, lines))
        return tuple(sorted(found, key=lambda incident: incident.since))

    def of_store(self, path: Path, event: str = "a transaction failed") -> Outcome:
        """Return a callback for the outcome of each transaction of the store in a file: it opens or resolves."""

        def told(error: Exception | None) -> None:
            if error is None:
                self.resolve((path, event))
            else:
                foreseen = isinstance(error, (sqlite3.Error, OSError))
                text = str(as_store_error(error, path))
                self.open((path, event), IncidentKind.STORE, event, text, None if foreseen else error)

        return told

    def count(self, kind: IncidentKind) -> int:
        """Return how many incidents of a kind there are."""
        return sum(incident.kind == kind for incident in self.now())

    def report(self) -> IncidentReport:
        """Return the report for the operator."""
        return IncidentReport(self.now(), logs.lost())


def _is_of_an_outage(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is that a database does not answer."""
    while error is not None:
        if isinstance(error, StoreAwayError):
            return True
        error = error.__cause__
    return False
