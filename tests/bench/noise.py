"""What noise of the shuffler has to reach, from today's code: errors, and seconds of the processor.

Errors are exact standard errors. They are of counts at 0 and at n/4, and of a sum in widths of its range.
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from itertools import count
from math import sqrt
from time import process_time

from row import Comparison, Outcome, Result, Row, timed, timed_once

from hubbub.accountant import pairs
from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.digits import DigitsTarget, least_noise_of_bits, variance_of_laws
from hubbub.accountant.calibration.noise import least_noise
from hubbub.accountant.composition import compose, compose_upper
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.pairs import Part
from hubbub.planning.comparison import errors_at
from hubbub.planning.longitudinal.goals import Goal
from hubbub.planning.longitudinal.plan import StrategyTargets, compare_strategies
from hubbub.planning.plan import plan
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.design import Design
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number

EPSILON, DELTA = 1.0, 1e-6

LOCAL = 8.0
"""A randomizer whose part in what noise needs is small."""

COUNTS = (
    ("k16_1e4_cap8", 16, 10**4, 8.0, 3.4, 4.8),
    ("k16_1e5_cap10", 16, 10**5, 10.0, 3.5, 5.4),
    ("k16_1e6_cap12", 16, 10**6, 12.0, 3.8, 6.0),
    ("k1000_1e5_cap12", 1000, 10**5, 12.0, 3.0, 12.8),
)
"""Name, categories, reports, the cap on ε_local, and the largest errors at 0 and at a quarter."""

SUMS = (("1e4_cap8", 10**4, 8.0, 6.4), ("1e4_cap12", 10**4, 12.0, 4.7), ("1e6_cap14", 10**6, 14.0, 10.9))
"""Name, reports, the cap on ε_local and the largest error of a sum in one message."""

DIGITS, DIGITS_ERROR = 8, 3.03
"""Bits of a number, and the error by noise alone: 3.027 is the least of geometric laws (accounting-noise-digits.md)."""

DIRECT, DIRECT_REPORTS, DIRECT_ERROR = Horizon(64, 4), 10**6, 34.1

PLANNING_SECONDS, BRACKET_MILLISECONDS, ROUNDS, ROUNDS_SECONDS = 2.0, 10.0, 10**4, 1.0

PROCESSES = 5
"""New processes, each of which is asked once."""

ASKED = (
    ("one_round", "geometric", "0.6065", 27, (1, 1_000, 10_000)),
    ("many_rounds", "gaussian", "13010", 786, (1, 1_000, 10_000)),
)
"""The laws of one round and of 365 rounds at (1, 10⁻⁶) (docs/explanation/accounting-noise.md, Numbers), and reports."""


def noise_errors() -> Iterator[Outcome]:
    """The errors that noise leaves, each against its goal."""
    krr, two = (KRR.from_local_epsilon(symbols, LOCAL) for symbols in (16, 2))
    for name, krr_of, asked, limit in (
        ("k16", krr, (EPSILON, DELTA), 2.8),
        ("k16_half", krr, (0.5, 1e-8), 5.64),
        ("two_symbols", two, (EPSILON, DELTA), 1.36),
    ):
        deviation = sqrt(least_noise(krr_of, *asked).variance)
        yield Row.of(f"noise_part_{name}", "reports", deviation, limit)
    for name, symbols, reports, cap, rare, common in COUNTS:
        design = Design(Histogram("value", tuple(map(str, range(symbols)))))
        (chosen,) = calibrate([design], EPSILON, DELTA, reports, epsilon_local_cap=cap, noise="always")
        errors = errors_at(design, chosen, reports, 0, (0, reports // 4))
        yield Row.of(f"noise_count_{name}_at_0", "reports", errors[0], rare)
        yield Row.of(f"noise_count_{name}_at_quarter", "reports", errors[reports // 4], common)
    for name, reports, cap, limit in SUMS:
        design = Design(Number("value", 0.0, 1.0))
        (chosen,) = calibrate([design], EPSILON, DELTA, reports, epsilon_local_cap=cap, noise="always")
        yield Row.of(f"noise_sum_{name}", "ranges", chosen.expected_standard_error, limit)
    laws = least_noise_of_bits((KRR.from_numerator(2, 1),) * DIGITS, DigitsTarget(EPSILON, DELTA))
    yield Row.of("noise_digits", "ranges", sqrt(variance_of_laws(laws)), DIGITS_ERROR)
    wanted = StrategyTargets.of(DIRECT, Goal.over_all(EPSILON, DELTA, DIRECT_REPORTS), noise="always")
    (direct,) = compare_strategies(wanted, ["direct"])
    yield Row.of("noise_direct", "reports", direct.standard_error_mean, DIRECT_ERROR)


def noise_seconds() -> Iterator[Outcome]:
    """What planning, a bracket in a new process and many rounds take, in seconds of the processor."""
    planning, _ = timed_once(partial(plan, _draft()), clock=process_time)
    yield Row.of("noise_planning_time", "s", planning, PLANNING_SECONDS)
    for name, family, parameter, reach, people in ASKED:
        for reports in people:
            brackets = [1e3 * _in_a_new_process(family, parameter, reach, reports) for _ in range(PROCESSES)]
            yield Row.of(f"noise_bracket_{name}_{reports}", "ms", brackets, BRACKET_MILLISECONDS)
    krr = KRR.from_local_epsilon(16, LOCAL)
    part = Part(WithNoise(krr, least_noise(krr, EPSILON, DELTA, ROUNDS)), 1, ROUNDS)
    seconds, upper = timed(partial(_composed_afresh, part, compose_upper), repeats=3, clock=process_time)
    yield Row.of("noise_rounds_time", "s", seconds, ROUNDS_SECONDS)
    spent, found = timed_once(partial(_composed_afresh, part, compose), clock=process_time)
    yield Comparison("noise_rounds_time", "here, proven", upper, "epsilon", statistics.median(seconds))
    yield Comparison("noise_rounds_time", "here, attack, and the slack", found.epsilon_lower or 0.0, "epsilon", spent)


def _draft() -> Draft:
    """Two questions, as the demo has."""
    questions = Histogram("carrier", tuple(map(str, range(16)))), Number("delay", -30.0, 180.0, "minutes")
    privacy, schedule = Privacy(EPSILON, DELTA, LOCAL), Schedule(1_800_000_000, 3600, 60, 1)
    return Draft("noise", schedule, 18_000, privacy, questions, OPEN, noise="auto")


def _in_a_new_process(family: str, parameter: str, reach: int, reports: int) -> float:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_asked_once, family, parameter, reach, reports).result()


def _asked_once(family: str, parameter: str, reach: int, reports: int) -> float:
    mechanism = WithNoise(KRR.from_local_epsilon(16, LOCAL), NoiseLaw.of(family, Fraction(parameter), reach))
    return timed_once(partial(epsilon_bracket, mechanism, reports, DELTA), clock=process_time)[0]


_AFRESH = count()
"""How often something was composed: what is composed at one δ is kept."""


def _composed_afresh(part: Part, composing: Callable[[Sequence[Part], float], Result]) -> Result:
    for kept in (pairs.dominating_grid, pairs.attack_grid, pairs.dominated_grid):
        kept.cache_clear()
    return composing([part], DELTA * (1 + 1e-9 * next(_AFRESH)))


ROWS = (noise_errors, noise_seconds)
"""What `make bench` runs for noise."""
