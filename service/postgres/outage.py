"""Tracks a server that does not answer: calls are refused at once until one thread finds that it is back.

Without this, each call would wait for a connection first, and the pool would try again after ever longer pauses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from hubbub.service.errors import StoreAwayError
from hubbub.service.observability.incidents import IncidentKind, Incidents

WAIT_SECONDS = 5.0
"""How long a call waits for a connection before it fails."""

LOOK_SECONDS = 1.0
"""Pause between two tries to reach a server that does not answer. A try itself takes up to `WAIT_SECONDS`."""

_EVENT = "the database does not answer"

_SHUTDOWNS = frozenset({"57P01", "57P02", "57P03"})
"""SQLSTATEs of a server that ends, that crashed, or that starts."""


class Outage:
    """Knows whether a server answers. May be used from any thread.

    `cause` tries to reach the server; it returns None if that succeeds, and in words why not if it fails. The words
    begin the error of each call that is refused.
    """

    def __init__(self, address: str, cause: Callable[[], str | None], incidents: Incidents) -> None:
        self._key = (address, _EVENT)
        self._cause = cause
        self._incidents = incidents
        self._lock = threading.Lock()
        self._words: str | None = None
        self._refused = 0
        self._closing = threading.Event()

    def check(self) -> None:
        """Return if the server is not known to be away.

        Raises:
            StoreAwayError: at once, if it is.
        """
        error = self._refusal()
        if error is not None:
            raise error

    def found(self) -> StoreAwayError | None:
        """Ask the server after a call failed; return the error for that call if it does not answer."""
        return self._refusal() if self.is_away() else None

    def is_away(self) -> bool:
        """Return whether the server is away; if that is not known yet, ask it.

        If it does not answer, it counts as away from then on, and a thread looks for its return.
        """
        with self._lock:
            if self._words is not None:
                return True
        words = self._asked()
        if words is None:
            return False
        with self._lock:
            first = self._words is None
            if first:
                self._words = words
                self._incidents.open(self._key, IncidentKind.STORE, _EVENT, words)
        if first:
            threading.Thread(target=self._watch, name="outage", daemon=True).start()
        return True

    def _refusal(self) -> StoreAwayError | None:
        """Return the error for a call, and count the call, if the server is known to be away."""
        with self._lock:
            words = self._words
            if words is None:
                return None
            self._refused += 1
            # Under the lock, so that the incident cannot be over before. It is recorded again so that one that lasts
            # is logged again.
            self._incidents.open(self._key, IncidentKind.STORE, _EVENT, words)
        return StoreAwayError(words)

    def _asked(self) -> str | None:
        # Whatever is raised: a thread that ended by it would leave every call refused until a restart.
        try:
            return self._cause()
        except Exception as error:
            return f"the server cannot be asked: {type(error).__name__}: {error}"

    def close(self) -> None:
        """Look for the server no more."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            if self._asked() is None:
                with self._lock:
                    refused, self._refused, self._words = self._refused, 0, None
                    self._incidents.resolve(self._key, "the database answers again", refused=refused)
                return


def may_be_away(error: Exception) -> bool:
    """Return whether an error may mean that the server does not answer, rather than that it refused a statement."""
    state = getattr(error, "sqlstate", None)
    return isinstance(error, psycopg.OperationalError) and (
        state is None or state.startswith("08") or state in _SHUTDOWNS
    )
