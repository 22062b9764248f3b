"""Detects ports that refuse calls because a limit is reached; logs it once, counts it, and shows it to the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.rpc.concurrency import AdmissionControl, PortLimit
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport.file_limits import connections_at

QUIET_LOOKS = 5
"""Checks without a refused call after which a limit counts as free again."""

_SAID = {
    PortLimit.EVICTED: "incomplete messages exceed the room for them, and the oldest are given up",
    PortLimit.CALLS: "{limits.calls} calls are in work",
    PortLimit.BYTES: "messages in work and unread answers use {limits.message_bytes} bytes",
    PortLimit.UNREAD: "unread answers of a connection use as much as is left for others",
    PortLimit.CONNECTIONS: "{limits.connections} connections are open, and further ones are closed",
    PortLimit.ADDRESS: "an address has reached its limit of connections, and further ones are closed",
    PortLimit.EMPTY_RECORDS: "connections send TLS records without content, and are closed",
    PortLimit.SMALL_RECORDS: "requests come in too many TLS records for their size, and are closed",
    PortLimit.HANDSHAKE: "TLS handshakes have more records or bytes than honest ones, and are closed",
    PortLimit.MEMORY: "the process has reached its limit of memory",
}
"""Texts for reached limits. Messages that arrive too slowly are only counted, since a bad network also causes them."""


class PortSaturation:
    """The refused calls at one port."""

    def __init__(self, port: str, admission: AdmissionControl, number: int = 0) -> None:
        """Watch the port with that name and number."""
        self._port = port
        self._number = number
        self._admission = admission
        self._seen = dict.fromkeys(_SAID, 0)
        self._quiet: dict[PortLimit, int] = {}
        self._full = dict.fromkeys(_SAID, 0)

    @property
    def full_seconds(self) -> dict[tuple[str, PortLimit], int]:
        """At how many checks, one a second, a limit had refused calls since the previous check, by port and limit."""
        return {(self._port, limit): count for limit, count in self._full.items()}

    def look(self, incidents: Incidents) -> None:
        """Compare with the previous check; open or resolve an incident for each limit."""
        most = self._admission.limits.connections
        # gRPC closes surplus connections without reporting them, so they are counted in the system's table.
        if most is not None and self._number and connections_at(self._number, most) >= most:
            self._admission.refused[PortLimit.CONNECTIONS] += 1
        for limit, said in _SAID.items():
            refused, key = self._admission.refused[limit], ("port", self._port, limit)
            if refused > self._seen[limit]:
                self._full[limit] += 1
                self._seen[limit], self._quiet[limit] = refused, 0
                why = said.format(limits=self._admission.limits)
                text = f"the {self._port} port refuses calls: {why}; check [limits] in the settings, and the callers"
                incidents.open(key, IncidentKind.PORTS, "calls refused", text, port=self._port, limit=limit.value)
            elif limit in self._quiet:
                self._quiet[limit] += 1
                if self._quiet[limit] >= QUIET_LOOKS:
                    del self._quiet[limit]
                    incidents.resolve(key)


class SaturationCollector(Collector):
    """The calls of all ports: in work, incomplete, and refused by limit."""

    def __init__(
        self,
        service: str,
        pipelines: Mapping[str, RequestPipeline],
        full: Callable[[], Mapping[tuple[str, PortLimit], int]],
    ) -> None:
        """Show the calls of these ports; `full` gives the seconds in which each limit of each port refused calls."""
        self._prefix = f"hubbub_{service}_calls"
        self._seconds = f"hubbub_{service}_limit_full_seconds"
        self._full = full
        self._admission = {port: pipeline.admission for port, pipeline in pipelines.items()}

    def collect(self) -> Iterator[Metric]:
        """Return these metrics as they are now."""
        labels = ("port",)
        in_work = GaugeMetricFamily(
            f"{self._prefix}_in_work", "Calls in work, without those that health asks by.", labels=labels
        )
        waiting = GaugeMetricFamily(
            f"{self._prefix}_unfinished", "Calls whose message is not whole yet.", labels=labels
        )
        refused = CounterMetricFamily(
            f"{self._prefix}_refused",
            "Calls that a limit of their port refused since the start.",
            labels=("port", "limit"),
        )
        for port, admission in self._admission.items():
            in_work.add_metric((port,), admission.in_work)
            waiting.add_metric((port,), admission.waiting)
            for limit in PortLimit:
                refused.add_metric((port, limit.value), admission.refused[limit])
        # Refused calls may be rounded to steps, but a reached limit must be visible from its first second on.
        seconds = CounterMetricFamily(
            self._seconds,
            "Seconds since the start in which a limit of a port refused calls; never in steps.",
            labels=("port", "limit"),
        )
        for (port, limit), count in self._full().items():
            seconds.add_metric((port, limit.value), count)
        yield from (in_work, waiting, refused, seconds)
