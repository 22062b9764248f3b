"""Time, tightness and memory of one round, of many rounds and of a calibration."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from time import process_time

from elsewhere import clones_closed, renyi_composed, stronger_clones_closed, sum_by_theorem
from row import Comparison, Outcome, Row, timed, timed_once

from hubbub.accountant import pairs
from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.composition import compose
from hubbub.accountant.library.dp_accounting import to_dp_accounting
from hubbub.accountant.mechanisms import KRR, Finite, Generic, Mechanism
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.pairs import Part
from hubbub.planning.longitudinal.goals import Goal
from hubbub.planning.longitudinal.plan import StrategyTargets, chosen, compare_strategies
from hubbub.queries.design import Design
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.krr import KRandomizedResponse

EPSILON_LOCAL, DELTA = 4.0, 1e-6
"""One round: a local ε at which amplification matters most."""

ONE_ROUND = (("krr", KRR.from_local_epsilon(16, EPSILON_LOCAL)), ("generic", Generic(EPSILON_LOCAL)))
WHOLE_NUMBERS = tuple(20 + place * place * 7919 % 61 for place in range(64))
LAW = Finite(
    tuple(
        tuple(Fraction(weight, sum(WHOLE_NUMBERS)) for weight in (*WHOLE_NUMBERS[turn:], *WHOLE_NUMBERS[:turn]))
        for turn in (0, 1, 3)
    )
)
"""A law of 64 outputs, all of which tell inputs apart differently."""

SCALES = (("1e6", 10**6, 50.0), ("1e9", 10**9, 150.0))
"""Name, reports and the goal in milliseconds."""

SLACK = 1e-4
"""Largest relative width of a one-round evaluation."""

MANY = Part(Generic(0.5), 10**6, 10**5)
MANY_BINARY = Part(KRR.from_local_epsilon(2, 0.5), 10**6, 10**5)
MANY_DELTA = 1e-8
MANY_ROUNDS = (("generic", MANY, 0.91), ("krr_2", MANY_BINARY, 0.82))
MANY_SECONDS = 5.0

SUM = (0.5, 1e-8, 10**6)
"""ε, δ and reports of the sum."""

SUM_DESIGN = Design(Number("value", 0.0, 1.0))

SUM_MSE, SUM_SECONDS = 1995.0, 5.0
HORIZON, HORIZON_TARGET, HORIZON_SECONDS = Horizon(64, 4), (1.0, 1e-6, 10**6), 5.0
"""Periods and changes; ε, δ and reports."""

MEMORY = 300.0
"""Mebibytes, whatever n."""

MEMORY_SCALES, MEMORY_ROUNDS = (10**6, 10**9, 10**12), 10**5
"""The reports of a round that are tried for it, and the rounds."""

INTERVAL = 2e-5
"""Grid of the dp_accounting comparison, in nats: fine against one round's loss."""


def memory() -> Iterator[Outcome]:
    """Peak memory of a process that computes every row below at n = 10¹² too.

    It must come first: a new process starts with the peak of the one that made it.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        many = [part for _, part, _ in MANY_ROUNDS]
        peak = pool.submit(_peak_of_everything, MEMORY_SCALES, MEMORY_ROUNDS, many).result()
    yield Row.of("account_memory", "MiB", peak, MEMORY)


def _peak_of_everything(scales: Iterable[int], rounds: int, many: Iterable[Part]) -> float:
    for reports in scales:
        for _, mechanism in ONE_ROUND:
            epsilon_bracket(mechanism, reports, DELTA)
            compose([Part(mechanism, reports, rounds)], MANY_DELTA)
    for part in many:
        compose([part], MANY_DELTA)
    calibrate([SUM_DESIGN], *SUM)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_round() -> Iterator[Outcome]:
    """ε at δ of one round: both ends, the attack included."""
    for name, mechanism in ONE_ROUND:
        for scale, reports, limit in SCALES:
            yield from _one_round(f"account_{name}_{scale}", mechanism, reports, limit)
    seconds, found = timed(partial(epsilon_bracket, LAW, SCALES[0][1], DELTA), clock=process_time)
    yield Row.of("account_finite_1e6_time", "ms", _milliseconds(seconds), SCALES[0][2])
    yield Row.of("account_finite_1e6_slack", "", found.numerical_slack, SLACK)


def _one_round(name: str, mechanism: Mechanism, reports: int, limit: float) -> Iterator[Outcome]:
    seconds, found = timed(partial(epsilon_bracket, mechanism, reports, DELTA))
    yield Row.of(f"{name}_time", "ms", _milliseconds(seconds), limit)
    yield Row.of(f"{name}_slack", "", found.numerical_slack, SLACK)
    yield Comparison(name, "here, proven", found.epsilon_upper, "epsilon", statistics.median(seconds))
    closed: Iterable[tuple[str, Callable[[float, int, float], float]]] = (
        ("feldman-2022, Thm 3.2", stronger_clones_closed),
        ("clones, closed form", clones_closed),
    )
    for how, formula in closed:
        spent, value = timed(partial(formula, EPSILON_LOCAL, reports, DELTA))
        yield Comparison(name, how, value, "epsilon", statistics.median(spent))


def _milliseconds(seconds: Iterable[float]) -> list[float]:
    return [1e3 * each for each in seconds]


def many_rounds() -> Iterator[Outcome]:
    """ε at δ of 10⁵ rounds, from nothing: what an earlier call kept is forgotten."""
    for name, part, limit in MANY_ROUNDS:
        seconds, found = timed(partial(_composed_afresh, part), repeats=3)
        row = f"account_rounds_{name}"
        yield Row.of(f"{row}_epsilon", "epsilon", found.epsilon_upper, limit)
        yield Row.of(f"{row}_time", "s", seconds, MANY_SECONDS)
        taken = statistics.median(seconds)
        yield Comparison(row, "here, proven", found.epsilon_upper, "epsilon", taken)
        yield Comparison(row, "here, attack", found.epsilon_lower or 0.0, "epsilon", taken)
        spent, value = timed_once(partial(_by_library, part))
        yield Comparison(row, "dp_accounting, from our pair", value, "epsilon", spent)
    spent, value = timed_once(partial(renyi_composed, 0.5, MANY.reports, MANY.rounds, MANY_DELTA))
    yield Comparison("account_rounds_generic", "girgis-2021 (5)", value, "epsilon", spent)


def _composed_afresh(part: Part) -> EpsilonBracket:
    for kept in (pairs.dominating_grid, pairs.attack_grid, pairs.dominated_grid):
        kept.cache_clear()
    return compose([part], MANY_DELTA)


def _by_library(part: Part) -> float:
    """Compose one round's losses, laid on its grid by us, with the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(to_dp_accounting(part, INTERVAL).get_epsilon_for_delta(MANY_DELTA))


def calibration() -> Iterator[Outcome]:
    """The sum with the least worst-case error."""
    seconds, (chosen,) = timed(partial(calibrate, [SUM_DESIGN], *SUM), repeats=3)
    yield Row.of("account_sum_mse", "mse", chosen.mse, SUM_MSE)
    yield Row.of("account_sum_time", "s", seconds, SUM_SECONDS)
    yield Comparison("account_sum", "here, exact worst case", chosen.mse, "mse", statistics.median(seconds))
    spent, (levels, gamma) = timed(partial(sum_by_theorem, *SUM))
    theirs = KRandomizedResponse(levels + 1, round(gamma * DENOMINATOR))
    worst = SUM_DESIGN.mse(levels + 1, theirs, SUM[2], 0)
    yield Comparison("account_sum", "balle-2019, Thm 4.1 with Thm 3.1", worst, "mse", statistics.median(spent))


def horizon() -> Iterator[Outcome]:
    """Every strategy for a boolean over time, calibrated to one (ε, δ): in seconds of the processor."""
    wanted = StrategyTargets.of(HORIZON, Goal.over_all(*HORIZON_TARGET), steady_share=1.0)
    seconds, found = timed_once(partial(compare_strategies, wanted), clock=process_time)
    yield Row.of("account_longitudinal_time", "s", seconds, HORIZON_SECONDS)
    error = chosen(found).standard_error_mean
    yield Comparison("account_longitudinal", "here, exact error of the chosen", error, "reports", seconds)


ROWS: tuple[Callable[[], Iterator[Outcome]], ...] = (memory, one_round, many_rounds, calibration, horizon)
"""What `make bench` runs for the accountant, in this order."""
