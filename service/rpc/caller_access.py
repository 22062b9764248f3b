"""Decides by a caller's certificate whether it may make a call, and logs who looked."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

import structlog

from hubbub.protos import codec
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.roles import role_of

LOOK_SECONDS = 3600.0
"""How long a look is not logged again for the same name and call: a page that polls would fill the log."""

MOST_LOOKS = 4096
"""Names and calls that are remembered for that."""

_SHOWN = 64
"""Characters of a strange certificate's name that a refusal repeats: X.509 allows no more in a common name."""

_LOG = structlog.get_logger(__name__)


def checked_caller(names: Iterable[str], call: str, allowed: Collection[str]) -> str:
    """Return the first of a certificate's common names whose role is allowed.

    Raises:
        Refusal: NOT_ALLOWED, with the roles that may make the call and what the certificate shows.
    """
    shown = list(names)
    for name in shown:
        if role_of(name) in allowed:
            return name
    what = f"is that of {codec.plain(', '.join(shown))[:_SHOWN]}" if any(shown) else "names no role"
    roles = " or ".join(sorted(allowed))
    raise Refusal(
        Reason.NOT_ALLOWED, f"{call} needs a certificate of role {roles}, and the one shown {what}; use such a one"
    )


class LookLog:
    """Logs who looked, by the name in the certificate: each name and call at most once an hour."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[tuple[str, str], float] = {}

    def note(self, caller: str, call: str) -> None:
        """Log that `caller` made the call, unless that was logged within the last hour."""
        now, key = self._clock(), (caller, call)
        last = self._logged.get(key)
        if last is not None and now - last < LOOK_SECONDS:
            return
        if len(self._logged) >= MOST_LOOKS:
            self._logged.clear()
        self._logged[key] = now
        _LOG.info("looked at", caller=caller, call=call)
