"""The attack on one person beside n − 1 known reports, by everybody else, against the noise of one honest hop.

The first shuffler fills each batch with reports that it knows, leaves one person's report among them, and its own noise
is no noise: it adds only reports of symbol 0. The analyzer tells it the counts. It knows the law of the hop's noise,
and guesses the person's answer by likelihood. No guess is right more often than with probability (1 + TV)/2, TV being
the total variation between the law of the noise and the law moved by one.

Real hops mix every batch. A right one fails with a false-alarm rate of `FALSE_ALARM`, on either side.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.analyzer.records import counted_of
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from support.hop_chain import Chain
from support.krr_queries import krr_query
from support.thoroughness import usually

FALSE_ALARM = 1e-8

LAW = NoiseLaw.of("geometric", Fraction(3, 5), 6)
CHANCES = [Fraction(weight, 1 << TABLE_BITS) for weight in LAW.weights]
QUERIES, ROUNDS = 12, usually(4, 10)
KNOWN = 4
"""The reports beside the person's: all but one of the task's minimum."""


def guessed(count: int) -> int:
    """The likelier answer of the person, given how many reports of symbol 1 the hop and the person made together."""
    with_one = CHANCES[count - 1] if 0 < count <= LAW.largest + 1 else 0
    without = CHANCES[count] if count <= LAW.largest else 0
    return int(with_one > without)


def chance_of_a_right_guess() -> float:
    """(1 + TV)/2, exactly."""
    shared = sum((min(p, q) for p, q in zip([*CHANCES, 0], [0, *CHANCES], strict=True)), Fraction(0))
    return float(1 - shared / 2)


async def right_guesses(folder: Path, hops: int) -> int:
    """How many of the answers in all batches the attackers guess."""
    # So little of the randomizer that the person's report is the answer itself.
    asked = [replace(krr_query(Histogram(f"q{number}", ("no", "yes")), 1), noise=LAW) for number in range(QUERIES)]
    right, answers = 0, random.Random(7)
    with closing(Chain(folder, hops, rounds=ROUNDS, queries=asked)) as chain:
        await chain.start()
        for number in range(ROUNDS):
            held = [answers.randrange(2) for _ in asked]
            # The known reports and the first shuffler's noise, all of symbol 0, and the person's.
            sent = {
                query: await chain.seal([0] * (KNOWN + LAW.largest) + [answer], query, number)
                for query, answer in enumerate(held)
            }
            for query, delivery in (await chain.deliveries(sent, number, dummies=LAW.largest)).items():
                assert await chain.deliver(delivery, sent[query]) == Committed(KNOWN + 1, {})
                stored = await chain.analyzer_store.batch(BatchId(chain.task.id, number, query))
                assert stored is not None
                tally = counted_of(chain.task, stored).tally
                assert tally is not None
                right += guessed(int(tally.counts[1])) == held[query]
    return right


async def test_the_noise_of_one_honest_hop_hides_a_person_among_liars(tmp_path: Path) -> None:
    trials, chance = QUERIES * ROUNDS, chance_of_a_right_guess()
    assert chance == pytest.approx(0.63, abs=0.001)
    least, most = (float(stats.binom.ppf(rate, trials, chance)) for rate in (FALSE_ALARM, 1 - FALSE_ALARM))
    assert most < trials
    assert least <= await right_guesses(tmp_path, 1) <= most


async def test_a_hop_whose_draws_are_known_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power: a hop that always draws the middle gives every person away."""

    def middle(_query: Query, _random: Any) -> tuple[int, ...]:
        return LAW.reach, LAW.reach

    monkeypatch.setattr(Query, "draw_noise", middle)
    guesses = {LAW.reach: 0, LAW.reach + 1: 1}
    monkeypatch.setattr("statistical.test_hop_noise.guessed", guesses.__getitem__)
    assert await right_guesses(tmp_path, 1) == QUERIES * ROUNDS
