"""Names the spans of a round's trace, and what they may say. It has no span of a submission, and none before the cut.

A round has one trace: the ids of the trace and of its first span are hashes of the task's id and the round's number. So
all services of a deployment give their spans the same trace, also after a restart, and no service takes a trace's
context from another party or from a device.

`NoTraces` is the default, and costs nothing. `otlp.py` sends spans to a collector.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hubbub.protos.task.task import Task


class Step(StrEnum):
    """A span: a step of a round from the cut on."""

    ROUND = "round"
    """From the cut of a round to its end at the shuffler; the first span of its trace."""
    MIX = "mix"
    """The shuffler's mix of a round: all of its queries."""
    NOISE = "noise"
    """Drawing and sealing the reports that a shuffler adds; in `mix`, and in `hop`."""
    PERMUTE = "permute"
    """Permuting and signing; a hop opens its layer in it. In `mix`, and in `hop`."""
    RELEASE = "release"
    """The shuffler's delivery of a round, until the analyzer has counted all of it."""
    DELIVER = "deliver"
    """The delivery of one query's batch to the next party, with all its tries; in `release`, and in `hop`."""
    HOP = "hop"
    """A hop's work on one query's batch, until all behind it have counted the batch."""
    DECODE = "decode"
    """The analyzer opens, counts and charges one query's batch, and commits the counts."""
    CERTIFY = "certify"
    """The analyzer makes a round's certificate, and stores it."""
    ERASE = "erase"
    """The shuffler erases what is left of a round."""


INSIDE = frozenset({Step.NOISE, Step.PERMUTE, Step.DELIVER})
"""Steps of which each belongs to the step around it; all others belong to the round."""


class SpanCount(StrEnum):
    """A number that a span has, if the step succeeded. The log has it, and a certificate all but the tries."""

    REPORTS = "reports"
    """Reports of devices in the batch, or in each batch of the round."""
    DUMMIES = "dummies"
    """Reports that shufflers added to the batch up to there."""
    COUNTED = "counted"
    """Valid reports of devices that the analyzer counted."""
    TRIES = "tries"
    """How often a delivery was tried."""


@dataclass(frozen=True)
class TracedRound:
    """A round, as its spans name it."""

    task: str
    task_id: bytes
    number: int
    query: str = ""

    @classmethod
    def of(cls, task: Task, number: int, query: int | None = None) -> TracedRound:
        """Name a round of a task, or one query of it by its index."""
        return cls(task.name, task.id, number, "" if query is None else task.queries[query].name)

    @property
    def ids(self) -> tuple[int, int]:
        """The ids of the round's trace, and of its first span."""
        digest = hashlib.sha256(b"hubbub trace of a round\0" + self.task_id + self.number.to_bytes(8, "big")).digest()
        return int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")


class OpenSpan(Protocol):
    """A span that has begun, and ends with its block."""

    def note(self, counts: Mapping[SpanCount, int]) -> None:
        """Add counts, once the step succeeded."""

    def drop(self) -> None:
        """Do not send this span: the step goes on at another time."""


class Traces(Protocol):
    """Where the spans of a service go."""

    @property
    def sent(self) -> int:
        """How many spans the collector took."""

    @property
    def lost(self) -> int:
        """How many spans were lost."""

    def span(self, step: Step, of: TracedRound) -> AbstractContextManager[OpenSpan]:
        """Trace the block as a step of a round.

        If the block raises, the span has the kind of the error and none of its words. If it is cancelled, as when the
        service stops, nothing is sent: the next start takes the step anew.
        """


class _NoSpan:
    """A span that goes nowhere."""

    def note(self, counts: Mapping[SpanCount, int]) -> None:
        """Add nothing."""

    def drop(self) -> None:
        """Drop nothing."""


class NoTraces:
    """The spans of a service without a collector go nowhere (`Traces`)."""

    sent = 0
    lost = 0

    @contextlib.contextmanager
    def span(self, step: Step, of: TracedRound) -> Iterator[OpenSpan]:  # noqa: ARG002 - as the protocol has it
        yield _NoSpan()


NO_TRACES = NoTraces()
"""The default where traces can be given."""


class SpanCollector(Collector):
    """How many spans a collector took, and how many were lost."""

    def __init__(self, service: str, traces: Traces) -> None:
        self._name = f"hubbub_{service}_spans"
        self._traces = traces

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return both as they are now."""
        found = CounterMetricFamily(
            self._name,
            "Spans of traces that ended since the start: sent to the collector, and lost because it was away, slow or "
            "refused them, all or some.",
            labels=("result",),
        )
        found.add_metric(("sent",), self._traces.sent)
        found.add_metric(("lost",), self._traces.lost)
        yield found
