"""Counts over time are unbiased at every period, for every strategy, and as noisy as their formula says.

Devices send through the functions that they really run. n = 20,000 people, 3,000 in a usual run, over d = 64 periods
with k = 4 changes.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hubbub.accountant.mechanisms import NoiseLaw, TreeNodes
from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled, Vector
from hubbub.accountant.mechanisms.noise_law import ChainNoise
from hubbub.queries.estimation.estimates import Row
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.over_rounds import Batch, RoundContext
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.query import Query
from hubbub.queries.randomizers.randomizer import Imitable
from support.thoroughness import usually

PERIODS, CHANGES, PEOPLE = 64, 4, usually(3_000, 20_000)
HORIZON = Horizon(PERIODS, CHANGES)
SENDINGS: Mapping[str, Any] = {
    "direct": SendingStates(2, 2**31, HORIZON),
    "vector": SendingVector(Vector.best(HORIZON, 4.0), PEOPLE),
    "sampled": SendingOneChange(Sampled(HORIZON, int(math.exp(4.0) * 2**32)), PEOPLE),
    "tree": SendingNodes(TreeNodes(PERIODS, CHANGES, 2**30, 2**27)),
}


LAW = NoiseLaw("gaussian", 2000 * 2**32, 180)
NOISY = ("direct", "tree")
"""The strategies that the shuffler can add noise to. Theirs is of the size of the reports' own."""


def states_of(people: int) -> np.ndarray[Any, Any]:
    """A stream a person, shape (people, periods): up to four changes at places that depend on the person."""
    draws = np.random.default_rng(7)
    places = np.sort(draws.integers(0, 2 * PERIODS, size=(people, CHANGES)), axis=1)
    return (places[:, :, None] <= np.arange(PERIODS)).sum(axis=1) % 2 == 1


def counted(query: Query, states: np.ndarray[Any, Any], random: Any) -> dict[int, Batch]:
    """The tallies of all rounds: every device remembers from round to round."""
    symbols = np.empty(states.shape, dtype=">u4")
    for person, stream in enumerate(states.tolist()):
        memory = None
        for number, state in enumerate(stream):
            encoded = query.encode_at(state, RoundContext(number, memory), random)
            memory = encoded.memory
            report = query.randomize(encoded.symbol, random)
            symbols[person, number] = int.from_bytes(report, "big")
    return {number: batch_of(query, symbols[:, number].tobytes(), random) for number in range(PERIODS)}


def batch_of(query: Query, reports: bytes, random: Any) -> Batch:
    """The batch of a round, with what the shuffler draws if the query has noise."""
    tally, drawn = query.randomizer.tally(reports), query.draw_noise(random)
    if not drawn:
        return Batch(tally)
    assert isinstance(query.randomizer, Imitable)
    return Batch(tally + query.randomizer.tally(query.randomizer.reports_of(drawn)), sum(drawn))


@pytest.mark.sampled("tree")
@pytest.mark.parametrize("way", NOISY)
def test_noise_that_is_drawn_has_the_stated_error(way: str) -> None:
    """Nobody takes part: a count is the noise alone, in 4,000 draws of two rounds."""
    query = Query(Longitudinal("active", CHANGES, way, periods=PERIODS), SENDINGS[way], LAW)
    random, found = buffered(), []
    for _ in range(4000):
        batches = {place: batch_of(query, b"", random) for place in (3, 5)}
        found.append(query.estimates_over(5, batches).rows[0].estimate)
    values = np.array([each.value for each in found])
    error = math.sqrt(SENDINGS[way].noise_variance(6, ChainNoise(LAW)))
    # With nobody there the estimated number who changed is clipped to 0, so the stated error is the noise's.
    assert [each.standard_error for each in found] == pytest.approx([error] * len(found))
    # A mean passes 5.5 of its errors with a chance of 4·10⁻⁸, that of the squares with some times more.
    assert abs(values.mean()) < 5.5 * error / math.sqrt(len(values))
    assert abs((values**2).mean() / error**2 - 1) < 5.5 * math.sqrt(2 / len(values))


def test_noise_of_another_law_is_noticed() -> None:
    """Power: half as many again of the variance is off by fifteen of the errors above."""
    drawn = Query(Longitudinal("active", CHANGES, "tree", periods=PERIODS), SENDINGS["tree"], LAW)
    wider = replace(drawn, noise=NoiseLaw("gaussian", 3000 * 2**32, LAW.reach))
    random = buffered()
    batches = [batch_of(wider, b"", random) for _ in range(4000)]
    values = np.array([drawn.estimates_over(3, {3: each}).rows[0].estimate.value for each in batches])  # type: ignore[union-attr]
    assert (values**2).mean() / SENDINGS["tree"].noise_variance(4, ChainNoise(LAW)) - 1 > 5.5 * math.sqrt(
        2 / len(values)
    )


def buffered() -> Any:
    """The operating system's randomness, asked for by the megabyte: most of a device's time goes into asking."""
    pool, place = b"", 0

    def random(count: int) -> bytes:
        nonlocal pool, place
        if place + count > len(pool):
            pool, place = os.urandom(1 << 20), 0
        place += count
        return pool[place - count : place]

    return random


@pytest.mark.sampled("sampled", "tree-noise")
@pytest.mark.parametrize(("way", "noise"), [*((way, None) for way in SENDINGS), *((way, LAW) for way in NOISY)])
def test_every_count_is_unbiased_and_as_noisy_as_its_formula(way: str, noise: NoiseLaw | None) -> None:
    query = Query(Longitudinal("active", CHANGES, way, steady_share=1.0, periods=PERIODS), SENDINGS[way], noise)
    states = states_of(PEOPLE)
    batches = counted(query, states, buffered())
    # All 64 periods at once: a normal law passes 5.9 with chance 4·10⁻⁹, so one of 128 tails does with 5·10⁻⁷.
    for number in range(PERIODS):
        rows = query.estimates_over(number, {place: batches[place] for place in range(number + 1)}).rows
        assert abs(score(way, rows[0], number, states, noise)) < 5.9
    for row in rows[2:]:
        assert row.estimate is not None
        place = int(row.category.removeprefix("round ")) if row.category else 0
        # Noise of one person's nodes is not independent; five per cent covers what that changes here.
        assert abs(row.estimate.value - states[:, place].sum()) < 1.05 * 5.9 * row.estimate.standard_error


def score(way: str, row: Row, number: int, states: np.ndarray[Any, Any], noise: NoiseLaw | None = None) -> float:
    """How many standard errors a count is off, which are the formula's for these streams."""
    truth = int(states[:, number].sum())
    strategy = SENDINGS[way].strategy
    variance = float(strategy.variance(number + 1, len(states), ones=truth))
    if way == "tree":
        # Its noise grows with those who changed in each node, whose number is no one number for all nodes.
        ends = [0, *(place << level for level, place in strategy.horizon.cover(number + 1))]
        after = np.column_stack([np.zeros(len(states), dtype=bool), states])
        changed = [int((after[:, begin] != after[:, end]).sum()) for begin, end in itertools.pairwise(ends)]
        variance = float(sum(strategy.node.variance(len(states), each) for each in changed))
    exact = math.sqrt(
        variance + (0.0 if noise is None else SENDINGS[way].noise_variance(number + 1, ChainNoise(noise)))
    )
    assert row.estimate is not None
    assert row.estimate.standard_error == pytest.approx(exact, rel=0.05)
    return (row.estimate.value - truth) / exact


def test_a_wrong_law_is_rejected() -> None:
    """Power: devices that tell the truth a quarter more often than is taken for granted are off by ten errors."""
    states = np.ones((8000, 1), dtype=bool)
    honest = SENDINGS["direct"]
    lying = Query(Longitudinal("active", CHANGES, "direct", periods=PERIODS), SendingStates(2, 2**31 - 2**29, HORIZON))
    drawn = [lying.encode_at(True, RoundContext(0), os.urandom).symbol for _ in states]
    batch = Batch(honest.tally(b"".join(lying.randomize(symbol, os.urandom) for symbol in drawn)))
    taken = Query(lying.question, honest).estimates_over(0, {0: batch}).rows[0]
    # The bias is 8000/8 = 1000, the standard error √(8000·3/4) = 77: never below 5.9, but once in 10¹¹ runs.
    assert score("direct", taken, 0, states) > 5.9
