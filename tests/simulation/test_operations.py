"""Whatever happens to it, in whatever order, services and model agree.

A run that failed is run again from its seed: `replay(seed, count)` below is all there is to it. Hypothesis prints the
operations themselves, which `simulate` takes as they are.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import operations as ops
from simulation.devices import MISDEEDS
from simulation.world import Simulation, simulate

from support.samples import Parties
from support.thoroughness import spread, thinned, usually

PARTIES = Parties.generate()
MEMORY = Path("/dev/shm")  # noqa: S108 - nothing here has to outlive the test
"""Where files are quick; the operating system's own place where there is no such folder."""

STORY = (
    *(ops.Submit(number, carrier, 42.25) for number, carrier in enumerate(("AA", "B6", "UA", "AA", "B6"))),
    ops.SubmitMany((0, 1, 2), 2),
    ops.Start("analyzer"),
    ops.Start("shuffler"),
    *(ops.Misbehave(kind, 7) for kind in MISDEEDS),
    ops.Resend(0),
    ops.Start("shuffler"),
    ops.Wait(30.0),
    ops.Close(),
    ops.Wait(30.0),
    ops.Restart("analyzer"),
    ops.Restart("shuffler"),
    ops.Wait(600.0),
    ops.Submit(0, "AA", None),
    ops.Submit(1, "AA", 0.0),
    ops.Misbehave("replay", 0),
    ops.Wait(700.0),
    ops.Resend(0),
    ops.Restart("analyzer"),
    ops.Restart("shuffler"),
)
"""A round that is released and one under its minimum, and everything that can be sent to them."""


def run(operations: Iterable[ops.Operation], seed: int = 0) -> Simulation:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return simulate(Path(folder), operations, seed, PARTIES)


def replay(seed: int, count: int) -> Simulation:
    return run(ops.from_seed(seed, count), seed)


def outcome(simulation: Simulation) -> tuple[Counter[str], dict[str, Counter[str]], dict[int, int]]:
    """What can be compared between two runs: sealed bytes are never the same."""
    held = {number: len(ids) for number, ids in simulation.model.held.items()}
    return simulation.model.answers, {name: each.reached for name, each in simulation.everybody.items()}, held


def test_without_faults_everyone_is_acknowledged_and_counted() -> None:
    simulation = run([*(ops.Submit(number, "UA", 15.5) for number in range(6)), ops.SubmitMany((1, 2, 3), 2)])
    assert (len(simulation.model.held[0]), simulation.model.answers) == (9, {"receipt": 9})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", range(8))
def test_whatever_happens_services_and_model_agree(batch: int) -> None:
    runs = [replay(seed, 40) for seed in range(8 * batch, 8 * batch + 8)]
    assert sum(run.model.answers["receipt"] for run in runs) > 20


# The same for a shorter time: `test_whatever_happens_services_and_model_agree`.
@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", spread(range(20), 5))
def test_whatever_happens_for_long_services_and_model_agree(batch: int) -> None:
    runs = [replay(seed, 80) for seed in range(1000 + 50 * batch, 1050 + 50 * batch)]
    assert sum(run.model.answers["receipt"] for run in runs) > 300


@st.composite
def operations(draw: st.DrawFn) -> ops.Operation:
    return ops.draw(lambda limit: draw(st.integers(0, limit - 1)))


@given(st.lists(operations(), min_size=5, max_size=40))
@settings(max_examples=usually(8, 30))
def test_no_list_of_operations_makes_services_and_model_disagree(happening: list[ops.Operation]) -> None:
    assert run(happening).shuffler.reached["after COMMIT"] > 0


def test_a_run_is_the_same_from_the_same_seed() -> None:
    assert outcome(replay(5, 60)) == outcome(replay(5, 60))
    assert outcome(replay(5, 60)) != outcome(replay(6, 60))


PLACES = [("device 0" if party == "device" else party, point) for party, named in ops.POINTS.items() for point in named]


def test_the_story_comes_to_every_point_and_no_write_or_call_is_without_one() -> None:
    everybody = run(STORY).everybody
    for party, named in ops.POINTS.items():
        reached = everybody["device 0" if party == "device" else party].reached
        assert set(named) <= set(reached)
        starting = {f"{when} INSERT {table}" for when in ("before", "after") for table in ("task", "master")}
        assert set(reached) - set(named) - starting == set()


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("party", "point"), PLACES)
def test_killed_at_any_point_nothing_is_lost_and_nothing_counts_twice(party: str, point: str) -> None:
    simulation = run([ops.Kill(party, point), *STORY])
    assert simulation.everybody[party].killed_at == [point]
    assert len(simulation.model.held[0]) >= 8


@pytest.mark.parametrize(("party", "point"), thinned(PLACES, 6))
def test_killed_at_any_time_at_any_point_nothing_is_lost_and_nothing_counts_twice(party: str, point: str) -> None:
    # Services start before the first operation: what they come to until then is not counted.
    times = run([ops.Kill(party, point, 10**6), *STORY]).everybody[party].passed
    assert 0 < times < 200
    occurrences = spread(range(2, times + 1), 2)
    runs = [run([ops.Kill(party, point, occurrence), *STORY]) for occurrence in occurrences]
    assert [simulation.everybody[party].killed_at for simulation in runs] == [[point]] * len(occurrences)
