"""Crowds: which ports refuse calls, as a limit of theirs is full; logged once, counted, and shown to the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hubbub.service.net.file_limits import connections_at
from hubbub.service.observability.incidents import Kind, Troubles
from hubbub.service.rpc.concurrency import Limit, Places
from hubbub.service.rpc.pipeline import Intake

QUIET_LOOKS = 5
"""After so many looks without a call that was refused, a limit is full no more."""

_SAID = {
    Limit.CROWDED: "messages that are not whole take more than there is room for, and the oldest are given up",
    Limit.CALLS: "{limits.calls} calls are in work",
    Limit.BYTES: "messages in work, and answers that were not taken, hold {limits.message_bytes} bytes",
    Limit.UNREAD: "answers that were not taken hold as much as is left for others",
    Limit.CONNECTIONS: "{limits.connections} connections are open, and further ones are closed",
    Limit.ADDRESS: "an address has as many connections as one may, and further ones are closed",
    Limit.MEMORY: "the process holds as much memory as it may",
}
"""What each limit is full of. Messages that are not whole in time are counted only: a bad network makes some, too."""


class Crowd:
    """What is refused at one port."""

    def __init__(self, port: str, places: Places, number: int = 0) -> None:
        """Watch the port of that name, which has that number."""
        self._port = port
        self._number = number
        self._places = places
        self._seen = dict.fromkeys(_SAID, 0)
        self._quiet: dict[Limit, int] = {}
        self._full = dict.fromkeys(_SAID, 0)

    @property
    def full_seconds(self) -> dict[tuple[str, Limit], int]:
        """At how many looks, one a second, a limit had refused calls since the look before, by port and limit."""
        return {(self._port, limit): count for limit, count in self._full.items()}

    def look(self, troubles: Troubles) -> None:
        """Compare with the last look, and note what is full now, and what is no more."""
        most = self._places.limits.connections
        if most is not None and self._number and connections_at(self._number, most) >= most:
            self._places.refused[Limit.CONNECTIONS] += 1
        for limit, said in _SAID.items():
            refused, key = self._places.refused[limit], ("port", self._port, limit)
            if refused > self._seen[limit]:
                self._full[limit] += 1
                self._seen[limit], self._quiet[limit] = refused, 0
                why = said.format(limits=self._places.limits)
                text = f"the {self._port} port refuses calls: {why}; see [limits] in the settings, and who calls"
                troubles.meet(key, Kind.PORTS, "calls refused", text, port=self._port, limit=limit.value)
            elif limit in self._quiet:
                self._quiet[limit] += 1
                if self._quiet[limit] >= QUIET_LOOKS:
                    del self._quiet[limit]
                    troubles.over(key)


class Crowds(Collector):
    """The calls of all ports, in work, not whole yet, and refused by limit."""

    def __init__(
        self, service: str, intakes: Mapping[str, Intake], full: Callable[[], Mapping[tuple[str, Limit], int]]
    ) -> None:
        """Show the calls of these ports, and for how many seconds each limit of each was `full`."""
        self._prefix = f"hubbub_{service}_calls"
        self._seconds = f"hubbub_{service}_limit_full_seconds"
        self._full = full
        self._places = {port: intake.places for port, intake in intakes.items()}

    def collect(self) -> Iterator[Metric]:
        """Return them as they are now."""
        labels = ("port",)
        in_work = GaugeMetricFamily(f"{self._prefix}_in_work", "Calls in work.", labels=labels)
        waiting = GaugeMetricFamily(f"{self._prefix}_unfinished", "Calls whose message is not whole.", labels=labels)
        refused = CounterMetricFamily(
            f"{self._prefix}_refused", "Calls refused by a limit of their port.", labels=("port", "limit")
        )
        for port, places in self._places.items():
            in_work.add_metric((port,), places.in_work)
            waiting.add_metric((port,), places.waiting)
            for limit in Limit:
                refused.add_metric((port, limit.value), places.refused[limit])
        # Refused calls may be shown in steps; that a limit is full must be seen from its first second on.
        seconds = CounterMetricFamily(
            self._seconds, "Seconds in which a limit of a port refused calls.", labels=("port", "limit")
        )
        for (port, limit), count in self._full().items():
            seconds.add_metric((port, limit.value), count)
        yield from (in_work, waiting, refused, seconds)
