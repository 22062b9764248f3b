"""Troubles: what holds a service up at this moment, for its log, `hubbub status`, the metrics and health.

A step that fails is tried again for ever, and would be logged each time. So a trouble is logged when it begins, when it
says something else, once in `REMINDER_SECONDS` with how often it was met, and when it is over.
"""

from __future__ import annotations

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
from hubbub.protos.messages import Condition, Trouble
from hubbub.service.errors import as_store_error
from hubbub.service.observability import logs
from hubbub.service.sqlite.group_commit import Outcome

REMINDER_SECONDS = 600.0
"""How often a trouble that goes on is logged, and one that comes and goes."""

_LOG = structlog.get_logger(__name__)


class Kind(StrEnum):
    """What is in trouble."""

    STORE = "store"
    """The store's disk does not take or give what was asked."""
    ROUNDS = "rounds"
    """A step of a round fails at this service."""
    PEER = "peer"
    """The other service does not answer, or refuses."""
    LOG = "log"
    """Lines of the log are lost."""
    PORTS = "ports"
    """Calls are refused, as a limit of a port is full."""


@dataclass
class _Met:
    """A trouble, whether it goes on, what else is logged with it, and when that was done for the last time."""

    trouble: Trouble
    event: str
    names: dict[str, Any]
    logged: float
    said: bool
    """Whether it was logged since it last began."""
    lasts: bool = True


class Troubles:
    """The troubles of a service; may be told of them from any thread. `clock` gives seconds since 1970.

    Those that are not `logged` here are logged by whoever is told of them (`lasting`).
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, logged: bool = True) -> None:
        self._clock = clock
        self._logged = logged
        self._lock = threading.Lock()
        self._met: dict[Hashable, _Met] = {}

    def meet(
        self, key: Hashable, kind: Kind, event: str, text: str, error: Exception | None = None, **names: Any
    ) -> None:
        """Note a trouble that was met, under a key of its own; log `event`, with `names`, where that is due.

        An `error` that nobody foresaw is logged with its traceback.
        """
        with self._lock:
            met, due = self._noted(key, Trouble(kind, text, self._clock(), 1), event, names)
        if due and self._logged:
            unforeseen = error is not None and not isinstance(error, HubbubError)
            log = _LOG.error if unforeseen or kind is not Kind.PEER else _LOG.warning
            log(event, **names, error=text, count=met.trouble.count, exc_info=error if unforeseen else None)

    def _noted(self, key: Hashable, trouble: Trouble, event: str, names: dict[str, Any]) -> tuple[_Met, bool]:
        now, before = trouble.since, self._met.get(key)
        going_on = before is not None and before.lasts
        if before is not None and going_on:
            trouble = replace(trouble, since=before.trouble.since, count=before.trouble.count + 1)
        told = before is not None and before.trouble.text == trouble.text and now - before.logged < REMINDER_SECONDS
        logged = before.logged if before is not None and told else now
        said = not told or (before is not None and going_on and before.said)
        self._met[key] = _Met(trouble, event, names, logged, said)
        return self._met[key], not told

    def over(self, key: Hashable) -> None:
        """Note that a trouble is over, or that there is none."""
        with self._lock:
            met = self._met.get(key)
            if met is None or not met.lasts:
                return
            met.lasts = False
            self._forget()
        seconds = round(self._clock() - met.trouble.since, 3)
        if met.said and self._logged:
            _LOG.info(f"{met.event}: over", **met.names, count=met.trouble.count, seconds=seconds)

    def _forget(self) -> None:
        # What is over is kept as long as it would not be logged again.
        due = self._clock() - REMINDER_SECONDS
        self._met = {key: met for key, met in self._met.items() if met.lasts or met.logged > due}

    def of(self, key: Hashable) -> Trouble | None:
        """Return the trouble under a key, while it lasts."""
        met = self._met.get(key)
        return met.trouble if met is not None and met.lasts else None

    def keys(self, kind: Kind) -> list[Hashable]:
        """Return the keys under which there are troubles of a kind."""
        with self._lock:
            return [key for key, met in self._met.items() if met.lasts and met.trouble.kind == kind]

    def lasting(self) -> list[tuple[Hashable, str, Trouble]]:
        """Return all that last, with the key and the event that they were met under."""
        with self._lock:
            return [(key, met.event, met.trouble) for key, met in self._met.items() if met.lasts]

    def now(self) -> tuple[Trouble, ...]:
        """Return all that last, the oldest first; lines of the log that were lost and that it does not speak of yet."""
        with self._lock:
            found = [met.trouble for met in self._met.values() if met.lasts]
        lines, since, why = logs.untold()
        if lines:
            text = f"{lines} lines of the log were lost: {why}; work goes on, look at where its stderr goes"
            found.append(Trouble(Kind.LOG, text, since, lines))
        return tuple(sorted(found, key=lambda trouble: trouble.since))

    def of_store(self, path: Path, event: str = "a transaction failed") -> Outcome:
        """Return what is told what the disk of the store in a file does not take, and that it takes it."""

        def told(error: Exception | None) -> None:
            if error is None:
                self.over((path, event))
            else:
                foreseen = isinstance(error, (sqlite3.Error, OSError))
                text = str(as_store_error(error, path))
                self.meet((path, event), Kind.STORE, event, text, None if foreseen else error)

        return told

    def count(self, kind: Kind) -> int:
        """Return how many troubles of a kind there are."""
        return sum(trouble.kind == kind for trouble in self.now())

    def condition(self) -> Condition:
        """Return what the operator is shown."""
        return Condition(self.now(), logs.lost())
