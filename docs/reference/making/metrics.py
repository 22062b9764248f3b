"""The page on metrics: every metric as the services export it, read from the collectors themselves."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from hubbub.analyzer.metrics import AnalyzerCollector, AnalyzerSnapshot, AnalyzerStage
from hubbub.protos.messages import RoundState
from hubbub.protos.records.batch import LeftOut
from hubbub.protos.records.results import AnalysisStage
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.shared_metrics import Disk, IncidentCollector, Metrics
from hubbub.service.observability.traces import NO_TRACES, SpanCollector
from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.transport.saturation import SaturationCollector
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.cluster.failover import leader_gauge
from hubbub.shuffler.cluster.standbys import standbys_gauge
from hubbub.shuffler.hop.metrics import HopCollector, HopSnapshot, HopStage
from hubbub.shuffler.metrics import ShufflerCollector, ShufflerSnapshot, ShufflerStage
from reference.making.page import Page, code, divided, section, sentence, table, wrapped
from reference.making.source import member_docs

_STAGES: Mapping[str, type[Enum]] = {"shuffler": ShufflerStage, "hop": HopStage, "analyzer": AnalyzerStage}

_UNITS: tuple[tuple[str, str], ...] = (
    ("_seconds", "seconds"),
    ("_seconds_total", "seconds"),
    ("_bytes", "bytes"),
    ("_epsilon_spent", "ε"),
    ("_epsilon_budget", "ε"),
)

PROCESS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "process_resident_memory_bytes": (
            "gauge",
            "bytes",
            "Memory of the process, without those that open envelopes and workers.",
        ),
        "process_virtual_memory_bytes": ("gauge", "bytes", "Address space of the process."),
        "process_cpu_seconds_total": ("counter", "seconds", "Processor time, user and system."),
        "process_start_time_seconds": ("gauge", "seconds", "When the process started, since 1970."),
        "process_open_fds": ("gauge", "", "Open file descriptors."),
        "process_max_fds": ("gauge", "", "The most file descriptors that it may open."),
    }
)
"""What the library shows of each process on Linux: type, unit and meaning."""

_WHO = (
    "`metrics_listen` opens an HTTP port that answers `GET /metrics`. On loopback it answers every caller of that "
    "machine, in clear. At any other address it speaks TLS with the service's certificate. It then answers only "
    "callers with a certificate of the authority and the common name `monitor` or `operator` (`hubbub certificate "
    "monitor` makes one)."
)
_NOTHING = (
    "No metric has a report, an answer, a key, an id or a device. No label comes from outside: tasks are those of the "
    '`tasks` setting, and what is sent to another task counts under `task="(unknown)"`. `task_id` is the first 12 '
    "digits, as in `hubbub status`. Counters of submissions and reports are read from the stores, so they go on after "
    "a restart."
)
_WATCHED = "[Alerts](alerts.md) has what to watch. `deploy/alerts/dashboard.json` shows these metrics in Grafana."
_STEPS = (
    "A number that each submission changes, and that is read every few seconds, shows when a person submitted. So the "
    "shuffler shows such numbers in steps of [`count_step`](settings.md#settings-of-the-shuffler), in metrics and "
    "`hubbub status` alike. With `count_step = 1` it shows everything, as `hubbub demo` and `LocalPipeline` do. A "
    "single submission changes nothing that is shown, unless it completes a step. With `count_step = 100`, 50 devices "
    "that are refused are not seen before the cut. The size of the store's files is what it is, for everybody who may "
    "read the folder."
)
_ROUNDED: Mapping[str, str] = MappingProxyType(
    {
        "submissions of a round that is OPEN": "Rounded down to a multiple of `count_step`; exact from the cut on. "
        "`hubbub status` also shows that the minimum is reached, in rounds that the operator may close.",
        "refusals by reason, and retries": "Rounded down likewise; a reason appears with its first step. Those of a "
        "round are exact from its cut on, as its signed records state them. What is refused later is added in steps.",
        "tickets redeemed (`hubbub keys`), calls timed and their seconds (`admit`, `open`, `store`), queues, open "
        "files": "Rounded down likewise; the seconds change with the count.",
        "bytes of the store, of its disk and of memory; processor time": "In steps of `count_step` times 64 KiB and "
        "0.1 s.",
        "rounds, their ages and steps, ε, incidents, how long certificates last": "As they are: no submission changes "
        "them.",
    }
)
"""What is shown rounded, and how."""


@dataclass(frozen=True)
class Described:
    """A metric as Prometheus names it: type, unit, labels and meaning."""

    name: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    meaning: str


def pages() -> list[Page]:
    """Return the page on metrics."""
    parts = [section(f"Metrics of the {service}", _rows(of_service(service))) for service in _STAGES]
    process = [Described(name, kind, unit, (), meaning) for name, (kind, unit, meaning) in PROCESS.items()]
    states = [
        ["`state` of the shuffler's rounds", ", ".join(code(state.shown) for state in RoundState)],
        ["`state` of the analyzer's rounds", _values(AnalysisStage)],
        ["`reason` of a refusal", "those of [refusals](refusals.md)"],
        ["`reason` of reports left out", _values(LeftOut)],
        ["`certificate`", "`own`, `authority`"],
    ]
    page = Page(
        "metrics",
        "Metrics",
        "What does each metric of a service count, and under which labels?",
        "every metric: type, labels, unit, meaning",
        (
            section(
                "",
                wrapped(_WHO),
                wrapped(_NOTHING),
                wrapped(_WATCHED),
            ),
            *parts,
            section("Metrics of every process", _rows(process)),
            section("Values of labels", table(("label", "values"), states)),
            section("Stages", table(("service", "stage", "is timed"), _stages())),
            section("Kinds of incidents", table(("kind", "means"), _meant(IncidentKind))),
            section("Limits of a port", table(("limit", "a call was refused because"), _meant(PortLimit))),
            section(
                "What is shown in steps", wrapped(_STEPS), table(("what", "is shown"), map(list, _ROUNDED.items()))
            ),
        ),
    )
    return divided(page)


def of_service(service: str) -> list[Described]:
    """Return the metrics of a service, in the order of their names."""
    return sorted((_described(family) for family in asyncio.run(_families(service))), key=lambda each: each.name)


async def _families(service: str) -> list[Any]:
    """Return every family of a service that has done nothing yet."""
    registry = CollectorRegistry()
    if service == "shuffler":
        leader_gauge(registry, 0)
        standbys_gauge(registry, lambda: (0, 0))
    metrics = Metrics(service, [str(stage.value) for stage in _STAGES[service]], registry)
    incidents = Incidents(lambda: 0.0)
    with tempfile.TemporaryDirectory() as folder:
        shared: list[Any] = [
            *metrics.registry.collect(),
            *Disk(service, Path(folder)).collect(),
            *IncidentCollector(service, incidents).collect(),
            *SpanCollector(service, NO_TRACES).collect(),
            *SaturationCollector(service, {}, dict).collect(),
            *_of_certificates(service),
        ]
    own = [*shared, *_of_collector(service)]
    return [family for family in own if family.name.startswith("hubbub_")]


def _of_certificates(service: str) -> Iterable[Any]:
    nothing_found: Any = SimpleNamespace(_role=service, _found={})
    return ReloadingCertificates.collect(nothing_found)


def _of_collector(service: str) -> Iterator[Any]:
    store: Any = SimpleNamespace(waiting=0)
    nothing: Any = None
    match service:
        case "shuffler":
            of_shuffler = ShufflerCollector({}, store, nothing, {}, lambda: 0.0)
            yield from of_shuffler._metrics(ShufflerSnapshot({}, [], {b"": Counter()}, {}, frozenset()))
        case "hop":
            yield from HopCollector({}, store, {}, {})._metrics(HopSnapshot({}, []))
        case _:
            of_analyzer = AnalyzerCollector({}, store, {}, (), {}, lambda: 0.0)
            yield from of_analyzer._metrics(AnalyzerSnapshot({}, [], (), {}))


def _described(family: Any) -> Described:
    name = {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(family.type, family.name)
    # Families that have counted nothing have no samples, but know their labels.
    known = [label for sample in family.samples for label in sample.labels] or list(getattr(family, "_labelnames", ()))
    unit = next((unit for end, unit in _UNITS if name.endswith(end)), "")
    return Described(name, family.type, unit, tuple(dict.fromkeys(known)), sentence(family.documentation))


def _rows(metrics: Iterable[Described]) -> list[str]:
    rows = [
        [code(each.name), each.kind, ", ".join(map(code, each.labels)), each.unit, each.meaning] for each in metrics
    ]
    return table(("metric", "type", "labels", "unit", "means"), rows)


def _values(kind: type[Enum]) -> str:
    return ", ".join(code(each.value) for each in kind)


def _meant(kind: type[Enum]) -> list[list[str]]:
    return [[code(value), text] for value, text in member_docs(kind).items()]


def _stages() -> list[list[str]]:
    return [[service, *row] for service, kind in _STAGES.items() for row in _meant(kind)]
