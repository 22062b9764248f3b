"""Rates, bytes and hours are products that are made again here, and what breaks first comes first."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.planning.capacity import MEASURED, MIXED, Capacity, CapacityRequest, Costs, Prices, capacity_of, read_costs
from hubbub.planning.plan import plan
from hubbub.planning.planned import Plan
from hubbub.protos.errors import UsageError
from hubbub.protos.task.draft import read_draft
from hubbub.protos.transport.channels import SUBMISSION_OVERHEAD
from support.source_tree import ROOT

pytestmark = pytest.mark.usefixtures("composed_once")

TASK = """
[task]
name = "growing"
start = 2096-01-01T00:00:00Z
length = "{length}"
grace = "10m"
rounds = 3
minimum_reports = 1000
[privacy]
epsilon = 1.0
delta = 1e-6
[[query]]
name = "theme"
kind = "histogram"
categories = ["dark", "light"]
[[query]]
name = "size"
kind = "histogram"
categories = ["small", "large"]
"""
PAGE = (ROOT / "docs" / "howto" / "scale.md").read_text()
COSTS = Costs(cores=4, single=1000.0, batched=10_000.0, mixed=1e6, opened=20_000.0)


def planned(length: str = "24h") -> Plan:
    return plan(read_draft(TASK.format(length=length)))


def of(submissions: float, length: str = "24h", prices: Prices = Prices(), peak: float = 3.0) -> Capacity:  # noqa: B008
    return capacity_of(planned(length), submissions, peak, COSTS, prices)


def test_rates_bytes_and_cores_are_products() -> None:
    found = of(86_400_000.0)
    assert (found.average, found.peak) == (1000.0, 3000.0)
    assert found.submission_bytes == planned().submission_bytes + SUBMISSION_OVERHEAD
    assert found.peak_bytes == 3000.0 * found.submission_bytes
    assert math.isclose(found.single_cores, 4 * 3000 / 1000)
    assert math.isclose(found.batched_cores, 4 * 3000 / 10_000)


def test_the_page_on_scale_states_the_costs_that_plan_computes_with() -> None:
    """One source: a row of `make bench` that is measured anew is changed in both, or this fails."""
    steps = PAGE[PAGE.index("## What a step costs") : PAGE.index("## The arithmetic")]
    stated = [float(each.replace(",", "")) for each in re.findall(r"([0-9,]+)/s by gRPC, [0-9,]+/s by HTTPS", steps)]
    assert stated == [MEASURED.single, MEASURED.batched]
    assert re.findall(r"([0-9.]+) s for 10⁶ reports, on one core", steps) == [f"{MIXED / MEASURED.mixed:g}"]
    assert f"| {MEASURED.opened:,.0f}/s on two cores |" in steps


def test_the_table_of_the_page_on_scale_is_what_plan_computes() -> None:
    """Each number is rounded to two digits, or to the whole one."""
    task = planned()
    found = [capacity_of(task, each, 3.0, MEASURED, Prices()) for each in (1e4, 1e6, 1e8, 1e9)]
    computed = {
        "at the peak, a second": [each.peak for each in found],
        "cores at the peak, one a call": [each.single_cores for each in found],
        "cores at the peak, a hundred a call": [each.batched_cores for each in found],
        "bandwidth at the peak": [each.peak_bytes for each in found],
        "memory for a round's ids": [each.round_memory_bytes for each in found],
        "disk while a round is mixed": [each.round_disk_bytes for each in found],
        "to mix a round": [each.mix_seconds for each in found],
        "to open and count a round, two cores": [each.open_seconds for each in found],
    }
    table = PAGE[PAGE.index("| submissions a day | 10⁴ |") :].partition("\n\n")[0].splitlines()[2:]
    rows = {name.strip(): cells for _, name, *cells, _ in (line.split("|") for line in table)}
    assert rows.keys() == computed.keys()
    for name, cells in rows.items():
        for cell, exact in zip(cells, computed[name], strict=True):
            number, _, unit = cell.strip().partition(" ")
            value = float(number.replace(",", ""))
            # Of two digits, such as 1.0 to 1.05: 5 %; of one digit, such as 0.01 or 3, more.
            assert value * UNITS[unit] == pytest.approx(exact, rel=0.05 if len(number.strip("0.")) > 1 else 0.35), name


UNITS = {"": 1, "s": 1, "min": 60, "h": 3600, "kB/s": 1e3, "MB/s": 1e6, "MB": 1e6, "GB": 1e9}


def test_rounds_share_a_day() -> None:
    whole, hourly = of(86_400_000.0), of(86_400_000.0, "1h")
    assert (whole.rounds, hourly.rounds) == (1.0, 24.0)
    assert math.isclose(whole.round_reports, 24 * hourly.round_reports)
    assert math.isclose(whole.mix_seconds, 2 * 86_400_000 / 1e6)
    assert math.isclose(whole.open_seconds, 2 * 86_400_000 / 20_000)
    # A day costs as many hours however it is cut into rounds.
    for name in ("mix_core_hours", "open_core_hours", "single_cores", "peak_bytes"):
        assert math.isclose(getattr(whole, name), getattr(hourly, name))
    assert math.isclose(whole.open_core_hours, 4 * whole.open_seconds / 3600)


def test_money_is_asked_for_and_paid_for_the_peak() -> None:
    assert of(86_400.0).month is None
    found = of(86_400_000.0, prices=Prices(core_hour=0.5))
    hours = 24 * found.single_cores + found.mix_core_hours + found.open_core_hours
    assert found.month is not None
    assert math.isclose(found.month, 30 * 0.5 * hours)
    disk = of(86_400_000.0, prices=Prices(gigabyte_month=2.0)).month
    assert disk is not None
    assert math.isclose(disk, 2 * found.round_disk_bytes / 1e9)


def test_what_is_exceeded_most_comes_first_and_a_small_fleet_exceeds_nothing() -> None:
    assert of(100_000.0).limits == ()
    found = of(864_000_000.0).limits
    shares = [each.asked / each.has for each in found]
    assert shares == sorted(shares, reverse=True)
    assert all(share > 1 for share in shares)
    names = [each.name for each in found]
    assert names[0] == "reports of a round that the task takes"
    assert "submissions a second, one a call" in names
    assert "submissions a second, a hundred a call" in names


def test_a_round_that_takes_longer_than_it_lasts_is_a_limit() -> None:
    too_long = "seconds to open and count a round, of its length"
    assert too_long not in [each["name"] for each in of(86_400_000.0).as_json()["limits"]]
    assert too_long in [each.name for each in of(8_640_000_000.0).limits]


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(content))
    return path


ROWS = [
    {"name": "submit", "value": 2000.0},
    {"name": "submit_batch", "value": 20_000},
    {"name": "mix", "value": 0.5},
    {"name": "open_krr", "value": 30_000.0},
]


def test_costs_are_those_of_a_bench(tmp_path: Path) -> None:
    path = written(tmp_path, {"cores": 8, "rows": [*ROWS, {"name": "other", "value": 1}], "comparisons": []})
    assert read_costs(path) == Costs(8, 2000.0, 20_000.0, 2e6, 30_000.0)


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        {"rows": ROWS},
        {"cores": 2, "rows": ROWS[1:]},
        {"cores": 2, "rows": [*ROWS[:2], {"name": "mix", "value": 0}, ROWS[3]]},
        {"cores": 0, "rows": ROWS},
        {"cores": 2, "rows": [{"name": "submit", "value": -1}, *ROWS[1:]]},
        {"cores": 2, "rows": [{"name": "submit", "value": float("nan")}, *ROWS[1:]]},
    ],
)
def test_what_is_no_bench_is_bad_use(tmp_path: Path, content: object) -> None:
    with pytest.raises(UsageError, match=r"--costs .*bench\.json"):
        read_costs(written(tmp_path, content))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"submissions": 0.5}, "--capacity 0.5: give a number from 1 to"),
        ({"submissions": float("nan")}, "--capacity nan"),
        ({"peak": 0.5}, "--peak 0.5: give a number from 1 to 86400"),
        ({"prices": Prices(core_hour=-1.0)}, "--core-hour -1: give a number from 0"),
        ({"prices": Prices(gigabyte_month=float("inf"))}, "--gigabyte-month inf"),
    ],
)
def test_numbers_that_nobody_can_multiply_with_are_bad_use(changed: dict[str, object], says: str) -> None:
    asked = CapacityRequest(1000.0, 3.0, MEASURED, Prices())
    assert asked.checked() == asked
    with pytest.raises(UsageError, match=says):
        replace(asked, **changed).checked()  # type: ignore[arg-type]
