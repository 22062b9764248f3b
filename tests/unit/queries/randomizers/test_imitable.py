"""Reports that a shuffler can imitate symbol by symbol, and what the noise that it adds so does to an estimate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, ChainNoise, NoiseLaw
from hubbub.accountant.mechanisms.with_noise import KINDS
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Imitable, Randomizer, beside_noise, equal_dummies
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.queries.registry import RANDOMIZERS
from support.ladder_randomizer import Ladder

HALF = 2**31
ONE = NoiseLaw("geometric", HALF, 1)
TWO = NoiseLaw("geometric", 3 * 2**30, 2)
BELL = NoiseLaw("gaussian", 3 * 2**31, 3)
KRR_4 = KRandomizedResponse(4, HALF)
HASHED = HashedResponse(2**64, 3, 2, HALF)
UNARY = UnaryEncoding(3, 3 * 2**30, 2**30)


def draws(noise: NoiseLaw, symbols: int, fixed: bool) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """Every z that a shuffler may add, with its exact probability."""
    whole = 1 << TABLE_BITS
    if fixed:
        for z, weight in enumerate(noise.weights):
            yield Fraction(weight, whole), (noise.largest - z, z)
        return
    for z in itertools.product(range(noise.largest + 1), repeat=symbols):
        yield Fraction(math.prod(noise.weights[each] for each in z), whole**symbols), z


@pytest.mark.parametrize("randomizer", [KRR_4, HASHED], ids=["krr", "hashed"])
@given(st.data())
def test_imitated_reports_are_counted_as_they_were_asked_for(randomizer: Imitable, data: st.DataObject) -> None:
    size = randomizer.report_symbols
    counts = data.draw(st.lists(st.integers(0, 30), min_size=size, max_size=size))
    tally = randomizer.tally(randomizer.reports_of(counts))
    found = tally.counts if randomizer is KRR_4 else np.bincount(tally.counts, minlength=size)
    assert (found.tolist(), tally.valid, tally.invalid) == (counts, sum(counts), 0)


def test_imitated_reports_are_those_of_devices() -> None:
    assert KRR_4.reports_of((0, 2, 0, 1)).hex(" ", 4) == "00000001 00000001 00000003"
    assert HASHED.report_symbols == 6
    assert HASHED.reports_of((0, 0, 0, 0, 0, 1)).hex() == "00000005"
    sent = HASHED.randomize(17, lambda count: b"\xff" * count if count == 4 else bytes(count))
    assert sent in {HASHED.reports_of([int(cell == other) for other in range(6)]) for cell in range(6)}


@pytest.mark.parametrize("randomizer", [KRR_4, HASHED], ids=["krr", "hashed"])
@pytest.mark.parametrize("change", [lambda size: size - 1, lambda size: size + 1, lambda _: 0])
def test_there_is_one_count_for_each_symbol(randomizer: Imitable, change: object) -> None:
    size = change(randomizer.report_symbols)  # type: ignore[operator]
    with pytest.raises(ValueError, match=rf"{size} counts of reports, .*; give {randomizer.report_symbols} counts"):
        randomizer.reports_of([1] * size)


@pytest.mark.parametrize("randomizer", [KRR_4, HASHED], ids=["krr", "hashed"])
def test_no_count_is_negative(randomizer: Imitable) -> None:
    with pytest.raises(ValueError, match="the least of them -1; give"):
        randomizer.reports_of([5] * (randomizer.report_symbols - 1) + [-1])


def test_what_can_be_imitated_is_what_the_accountant_proves() -> None:
    """One decides what a shuffler does, the other what a certificate states."""
    made: dict[str, Randomizer] = {"krr": KRR_4, "hashed": HASHED, "unary": UNARY}
    assert made.keys() == RANDOMIZERS.keys()
    for kind, randomizer in made.items():
        assert isinstance(randomizer, Imitable) == (kind in KINDS)
        if isinstance(randomizer, Imitable):
            assert beside_noise(randomizer, ONE).symbols == randomizer.report_symbols
    assert not isinstance(Ladder(3, HALF), Imitable)


@pytest.mark.parametrize(("randomizer", "kind"), [(UNARY, "unary"), (Ladder(3, HALF), "finite")], ids=["unary", "law"])
def test_noise_beside_another_randomizer_is_refused(randomizer: Randomizer, kind: str) -> None:
    for refused in (beside_noise, lambda each, noise: equal_dummies(each, 5, ChainNoise(noise, 2))):
        with pytest.raises(AccountingError, match=f"beside {kind} is not proven"):
            refused(randomizer, ONE)
    assert equal_dummies(randomizer, 5) == 5


WEIGHTS = [(1, 0, 0, 0), (0, 1, 1, 0), (0, 1, 2, 3), (-3, 0, 5, 1), (1, 1, 1, 1)]


def added_by(shufflers: int, noise: NoiseLaw, symbols: int) -> dict[tuple[int, ...], Fraction]:
    """The exact law of what so many shufflers add together, each with a draw of its own."""
    found = {(0,) * symbols: Fraction(1)}
    for _ in range(shufflers):
        after: dict[tuple[int, ...], Fraction] = {}
        for (known, mass), (p, z) in itertools.product(found.items(), list(draws(noise, symbols, symbols == 2))):
            summed = tuple(map(sum, zip(known, z, strict=True)))
            after[summed] = after.get(summed, Fraction(0)) + mass * p
        found = after
    return found


CHAINS = [(2, TWO, 1), (2, BELL, 1), (3, TWO, 1), (4, ONE, 1), (2, TWO, 3), (2, BELL, 2), (3, ONE, 2), (3, TWO, 2)]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize(("symbols", "noise", "shufflers"), CHAINS, ids=str)
def test_noise_has_the_exact_mean_and_variance_that_are_stated(
    symbols: int, noise: NoiseLaw, shufflers: int, weights: Sequence[int]
) -> None:
    """Over all draws, in fractions: S/k is right in the mean for each S, and the variance is that of D' dummies."""
    randomizer, keep = KRandomizedResponse(symbols, HALF), Fraction(1, 2)
    added, mean, square = 0, Fraction(0), Fraction(0)
    by_total: dict[int, list[Fraction]] = {}
    for z, p in added_by(shufflers, noise, symbols).items():
        errors = [(each - Fraction(sum(z), symbols)) / keep for each in z]
        value = sum((w * error for w, error in zip(weights[:symbols], errors, strict=True)), Fraction(0))
        added, mean, square = added + p * sum(z), mean + p * value, square + p * value**2
        before = by_total.setdefault(sum(z), [Fraction(0)] * symbols)
        by_total[sum(z)] = [one + p * error for one, error in zip(before, errors, strict=True)]
    assert all(each == 0 for found in by_total.values() for each in found)
    assert (mean, added) == (0, shufflers * symbols * noise.reach)
    stated = equal_dummies(randomizer, 10**6, ChainNoise(noise, shufflers)) * randomizer.dummy_variance(
        np.array(weights[:symbols], float)
    )
    assert stated == pytest.approx(float(square), rel=1e-12, abs=1e-15)


def test_a_count_of_two_symbols_has_the_variance_of_one_draw() -> None:
    """And so has a count of a million symbols, nearly: their total is known too."""
    single = np.array([1.0, 0.0])
    assert equal_dummies(KRandomizedResponse(2, 1), 0, ChainNoise(TWO)) == pytest.approx(4 * float(TWO.variance))
    each = KRandomizedResponse(2, 1)
    assert equal_dummies(each, 0, ChainNoise(TWO)) * each.dummy_variance(single) == pytest.approx(float(TWO.variance))
    many = KRandomizedResponse(10**6, 1)
    one = np.eye(1, 10**6)[0]
    assert equal_dummies(many, 0, ChainNoise(TWO)) * many.dummy_variance(one) == pytest.approx(
        float(TWO.variance), rel=1e-5
    )


@pytest.mark.parametrize("symbol", [0, 5, 2**40])
def test_noise_in_the_cells_of_a_symbol_has_the_stated_variance(symbol: int) -> None:
    """Whatever its cells are: there is one in each row, of 3 cells in 2 rows."""
    cells = [row * HASHED.cells + HASHED.place(row, symbol) for row in range(HASHED.rows)]
    mean, square = Fraction(0), Fraction(0)
    for p, z in draws(ONE, 6, False):
        error = sum(z[cell] for cell in cells) - Fraction(sum(z), 3)
        mean, square = mean + p * error, square + p * error**2
    assert mean == 0
    stated = equal_dummies(HASHED, 7, ChainNoise(ONE)) * HASHED.dummy_variance(np.array([1.0, 0.0]))
    assert stated * HASHED.support_gap**2 == pytest.approx(float(square), rel=1e-12)


def test_the_law_beside_noise_is_the_accountant_s() -> None:
    law = beside_noise(KRR_4, TWO)
    assert (law.randomizer, law.noise, law.fixed_total) == (KRR.from_numerator(4, HALF), TWO, False)
