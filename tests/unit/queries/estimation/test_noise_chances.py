"""p-values beside noise of one shuffler or of several, against its exact law in fractions: never below it."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, ChainNoise, NoiseLaw
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.significance import bounded_p_values, noisy_p_values
from hubbub.queries.query import Query
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_noise import TILTS, added_moments
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.texts.lookup import DISCOVERY_RATE, stands_out_from

Law = list[Fraction]

NARROW = NoiseLaw("geometric", 2**31, 3)
CENTRAL = NoiseLaw.of("geometric", Fraction(6065, 10000), 25)
"""About the noise of (1, 1e-6)."""

BELL = NoiseLaw("gaussian", 5 * 2**32, 9)
LAWS = [NARROW, CENTRAL, BELL]


def table(noise: NoiseLaw) -> Law:
    return [Fraction(weight, 1 << TABLE_BITS) for weight in noise.weights]


def binomial(count: int, chance: Fraction) -> Law:
    return [comb(count, each) * chance**each * (1 - chance) ** (count - each) for each in range(count + 1)]


def together(*laws: Law) -> Law:
    """The law of a sum of independent numbers."""
    found = [Fraction(1)]
    for law in laws:
        after = [Fraction(0)] * (len(found) + len(law) - 1)
        for place, p in enumerate(found):
            for more, q in enumerate(law):
                after[place + more] += p * q
        found = after
    return found


def close_above(found: float, exact: Fraction) -> bool:
    """Whether a p-value is not below the exact one, and hardly above it."""
    return float(exact) <= found <= float(exact) * (1 + 1.1e-6) + 1e-299


CHAINS = [*((law, 1) for law in LAWS), (NARROW, 3), (CENTRAL, 2), (BELL, 2)]


@pytest.mark.parametrize(("of_each", "shufflers"), CHAINS, ids=str)
@pytest.mark.parametrize("symbols", [2, 4])
def test_a_p_value_is_the_exact_chance_of_as_many(of_each: NoiseLaw, shufflers: int, symbols: int) -> None:
    """Of two symbols one is drawn and the other is its mirror: both have the same law."""
    people, randomizer, noise = 12, KRandomizedResponse(symbols, 2**30), ChainNoise(of_each, shufflers)
    law = together(binomial(people, Fraction(1, 4 * symbols)), *[table(of_each)] * shufflers)
    for count in range(noise.largest + people + 1):
        dummies = noise.largest if symbols == 2 else max(noise.largest, count - people)
        rest = people + dummies - count
        if rest < 0:
            continue
        counts = np.array([count, rest] + [0] * (symbols - 2))
        (found, *_) = Debiased(randomizer, Tally(counts, people + dummies), dummies, noise).p_values().tolist()
        assert close_above(found, sum(law[count:], Fraction(0)))


def test_far_tails_keep_their_digits() -> None:
    """At 90 reports all 50 dummies that a draw can be are not enough, and 40 people count by chance."""
    people, randomizer = 300, KRandomizedResponse(4, 2**25)
    rate = Fraction(2**25, 2**34)
    reach = 90
    tail = [Fraction(0)] * (reach + 2)
    for count in range(reach, -1, -1):
        tail[count] = tail[count + 1] + comb(people, count) * rate**count * (1 - rate) ** (people - count)
    law = table(CENTRAL)
    for count in (60, 75, 90):
        exact = sum((p * tail[count - z] for z, p in enumerate(law)), Fraction(0))
        dummies = 4 * CENTRAL.reach
        tally = Tally(np.array([count, people + dummies - count, 0, 0]), people + dummies)
        found = Debiased(randomizer, tally, dummies, ChainNoise(CENTRAL)).p_values()[0]
        assert close_above(found, exact * (1 + Fraction(1, 10**30)))
        assert 0 < found < 1e-8


def test_many_counts_and_a_wide_law_are_summed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    randomizer, noise = KRandomizedResponse(50, 2**30), ChainNoise(NoiseLaw("gaussian", 400 * 2**32, 120))
    counts = np.arange(100, 200, 2)
    dummies = 50 * 120
    tally = Tally(counts, int(counts.sum()))
    whole = Debiased(randomizer, tally, dummies, noise).p_values()
    monkeypatch.setattr("hubbub.queries.estimation.significance._AT_ONCE", 500)
    assert Debiased(randomizer, tally, dummies, noise).p_values().tolist() == pytest.approx(whole.tolist(), rel=1e-12)
    assert whole.tolist() == sorted(whole.tolist(), reverse=True)


def grouped(groups: int) -> Grouped:
    regions = tuple(str(each) for each in range(groups))
    return Grouped("theme", (Histogram("region", regions),), Histogram("theme", ("a", "b")))


@pytest.mark.parametrize(("noise", "shufflers"), [(NARROW, 1), (BELL, 1), (NARROW, 2)], ids=str)
def test_a_total_over_groups_has_the_exact_law_of_its_sum(noise: NoiseLaw, shufflers: int) -> None:
    """Three groups of two answers: a total counts three symbols, each with a draw of each shuffler."""
    people, randomizer = 10, KRandomizedResponse(6, 2**30)
    counts = np.array([9, 4, 6, 5, 8, 2])
    dummies = int(counts.sum()) - people
    found = Query(grouped(3), randomizer, noise, shufflers).estimates(Tally(counts, people + dummies), dummies)
    totals = [row.p_value for row in found.rows if row.statistic == "count" and not row.group]
    law = together(binomial(people, Fraction(3, 24)), *[table(noise)] * 3 * shufflers)
    assert len(totals) == 2
    for p_value, count in zip(totals, (23, 11), strict=True):
        assert p_value is not None
        assert float(sum(law[count:])) <= p_value <= float(sum(law[count:])) * (1 + 2e-6) + 1e-10


@pytest.mark.parametrize("noise", [CENTRAL, NoiseLaw("geometric", 2**32 - 2**22, 500)], ids=["usual", "wide"])
def test_a_total_over_many_groups_has_it_too(noise: NoiseLaw) -> None:
    """Compared with sums that are convolved directly: down to 1e-8 no p-value is lower, nor more than a part higher."""
    groups, people = 40, 200
    randomizer = KRandomizedResponse(2 * groups, 2**30)
    law = np.array([1.0])
    for _ in range(groups):
        law = np.convolve(law, [float(p) for p in table(noise)])
    hits = np.array([float(p) for p in binomial(people, Fraction(1, 8))])
    tail = np.cumsum(np.convolve(law, hits)[::-1])[::-1]
    mean, spread = 25 + groups * noise.reach, math.sqrt(22 + groups * float(noise.variance))
    totals = np.array([round(mean + place * spread) for place in (-3, 0, 2, 4, 5.5)])
    for total, found in zip(
        totals.tolist(), noisy_p_values(randomizer, totals, people, ChainNoise(noise), groups), strict=True
    ):
        assert tail[total] <= found <= tail[total] * (1 + 2e-6) + 1e-10
    assert tail[totals[-1]] < 2e-7


def test_a_total_over_very_many_groups_is_compared_with_the_law_of_all_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the law of the sum is not convolved, but the p-value is as exact, to 5e-9."""
    groups = 100
    for module in ("debiased", "noise_sums"):
        monkeypatch.setattr(f"hubbub.queries.estimation.{module}.LONGEST_LAW", groups * BELL.largest)
    randomizer = KRandomizedResponse(2 * groups, 2**30)
    counts, dummies = np.full(2 * groups, 10), 2 * groups * 9
    query, people = Query(grouped(groups), randomizer, BELL), 2 * groups
    batch = query.debiased(Tally(counts, int(counts.sum())), dummies)
    rows = [row for row in query.question.estimates(batch).rows if row.statistic == "count" and not row.group]
    law = np.array([float(p) for p in binomial(people, Fraction(1, 8))])
    for _ in range(groups):
        law = np.convolve(law, [float(p) for p in table(BELL)])
    expected = float(law[10 * groups :].sum())
    for row in rows:
        assert row.p_value is not None
        assert expected <= row.p_value <= expected + 5e-9


# Counts from hashes


def lattice(noise: NoiseLaw, cells: int, rows: int) -> dict[int, float]:
    """The exact law of g·X, with X what the noise adds to a symbol's cells beyond S/g."""
    law = [float(p) for p in table(noise)]
    own = np.array([1.0])
    for _ in range(rows):
        own = np.convolve(own, law)
    others = np.array([1.0])
    for _ in range(rows * (cells - 1)):
        others = np.convolve(others, law)
    found: dict[int, float] = {}
    for mine, p in enumerate(own.tolist()):
        for theirs, q in enumerate(others.tolist()):
            value = (cells - 1) * mine - theirs
            found[value] = found.get(value, 0.0) + p * q
    return found


def moments(noise: NoiseLaw, cells: int, rows: int) -> list[float]:
    law = lattice(noise, cells, rows)
    return [math.log(sum(p * math.exp(t * value / cells) for value, p in law.items())) for t in TILTS.tolist()]


@pytest.mark.parametrize(("cells", "rows"), [(3, 2), (5, 1), (4, 3)])
@pytest.mark.parametrize("noise", [NARROW, BELL], ids=str)
def test_the_moments_of_noise_in_a_symbol_s_cells_are_exact(noise: NoiseLaw, cells: int, rows: int) -> None:
    randomizer, one = HashedResponse(2**64, cells, rows, 2**31), np.array(moments(noise, cells, rows))
    for shufflers in (1, 3):
        found = added_moments(randomizer, ChainNoise(noise, shufflers)).tolist()
        assert found == pytest.approx((shufflers * one).tolist(), rel=1e-9, abs=1e-12)


def test_moments_of_wide_noise_and_many_cells_are_finite_and_not_lost() -> None:
    wide = NoiseLaw("gaussian", 10**6 * 2**32, 6000)
    randomizer = HashedResponse(2**64, 2**20, 256, 2**31)
    found = added_moments(randomizer, ChainNoise(wide))
    assert np.isfinite(found).all()
    assert (np.diff(found) > 0).all()
    # Of little tilt: Var X · t²/2.
    spread = 256 * float(wide.variance) * (1 - 2**-20)
    narrow = added_moments(randomizer, ChainNoise(CENTRAL))
    assert found[0] == pytest.approx(spread * TILTS[0] ** 2 / 2, rel=0.2)
    assert narrow[0] == pytest.approx(256 * float(CENTRAL.variance) * TILTS[0] ** 2 / 2, rel=1e-3)


@pytest.mark.parametrize("chance", [0.02, 0.2])
@pytest.mark.parametrize("noise", [NARROW, BELL], ids=str)
def test_a_bounded_chance_is_never_below_the_exact_one(chance: float, noise: NoiseLaw) -> None:
    """Of 30 people who each count by chance, and the noise in 2 rows of 3 cells; in thirds of a report."""
    people, law = 30, lattice(noise, 3, 2)
    hits = np.array([float(p) for p in binomial(people, Fraction(chance))])
    above = np.arange(people + 1)[:, None] + np.array(list(law)) / 3 - people * chance
    both = hits[:, None] * np.array(list(law.values()))
    excess = np.arange(61) / 3
    noisy = added_moments(HashedResponse(2**64, 3, 2, 2**31), ChainNoise(noise))
    bounds = bounded_p_values(excess, np.full(61, people * chance * (1 - chance)), noisy)
    for least, bound in zip(excess.tolist(), bounds.tolist(), strict=True):
        assert float(both[above >= least].sum()) * (1 - 1e-9) <= bound <= 1
    assert bounds[-1] < 1e-3


def test_a_count_that_noise_explains_is_no_discovery_and_one_that_it_does_not_is() -> None:
    """The variance of the noise alone: a count six deviations away is far beyond it, one at a deviation is not."""
    randomizer = HashedResponse(1000, 64, 16, 2**31)
    law = added_moments(randomizer, ChainNoise(CENTRAL))
    deviation = math.sqrt(16 * float(CENTRAL.variance))
    near, far = bounded_p_values(np.array([deviation, 6 * deviation]), np.zeros(2), law)
    assert near > 0.3
    assert far < 1e-5


@pytest.mark.parametrize("looked_up", [1, 1000, 10**6])
def test_what_stands_out_is_what_the_bound_calls_so_small(looked_up: int) -> None:
    law = added_moments(HashedResponse(2**64, 64, 16, 2**31), ChainNoise(CENTRAL))
    least = stands_out_from(300.0, looked_up, law)
    harmonic = float((1 / np.arange(1, looked_up + 1)).sum())
    (bound,) = bounded_p_values(np.array([least]), np.array([300.0]), law)
    assert bound * looked_up * harmonic == pytest.approx(DISCOVERY_RATE, rel=1e-9)
    assert least > stands_out_from(300.0, looked_up)
