"""Devices without a network, through every randomizer, beside the truth."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.planning.plan import plan
from hubbub.planning.simulate.dataset import Dataset
from hubbub.planning.simulate.simulate import simulate, tally_of_dummies
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from support.samples import FEW, START

PRIVACY = Privacy(2.0, 1e-4, 16.0, dummies=150, large_delta=FEW)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("randomizer", ["krr", "unary"])
def test_a_simulated_round_is_near_the_truth_and_names_its_randomizer(randomizer: str) -> None:
    """Three estimates, each beyond eight standard errors with probability 4e-9 at most."""
    theme = Histogram("theme", ("dark", "light", "system"), randomizer=randomizer)
    chosen = plan(Draft("usage", Schedule(START, 3600, 60, 3), 500, PRIVACY, (theme,)))
    values = ["dark" if row % 4 else "light" for row in range(2400)]
    dataset, seen = Dataset("usage", (theme,), pa.table({"theme": values})), list[int]()
    document = simulate(chosen, dataset, seen.append)
    assert sum(seen) == document["devices"] == 2400
    (query,), (expected,), (certified,) = document["queries"], document["expected"], document["privacy"]["queries"]
    assert (query["kind"], query["state"], query["valid"]) == ("histogram", "published", 2400)
    assert {row["category"]: row["truth"] for row in query["estimates"]} == {"dark": 1800, "light": 600, "system": 0}
    assert all(abs(row["error_in_standard_errors"]) < 8 for row in query["estimates"])
    assert expected["randomizer"] == certified["mechanism"] == randomizer
    assert certified["dummies"] == 150
    assert document["privacy"]["round_total"]["epsilon_upper"] <= 2.0


def test_a_simulated_round_under_its_minimum_is_withheld() -> None:
    theme = Histogram("theme", ("dark", "light"))
    chosen = plan(
        Draft("usage", Schedule(START, 3600, 60, 3), 500, Privacy(2.0, 1e-4, 16.0, large_delta=FEW), (theme,))
    )
    dataset = Dataset("usage", (theme,), pa.table({"theme": ["dark"] * 499}))
    document = simulate(chosen, dataset, lambda _count: None)
    (query,) = document["queries"]
    assert (query["state"], query["valid"], query["estimates"]) == ("withheld", 499, [])
    # Nothing would be released, so there is no privacy to state.
    assert (document["released"], document["privacy"], document["minimum_reports"]) == (False, None, 500)


NOISE = NoiseLaw.of("geometric", Fraction(6065, 10000), 25)
THREE = Query(Histogram("theme", ("dark", "light", "system")), KRandomizedResponse(3, 2**31))
HASHED = Query(THREE.question, HashedResponse(3, 4, 2, 2**31))


@pytest.mark.parametrize("query", [THREE, HASHED], ids=["krr", "hashed"])
def test_noise_is_added_as_a_shuffler_draws_it(query: Query) -> None:
    noisy = replace(query, noise=NOISE)
    tally, added = tally_of_dummies(noisy, 999, np.random.default_rng(5).bytes)
    drawn = noisy.draw_noise(np.random.default_rng(5).bytes)
    assert (added, tally.valid, tally.invalid) == (sum(drawn), sum(drawn), 0)
    found = tally.counts if query is THREE else np.bincount(tally.counts, minlength=8)
    assert tuple(found.tolist()) == drawn
    plain, uniform = tally_of_dummies(query, 999, np.random.default_rng(5).bytes)
    assert (plain.valid, uniform) == (999, 999)


def test_a_simulated_round_beside_noise_is_near_the_truth() -> None:
    """The draws are seeded."""
    privacy = Privacy(2.0, 1e-4, 16.0, large_delta=FEW)
    theme = Histogram("theme", ("dark", "light", "system"))
    chosen = plan(Draft("usage", Schedule(START, 3600, 60, 3), 500, privacy, (theme,)))
    (planned,) = chosen.queries
    beside = replace(chosen, queries=(replace(planned, query=replace(planned.query, noise=NOISE)),))
    values = ["dark" if row % 4 else "light" for row in range(2400)]
    dataset = Dataset("usage", (theme,), pa.table({"theme": values}))
    document = simulate(beside, dataset, lambda _count: None, np.random.default_rng(5).bytes)
    (query,), (stated,) = document["queries"], document["privacy"]["queries"]
    assert (query["state"], query["valid"]) == ("published", 2400)
    assert (stated["mechanism"], stated["noise"]) == ("with-noise", NOISE.content())
    # Three draws around 25.
    assert 75 - 60 < stated["dummies"] < 75 + 60
    assert all(abs(row["error_in_standard_errors"]) < 8 for row in query["estimates"])
