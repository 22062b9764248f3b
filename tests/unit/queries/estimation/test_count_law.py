"""Intervals of counts are those of the exact law: compared with convolved laws, and their coverage summed exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, ChainNoise, NoiseLaw
from hubbub.queries.estimation.count_law import CountLaw, law_of_counts
from hubbub.queries.estimation.noise_sums import noise_sum
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.computed_once import remember_intervals

RATE = 0.05
KRR = KRandomizedResponse(16, 2**28)
UNARY = UnaryEncoding(16, 2**31, 2**28)
CENTRAL = NoiseLaw.of("geometric", Fraction(6065, 10000), 25)
BELL = NoiseLaw("gaussian", 5 * 2**32, 9)
LAMBDAS = (0.01, 0.1, 0.3, 0.5, 1, 3, 10, 30, 100)
"""Expected reports of a symbol that are noise."""


def binomial(trials: int, chance: float) -> np.ndarray:
    return np.asarray(stats.binom.pmf(np.arange(trials + 1), trials, chance))


def table(noise: NoiseLaw) -> np.ndarray:
    return np.array([weight / (1 << TABLE_BITS) for weight in noise.weights])


def added_up(noise: NoiseLaw, draws: int) -> np.ndarray:
    law = np.ones(1)
    for _ in range(draws):
        law = np.convolve(law, table(noise))
    return law


def given(noise: ChainNoise, some: int, symbols: int, total: int) -> np.ndarray:
    """The law of so many symbols' noise given that of all, convolved directly."""
    inside, outside = (added_up(noise.law, noise.shufflers * each) for each in (some, symbols - some))
    law = np.array([p * outside[total - a] if 0 <= total - a < len(outside) else 0.0 for a, p in enumerate(inside)])
    return law / law.sum()


def law_at(law: CountLaw, people: int, added: np.ndarray) -> np.ndarray:
    """P_c(N = x) for x from 0 on; `added` is the law of the dummies."""
    found = np.convolve(binomial(people, law.own), binomial(law.trials - people, law.other))
    return np.convolve(found, added)


def tails(law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(N ≥ x) and P(N ≤ x) for each x."""
    return np.cumsum(law[::-1])[::-1], np.cumsum(law)


@pytest.mark.parametrize("randomizer", [KRR, UNARY], ids=["krr", "unary"])
@pytest.mark.parametrize(("people", "dummies"), [(1, 0), (7, 3), (300, 0), (300, 50)])
@pytest.mark.parametrize("symbols", [1, 7])
def test_tails_are_those_of_the_convolved_law(randomizer: Randomizer, people: int, dummies: int, symbols: int) -> None:
    law = law_of_counts(randomizer, people, dummies, None, symbols)
    for count in {0, 1, people // 2, people}:
        above, below = tails(law_at(law, count, binomial(law.added, law.chance)))
        seen, counts = np.arange(len(above)), np.full(len(above), count)
        for flag, exact in ((True, above), (False, below)):
            found, _ = law._tails(counts, seen, np.full(len(seen), flag))
            assert np.abs(found - exact).max() < 1e-12


def test_a_law_has_the_chances_of_reports_and_bits() -> None:
    """γ = 1/16 of 16 symbols; bits of 1/2 and 1/16."""
    law = law_of_counts(KRR, 100, 20, None, 3)
    assert (law.trials, law.other, law.own) == (100, pytest.approx(3 / 256), pytest.approx(15 / 16 + 3 / 256))
    assert (law.added, law.chance) == (20, 3 / 16)
    law = law_of_counts(UNARY, 100, 20, None, 3)
    assert (law.trials, law.other, law.own) == (340, 1 / 16, 1 / 2)
    assert (law.added, law.chance) == (20, pytest.approx(1 / 16 + 7 / 16 * 3 / 16))


@pytest.mark.parametrize("shufflers", [1, 2, 3])
@pytest.mark.parametrize("noise", [CENTRAL, BELL], ids=str)
@pytest.mark.parametrize(("symbols", "draws"), [(2, 1), (3, 1), (8, 3), (8, 8)])
def test_noise_has_its_law_given_the_sum_of_all_draws(
    noise: NoiseLaw, symbols: int, draws: int, shufflers: int
) -> None:
    of_all = ChainNoise(noise, shufflers)
    total = of_all.largest if symbols == 2 else symbols * of_all.mean + 4
    exact = added_up(noise, shufflers) if symbols == 2 else given(of_all, draws, symbols, total)
    found = noise_sum(of_all, draws, symbols, total)
    values = np.zeros(len(exact))
    values[found.least : found.least + len(found.table)] = found.table
    assert found.draws == 1
    assert np.abs(values - exact).sum() < 1e-10
    assert found.mean == pytest.approx(draws * total / symbols)


def test_an_improbable_sum_of_noise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one of too many symbols: the law is that of all sums then."""
    assert noise_sum(ChainNoise(CENTRAL), 3, 8, 1).draws == 3
    monkeypatch.setattr("hubbub.queries.estimation.noise_sums.LONGEST_LAW", 9 * CENTRAL.largest)
    assert noise_sum(ChainNoise(CENTRAL), 3, 9, 9 * CENTRAL.reach).draws == 3
    summed = noise_sum(ChainNoise(CENTRAL, 2), 3, 9, 18 * CENTRAL.reach)
    assert (summed.draws, summed.mean) == (3, pytest.approx(6 * CENTRAL.reach))


def by_definition(law: CountLaw, added: np.ndarray, rate: float) -> list[tuple[int, int]]:
    """Of each x the least c that explains as much, and the largest that explains as little, by trying all."""
    laws = [tails(law_at(law, count, added)) for count in range(law.people + 1)]
    found = []
    for x in range(len(laws[0][0])):
        low = [count for count, (above, _) in enumerate(laws) if above[x] > rate / 2 - 1e-9]
        high = [count for count, (_, below) in enumerate(laws) if below[x] > rate / 2 - 1e-9]
        found.append((min(low, default=law.people), max(high, default=0)))
    return found


@pytest.mark.parametrize("rate", [RATE, RATE / 1000])
@pytest.mark.parametrize(
    ("randomizer", "dummies", "symbols"),
    [(KRR, 0, 1), (KRR, 9, 5), (UNARY, 0, 1), (UNARY, 4, 3), (KRandomizedResponse(2, 2**31), 0, 1)],
)
def test_an_interval_has_the_counts_that_explain_what_was_seen(
    randomizer: Randomizer, dummies: int, symbols: int, rate: float
) -> None:
    law = law_of_counts(randomizer, 40, dummies, None, symbols)
    expected = by_definition(law, binomial(law.added, law.chance), rate)
    low, high = law.intervals(np.arange(len(expected)), rate)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


@pytest.mark.parametrize("shufflers", [1, 2])
@pytest.mark.parametrize(("symbols", "draws"), [(2, 1), (8, 3)])
def test_beside_noise_it_has_them_too(symbols: int, draws: int, shufflers: int) -> None:
    noise = ChainNoise(BELL, shufflers)
    total = noise.largest if symbols == 2 else 8 * noise.mean - 5
    law = law_of_counts(KRandomizedResponse(symbols, 2**30), 30, total, noise, draws)
    added = added_up(BELL, shufflers) if symbols == 2 else given(noise, draws, symbols, total)
    expected = by_definition(law, added, RATE)
    low, high = law.intervals(np.arange(len(expected)), RATE)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


def missed(law: CountLaw, people: int, added: np.ndarray, rate: float) -> float:
    """The exact probability that an interval misses: a sum over all that can be seen."""
    exact = law_at(law, people, added)
    likely = np.flatnonzero(exact > 1e-18)
    low, high = law.intervals(likely, rate)
    return float(exact[likely][(people < low) | (people > high)].sum())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rate", [RATE, RATE / 1000], ids=["one", "of a band of 1000"])
@pytest.mark.parametrize("expected", LAMBDAS)
@pytest.mark.parametrize("dummies", [0, 40])
def test_no_count_is_missed_more_often_than_is_said(expected: float, dummies: int, rate: float) -> None:
    """And not much more rarely, except of counts near 0, which can be missed on one side only."""
    people = 3000
    randomizer = KRandomizedResponse(16, int(expected * 16 / people * DENOMINATOR))
    law = law_of_counts(randomizer, people, dummies, None, 1)
    each = [missed(law, count, binomial(dummies, 1 / 16), rate) for count in (0, 1, 2, 5, 20, 150, 2990, people)]
    assert max(each) <= rate
    assert missed(law, 0, binomial(dummies, 1 / 16), rate) <= rate / 2
    if expected >= 10 and rate == RATE:
        assert each[5] > 0.6 * rate


@pytest.mark.sampled(4)
@pytest.mark.parametrize("expected", [0.01, 0.1, 1, 10, 30, 100])
@pytest.mark.parametrize(("symbols", "shufflers"), [(3, 1), (8, 1), (3, 2), (8, 3)])
def test_nor_beside_noise_given_any_sum_of_it(expected: float, symbols: int, shufflers: int) -> None:
    people, noise = 1000, ChainNoise(CENTRAL, shufflers)
    randomizer = KRandomizedResponse(symbols, int(expected * symbols / people * DENOMINATOR / 2))
    for total in (symbols * noise.mean + shift for shift in (-7, 0, 9)):
        law = law_of_counts(randomizer, people, total, noise, 2)
        added = given(noise, 2, symbols, total)
        assert max(missed(law, count, added, RATE) for count in (0, 1, 5, 40, people)) <= RATE


@pytest.mark.sampled(4)
@pytest.mark.parametrize("expected", [0.01, 0.1, 0.3, 1, 3, 10, 30, 100])
def test_nor_of_bits(expected: float) -> None:
    people, symbols = 400, 4
    randomizer = UnaryEncoding(8, 2**31, int(expected / people * DENOMINATOR))
    for dummies in (0, 30):
        law = law_of_counts(randomizer, people, dummies, None, symbols)
        added = binomial(law.added, law.chance)
        assert max(missed(law, count, added, RATE) for count in (0, 1, 5, 40, people)) <= RATE


def test_millions_of_people_have_nearly_normal_intervals() -> None:
    people = 10**7
    law = law_of_counts(KRandomizedResponse(2, 2**31), people, 0, None, 1)
    (low,), (high,) = law.intervals(np.array([5 * 10**6]), RATE)
    half = 1.96 * np.sqrt(people * 0.25 * 0.75) / 0.5
    assert (high - low) / 2 == pytest.approx(half, rel=1e-3)
    assert (low + high) / 2 == pytest.approx(people / 2, abs=2)


def test_a_chance_of_as_many_is_hardly_above_the_exact_one() -> None:
    law = law_of_counts(KRR, 500, 0, None, 4)
    above, _ = tails(binomial(500, 4 / 256))
    found = law.chance_of_as_many(np.arange(30))
    assert np.all((above[:30] <= found + 1e-12) & (found <= above[:30] + 5e-9))


@pytest.mark.parametrize(("dummies", "noise"), [(0, None), (40, None), (400, CENTRAL)])
def test_ends_that_are_remembered_for_tests_are_those_computed_for_each_sum_alone(
    dummies: int, noise: NoiseLaw | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`counted_once` computes those of neighboring sums together."""
    law = law_of_counts(KRR, 500, dummies, noise and ChainNoise(noise), 1)
    sums = np.array([17, 60, 61, 64, 17, 127, 300])
    alone = [law.intervals(sums[place : place + 1], rate) for rate in (0.05, 0.002) for place in range(len(sums))]
    remember_intervals(monkeypatch)
    for _ in range(2):
        found = [law.intervals(sums, rate) for rate in (0.05, 0.002)]
        assert np.hstack(found).tolist() == np.hstack(alone).tolist()
