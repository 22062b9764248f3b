"""Attack real reports, bound ε from below with confidence, compare with what is certified.

A victim reports through the real client randomizer, holding one of two values; everyone else has a value that hides
it worst. The attacker sees the counts and knows the mechanism: it says "the first value" where their likelihood ratio
passes a threshold. Of the `THRESHOLDS`, fixed beforehand, each gives rates p (right) and q (wrong), and

    ε ≥ ln((p − δ)/q)   holds with   p ≥ its Clopper–Pearson lower end, q ≤ its upper end,

each at confidence 1 − FALSE_ALARM/(2·thresholds). So the best of all of them lies above the true ε(δ), and a right
randomizer fails a test, with probability at most `FALSE_ALARM`. What a broken one must show is computed from its exact
law: `POWER` is the least probability with which it is caught. Seeds are fixed, so that a run can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.mechanisms import KRR
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random
from support.krr_queries import symbol as symbol_of

FALSE_ALARM = 1e-9
"""Largest probability that one audit accuses a right randomizer: with four of them, once in 10⁸ runs at most."""

POWER = 1 - 1e-9
"""Least probability with which each broken randomizer below is caught."""

THRESHOLDS = np.linspace(-1.25, 1.25, 51)
"""Log likelihood ratios at which the attacker may decide, in nats."""

TRIALS = 100_000
"""Batches with each of the victim's two values."""

Randomizer = Callable[[int, int, int, Random], int]
Law = tuple[Fraction, ...]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A batch to attack: the victim holds `first` or `second`, all others hold `other`."""

    mechanism: KRR
    reports: int
    delta: float
    first: int
    second: int
    other: int

    @property
    def certified(self) -> float:
        """What the accountant certifies."""
        return epsilon_bracket(self.mechanism, self.reports, self.delta).epsilon_upper

    @property
    def numerator(self) -> int:
        """γ as clients get it."""
        return int(self.mechanism.gamma * 2**32)


SETTINGS = (
    Setting(KRR.from_numerator(4, 2**30), 20, 0.02, 0, 1, 2),
    Setting(KRR.from_numerator(2, 2**31), 30, 0.05, 1, 0, 0),
    Setting(KRR.from_numerator(4, 2**31), 100, 0.02, 0, 1, 2),
)


def scores(setting: Setting, counts: Counts) -> Floats:
    """ln of P(counts | first) / P(counts | second) for the right mechanism.

    Given the counts, each report is equally likely the victim's: Σ_y N_y·μ(y)/ω(y), ω the law of the others.
    """
    laws = [np.array(setting.mechanism.law(x), dtype=float) for x in (setting.first, setting.second, setting.other)]
    return np.asarray(np.log(counts @ (laws[0] / laws[2])) - np.log(counts @ (laws[1] / laws[2])))


def epsilon_shown(hits: Counts, alarms: Counts, delta: float, trials: int = TRIALS) -> float:
    """The largest ε that all thresholds together show, at confidence 1 − `FALSE_ALARM`."""
    level = FALSE_ALARM / (2 * len(THRESHOLDS))
    shown = 0.0
    for hit, alarm in zip(hits.tolist(), alarms.tolist(), strict=True):
        right = float(stats.beta.ppf(level, hit, trials - hit + 1)) if hit else 0.0
        wrong = float(stats.beta.isf(level, alarm + 1, trials - alarm)) if alarm < trials else 1.0
        if right > delta:
            shown = max(shown, log((right - delta) / wrong))
    return shown


def audited(setting: Setting, randomizer: Randomizer, others: Law, seed: int) -> float:
    """The ε that an attack on `randomizer` shows; the victim runs it, the others' counts follow the law `others`."""
    generator, source = np.random.default_rng(seed), random.Random(seed).randbytes
    passed = []
    for value in (setting.first, setting.second):
        counts = generator.multinomial(setting.reports - 1, np.array(others, dtype=float), TRIALS)
        symbols = setting.mechanism.categories
        victims = [randomizer(value, symbols, setting.numerator, source) for _ in range(TRIALS)]
        counts[np.arange(TRIALS), victims] += 1
        passed.append((scores(setting, counts)[:, None] > THRESHOLDS).sum(axis=0))
    return epsilon_shown(passed[0], passed[1], setting.delta)


def assured(setting: Setting, laws: dict[int, Law]) -> float:
    """The ε that an audit shows with probability at least `POWER`, where reports for value x follow `laws[x]`."""
    level, views = (1 - POWER) / 2, all_counts(setting.reports - 1, setting.mechanism.categories)
    others = stats.multinomial.pmf(views, setting.reports - 1, np.array(laws[setting.other], dtype=float))
    rates = []
    for value in (setting.first, setting.second):
        rate = np.zeros(len(THRESHOLDS))
        for symbol, mass in enumerate(laws[value]):
            seen = views + np.eye(len(laws[value]), dtype=np.int64)[symbol]
            rate += float(mass) * others @ (scores(setting, seen)[:, None] > THRESHOLDS)
        rates.append(np.clip(rate, 0.0, 1.0))
    best = [
        epsilon_shown(np.array([hits]), np.array([alarms]), setting.delta)
        for hits, alarms in zip(
            stats.binom.ppf(level, TRIALS, rates[0]).astype(int),
            stats.binom.isf(level, TRIALS, rates[1]).astype(int),
            strict=True,
        )
    ]
    return max(best)


def all_counts(total: int, symbols: int) -> Counts:
    """Every way to divide `total` reports among the symbols."""
    views: list[list[int]] = [[]]
    for _ in range(symbols - 1):
        views = [[*view, count] for view in views for count in range(total - sum(view) + 1)]
    return np.array([[*view, total - sum(view)] for view in views])


def randomize(symbol: int, symbols: int, gamma: int, source: Random) -> int:
    """The symbol that the device's kRR reports."""
    return symbol_of(KRandomizedResponse(symbols, gamma).randomize(symbol, source))


def half_blanket(symbol: int, symbols: int, gamma: int, source: Random) -> int:
    """Broken: half the blanket that was certified."""
    return randomize(symbol, symbols, gamma // 2, source)


def no_blanket(symbol: int, symbols: int, gamma: int, source: Random) -> int:
    """Broken: the coin is tossed, but the uniform draw is skipped."""
    randomize(symbol, symbols, gamma, source)
    return symbol


def blanket_stays_near(symbol: int, symbols: int, gamma: int, source: Random) -> int:
    """Broken: of two uniform draws, the truth is preferred."""
    drawn = [randomize(symbol, symbols, gamma, source) for _ in range(2)]
    return symbol if symbol in drawn else drawn[0]


BROKEN = (half_blanket, no_blanket, blanket_stays_near)


def broken_law(mechanism: KRR, name: str, x: int) -> Law:
    """The exact law of a broken randomizer."""
    if name == "half_blanket":
        return KRR(mechanism.categories, mechanism.gamma / 2).law(x)
    missed = 1 - mechanism.truthful
    kept = Fraction(0) if name == "no_blanket" else missed**2
    return tuple(1 - kept if y == x else kept / (mechanism.categories - 1) for y in range(mechanism.categories))


@pytest.mark.sampled("k=4, n=20")
@pytest.mark.parametrize("setting", SETTINGS, ids=["k=4, n=20", "k=2, n=30", "k=4, n=100"])
def test_no_attack_on_real_reports_passes_what_is_certified(setting: Setting) -> None:
    shown = audited(setting, randomize, setting.mechanism.law(setting.other), seed=20)
    assert shown <= setting.certified


def test_the_attack_is_a_good_one() -> None:
    """It shows two thirds of what is certified, with probability `POWER`: an audit that sees nothing proves nothing."""
    setting = SETTINGS[0]
    laws = dict(enumerate(setting.mechanism.law(x) for x in range(setting.mechanism.categories)))
    enough = 2 / 3 * setting.certified
    assert assured(setting, laws) > enough
    assert audited(setting, randomize, laws[setting.other], seed=21) > enough


@pytest.mark.sampled("half_blanket-k=4", "no_blanket-k=4", "blanket_stays_near-k=4")
@pytest.mark.parametrize("setting", SETTINGS[:2], ids=["k=4, n=20", "k=2, n=30"])
@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_randomizer_is_caught(setting: Setting, broken: Randomizer) -> None:
    laws = {x: broken_law(setting.mechanism, broken.__name__, x) for x in range(setting.mechanism.categories)}
    assert assured(setting, laws) > setting.certified
    assert audited(setting, broken, laws[setting.other], seed=22) > setting.certified


def test_a_crowd_of_real_clients_stays_within_what_is_certified() -> None:
    """Nobody's report is drawn from a law here: all five are randomized by the client."""
    trials, setting = 50_000, Setting(KRR.from_numerator(3, 2**30), 5, 0.05, 0, 1, 2)
    source = random.Random(23).randbytes
    passed = []
    for value in (setting.first, setting.second):
        inputs = [value] + [setting.other] * (setting.reports - 1)
        reports = np.array([[randomize(x, 3, setting.numerator, source) for x in inputs] for _ in range(trials)])
        counts = (reports[:, :, None] == np.arange(3)).sum(axis=1)
        passed.append((scores(setting, counts)[:, None] > THRESHOLDS).sum(axis=0))
    shown = epsilon_shown(passed[0], passed[1], setting.delta, trials)
    assert setting.certified / 2 < shown <= setting.certified


def test_confidence_is_what_it_claims_to_be() -> None:
    """At the exact rates of an ε-private event the shown ε stays below: 3 standard deviations of luck do not pass."""
    epsilon, delta, wrong = 0.5, 0.02, 0.1
    right = exp(epsilon) * wrong + delta
    lucky = [rate * TRIALS + side * 3 * (TRIALS * rate * (1 - rate)) ** 0.5 for rate, side in ((right, 1), (wrong, -1))]
    shown = epsilon_shown(np.array([round(lucky[0])]), np.array([round(lucky[1])]), delta)
    assert 0 < shown < epsilon
