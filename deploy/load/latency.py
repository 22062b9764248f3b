"""Computes percentiles and counts of a load's calls, by pure functions of the rows that processes wrote.

Percentiles are exact: all latencies are kept, and the p-th is the smallest that p % of them do not exceed (nearest
rank).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]
"""A row a call: when it was due (seconds from the step's beginning), how late it was sent, how long it took from when
it was due until its answer (seconds), how many devices it was for, and how many of them were acknowledged."""

DUE, LATE, TOOK, DEVICES, ACKNOWLEDGED = range(5)
COLUMNS = 5

PERCENTILES = (50.0, 90.0, 99.0, 99.9)

LATE_SECONDS = 0.02
MOST_LATE = 0.1
"""Calls that the load itself sent later than so many seconds, and the share of them from which on the figures say
more about the load than about the service."""


@dataclass
class LoadCounts:
    """The outcomes of devices; `retries` counts calls that were refused with a wait, by reason."""

    refused: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    unsent: int = 0
    """Devices whose call was due while this process had as many calls on their way as it may."""

    def add(self, other: LoadCounts) -> None:
        """Add the counts of another process."""
        self.refused.update(other.refused)
        self.retries.update(other.retries)
        self.messages = other.messages | self.messages
        self.unsent += other.unsent


@dataclass(frozen=True)
class StepResult:
    """A finished step: how long calls were due (seconds), rows of all calls, counts, and cores at work."""

    offered: float
    seconds: float
    rows: Rows
    counts: LoadCounts
    cores: float

    @property
    def devices(self) -> int:
        """Devices whose calls were sent."""
        return int(self.rows[:, DEVICES].sum())

    @property
    def acknowledged(self) -> int:
        """Devices whose submission the shuffler has on disk."""
        return int(self.rows[:, ACKNOWLEDGED].sum())

    @property
    def throughput(self) -> float:
        """Acknowledged devices a second, from the first moment until the last answer, or the end of the step."""
        ends = self.rows[:, DUE] + self.rows[:, TOOK]
        lasted = max(self.seconds, float(ends.max()) if len(ends) else 0.0)
        return self.acknowledged / lasted

    @property
    def late_share(self) -> float:
        """The share of calls that were sent more than `LATE_SECONDS` after they were due."""
        return float((self.rows[:, LATE] > LATE_SECONDS).mean()) if len(self.rows) else 0.0

    @property
    def is_of_the_service(self) -> bool:
        """Whether the figures describe the service, and not a load generator that was too slow."""
        return self.late_share <= MOST_LATE and not self.counts.unsent

    def latencies(self) -> dict[str, float]:
        """Return percentiles and maximum of the latencies of acknowledged devices, in seconds; empty without any."""
        return percentiles(np.repeat(self.rows[:, TOOK], self.rows[:, ACKNOWLEDGED].astype(np.int64)))

    def each_second(self) -> list[dict[str, float | int | None]]:
        """Return devices that were due, those acknowledged of them, and their p50 and p99 (seconds), for each second.

        `second` is when the calls were due, so the cost of a standstill appears at its time.
        """
        found: list[dict[str, float | int | None]] = []
        second = np.floor(self.rows[:, DUE]).astype(np.int64)
        for number in range(math.ceil(self.seconds)):
            rows = self.rows[second == number]
            some = percentiles(np.repeat(rows[:, TOOK], rows[:, ACKNOWLEDGED].astype(np.int64)))
            devices, acknowledged = int(rows[:, DEVICES].sum()), int(rows[:, ACKNOWLEDGED].sum())
            found.append(
                {
                    "second": number,
                    "devices": devices,
                    "acknowledged": acknowledged,
                    "p50": some.get("p50"),
                    "p99": some.get("p99"),
                }
            )
        return found


def percentiles(values: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the `PERCENTILES` of values, by the nearest rank, and their maximum; empty for no values."""
    if not len(values):
        return {}
    ordered = np.sort(values)
    ranks = {f"p{each:g}": max(1, math.ceil(each / 100 * len(ordered))) for each in PERCENTILES}
    return {name: float(ordered[rank - 1]) for name, rank in ranks.items()} | {"max": float(ordered[-1])}


def document(result: StepResult) -> dict[str, object]:
    """Return a step as JSON has it; latencies in milliseconds."""
    counts = result.counts
    return {
        "offered_per_second": round(result.offered, 3),
        "seconds": round(result.seconds, 3),
        "devices": result.devices,
        "acknowledged": result.acknowledged,
        "acknowledged_per_second": round(result.throughput, 3),
        "latency_ms": {name: round(1000 * value, 3) for name, value in result.latencies().items()},
        "refused": dict(sorted(counts.refused.items())),
        "retries": dict(sorted(counts.retries.items())),
        "messages": counts.messages,
        "load": {
            "cores": round(result.cores, 3),
            "late_share": round(result.late_share, 4),
            "unsent": counts.unsent,
            "figures_are_of_the_service": result.is_of_the_service,
        },
        "each_second": [_in_milliseconds(each) for each in result.each_second()],
    }


def _in_milliseconds(second: dict[str, float | int | None]) -> dict[str, float | int | None]:
    renamed: dict[str, float | int | None] = {
        name: value for name, value in second.items() if name not in ("p50", "p99")
    }
    for name in ("p50", "p99"):
        value = second[name]
        renamed[f"{name}_ms"] = None if value is None else round(1000 * value, 3)
    return renamed
