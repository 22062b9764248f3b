"""Estimates the machines that a planned task needs for a number of submissions a day, and what is exceeded first.

All of it is multiplication. The costs of a step were measured on one machine (`MEASURED`, or the reader's own
`bench.json`). Everything beyond one machine is extrapolated from that and was never run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hubbub.planning.planned import HELD_BYTES, Plan
from hubbub.protos.errors import UsageError
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.schedule import DAY
from hubbub.protos.task.task import MAXIMUM_REPORTS
from hubbub.protos.transport.channels import SUBMISSION_OVERHEAD

HOUR = 3600
MONTH_DAYS = 30

MEMORY_BYTES = 59
"""Memory that a service needs for a submission of an open round, measured (docs/reference/port-limits.md)."""

MEMORY_LIMIT = 2048 * 2**20
"""The default of `limits.memory_mebibytes`."""

USUAL_PEAK = 3.0
"""The busiest second's rate that is assumed, as a multiple of the average."""

MOST_SUBMISSIONS = 1e15
MOST_PRICE = 1e9
"""The largest values of the options."""

MIXED = 1_000_000
"""Reports of the rows `mix` and `estimate`."""


@dataclass(frozen=True)
class Costs:
    """What a machine did in `make bench`: submissions and envelopes a second on all its cores, and its cores.

    The machine also made the load, so a service alone needs less than these figures.
    """

    cores: int
    single: float
    """Submissions a second, one a call (row `submit`)."""
    batched: float
    """Submissions a second, a hundred a call (row `submit_batch`)."""
    mixed: float
    """Reports a second of the cut, the permutation and the release of a list, on one core (row `mix`)."""
    opened: float
    """Envelopes a second that the analyzer opens and counts (row `open_krr`)."""


MEASURED = Costs(cores=2, single=4_700.0, batched=37_000.0, mixed=MIXED / 0.65, opened=50_000.0)
"""Two cores of a virtual machine, whose OpenSSL opens 54,000 envelopes of X25519 a second on both.

docs/howto/scale.md states the same numbers, with the command of each, and what follows from them; a test compares."""

_ROWS = {"single": "submit", "batched": "submit_batch", "mixed": "mix", "opened": "open_krr"}


def read_costs(path: Path) -> Costs:
    """Return the costs in a `bench.json`.

    Raises:
        UsageError: if it is not one, or lacks a row.
        OSError: if it cannot be read.
    """
    try:
        content = read_json(path.read_bytes())
        values = {row["name"]: float(row["value"]) for row in content["rows"]}
        costs = Costs(
            cores=int(content["cores"]),
            single=values[_ROWS["single"]],
            batched=values[_ROWS["batched"]],
            mixed=MIXED / values[_ROWS["mixed"]],
            opened=values[_ROWS["opened"]],
        )
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        wanted = ", ".join(sorted(_ROWS.values()))
        raise UsageError(
            f"--costs {path} is not a bench.json with cores and the rows {wanted}: {error}; make one with `make bench`"
        ) from error
    if not all(0 < value < float("inf") for value in asdict(costs).values()):
        raise UsageError(f"--costs {path}: a row is not above 0; make the file again with `make bench`")
    return costs


@dataclass(frozen=True)
class Prices:
    """The prices of a core for an hour and of a gigabyte for a month, in any currency; None if not given."""

    core_hour: float | None = None
    gigabyte_month: float | None = None


@dataclass(frozen=True)
class CapacityLimit:
    """A limit of one machine, as it was measured, that is exceeded, with a remedy."""

    name: str
    asked: float
    has: float
    remedy: str


@dataclass(frozen=True)
class Capacity:
    """The needs of a number of submissions a day. Rates are per second; core-hours, bytes and rounds per day."""

    submissions: float
    rounds: float
    average: float
    peak: float
    submission_bytes: int
    peak_bytes: float
    single_cores: float
    batched_cores: float
    round_reports: float
    round_disk_bytes: float
    round_memory_bytes: float
    mix_seconds: float
    mix_core_hours: float
    open_seconds: float
    open_core_hours: float
    limits: tuple[CapacityLimit, ...]
    month: float | None
    """The price of cores and disk for `MONTH_DAYS` days, with the cores for the peak of single calls paid all day."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"limits": [asdict(each) for each in self.limits]}


def capacity_of(plan: Plan, submissions: float, peak: float, costs: Costs, prices: Prices) -> Capacity:
    """Return what a task needs at so many submissions a day; the busiest second has `peak` times the mean rate."""
    length, queries, inner = plan.draft.schedule.length, len(plan.queries), sum(plan.inner_bytes)
    average, reports = submissions / DAY, submissions * length / DAY
    single, batched = costs.cores * peak * average / costs.single, costs.cores * peak * average / costs.batched
    mix, opened = reports * queries / costs.mixed, reports * queries / costs.opened
    mix_hours, open_hours = mix / HOUR * DAY / length, opened * costs.cores / HOUR * DAY / length
    disk = reports * 2 * (inner + HELD_BYTES)
    return Capacity(
        submissions=submissions,
        rounds=DAY / length,
        average=average,
        peak=peak * average,
        submission_bytes=plan.submission_bytes + SUBMISSION_OVERHEAD,
        peak_bytes=peak * average * (plan.submission_bytes + SUBMISSION_OVERHEAD),
        single_cores=single,
        batched_cores=batched,
        round_reports=reports,
        round_disk_bytes=disk,
        round_memory_bytes=reports * MEMORY_BYTES,
        mix_seconds=mix,
        mix_core_hours=mix_hours,
        open_seconds=opened,
        open_core_hours=open_hours,
        limits=_limits(plan, peak * average, reports, mix, opened, costs),
        month=_month(24 * single + mix_hours + open_hours, disk, prices),
    )


def _limits(
    plan: Plan, peak: float, reports: float, mix: float, opened: float, costs: Costs
) -> tuple[CapacityLimit, ...]:
    """Return the limits of one machine that are exceeded, the most exceeded first."""
    length, most = plan.draft.schedule.length, plan.draft.most_reports
    gateways = "let gateways send many submissions in a call"
    another = "split the people among several tasks, each with its own shuffler"
    shorter = "use shorter rounds, or fewer people in a round"
    full = "set maximum_reports in the task" if reports <= MAXIMUM_REPORTS else shorter
    found = [
        CapacityLimit("submissions a second, one a call", peak, costs.single, gateways),
        CapacityLimit("submissions a second, a hundred a call", peak, costs.batched, another),
        CapacityLimit("reports of a round that the task takes", reports, most, full),
        CapacityLimit(
            "memory for a round's ids at the shuffler (bytes)",
            reports * MEMORY_BYTES,
            MEMORY_LIMIT,
            "raise limits.memory_mebibytes, or use shorter rounds",
        ),
        CapacityLimit("seconds to mix a round, of its length", mix, length, shorter),
        CapacityLimit(
            "seconds to open and count a round, of its length", opened, length, f"{shorter}, or on more cores"
        ),
    ]
    return tuple(sorted((each for each in found if each.asked > each.has), key=lambda each: -each.asked / each.has))


def _month(core_hours: float, disk: float, prices: Prices) -> float | None:
    if prices.core_hour is None and prices.gigabyte_month is None:
        return None
    cores = MONTH_DAYS * core_hours * (prices.core_hour or 0.0)
    return cores + disk / 1e9 * (prices.gigabyte_month or 0.0)


@dataclass(frozen=True)
class CapacityRequest:
    """A capacity question: submissions a day, the peak as a multiple of the average, costs and prices."""

    submissions: float
    peak: float
    costs: Costs
    prices: Prices

    @classmethod
    def asked(
        cls,
        capacity: float | None,
        peak: float | None,
        costs: Path | None,
        core_hour: float | None,
        gigabyte_month: float | None,
    ) -> CapacityRequest | None:
        """Return the question of `hubbub plan --capacity`, checked; None if it is not asked.

        Raises:
            UsageError: if a number is not within its limits, or is given without `--capacity`.
        """
        if capacity is None:
            about = {"--peak": peak, "--costs": costs, "--core-hour": core_hour, "--gigabyte-month": gigabyte_month}
            for name in (name for name, value in about.items() if value is not None):
                raise UsageError(f"{name} needs --capacity; add --capacity, or leave {name} out")
            return None
        of = MEASURED if costs is None else read_costs(costs)
        busiest = USUAL_PEAK if peak is None else peak
        return cls(capacity, busiest, of, Prices(core_hour, gigabyte_month)).checked()

    def checked(self) -> CapacityRequest:
        """Return it, if its numbers are within their limits.

        Raises:
            UsageError: if a number is not; the message names it.
        """
        _check("--capacity", self.submissions, 1.0, MOST_SUBMISSIONS)
        _check("--peak", self.peak, 1.0, float(DAY))
        for option, price in (("--core-hour", self.prices.core_hour), ("--gigabyte-month", self.prices.gigabyte_month)):
            if price is not None:
                _check(option, price, 0.0, MOST_PRICE)
        return self

    def document(self, plan: Plan) -> dict[str, Any]:
        """Return the capacity as JSON values, with the costs that it was computed from."""
        return self.of(plan).as_json() | {"costs": asdict(self.costs), "measured_suite": DEFAULT.name}

    def of(self, plan: Plan) -> Capacity:
        """Return the capacity that the plan needs."""
        return capacity_of(plan, self.submissions, self.peak, self.costs, self.prices)


def _check(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(f"{option} {value:g}: give a number from {least:g} to {most:g}")
