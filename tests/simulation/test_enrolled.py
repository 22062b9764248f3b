"""The pipeline for enrolled devices, killed wherever they enroll, while strangers send whatever they like."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from simulation import operations as ops
from simulation.test_operations import MEMORY, PARTIES, STORY
from simulation.world import Simulation, simulate

from hubbub.protos.task.admission import ENROLLED

PLACES = [(party, point) for party, named in ops.ENROLLING.items() for point in named]


def run(operations: Iterable[ops.Operation], seed: int = 0) -> Simulation:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return simulate(Path(folder), operations, seed, PARTIES, admission=ENROLLED)


def test_the_story_comes_to_every_point_of_enrolling_and_strangers_to_nothing() -> None:
    simulation = run(STORY)
    for party, named in ops.ENROLLING.items():
        assert set(named) <= set(simulation.everybody[party].reached)
    assert simulation.model.answers["not_enrolled"] > 10
    assert set(simulation.model.held[0]) <= set(simulation.model.by_id)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("party", "point"), PLACES)
def test_killed_wherever_devices_enroll_each_has_one_submission(party: str, point: str) -> None:
    simulation = run([ops.Kill(party, point), *STORY])
    assert simulation.everybody[party].killed_at == [point]
    assert len(simulation.model.held[0]) >= 8
    tickets = simulation.model.answers
    assert tickets["ticket_redeemed"] == tickets["bad_ticket"] == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_to_enrolled_devices_services_and_model_agree(seed: int) -> None:
    simulation = run(ops.from_seed(seed, 40), seed)
    assert simulation.model.answers["ticket_redeemed"] == 0
