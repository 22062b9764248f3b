"""Draws cases of every kind, enumerates them in fractions, and compares: no upper end below the truth, no lower above.

    python tests/loop/million.py [--cases N] [--seed S] [--minutes M] [--kind KIND] [--only NUMBER]

A case is one question: the δ of one law at one ε, or its ε at one δ. One law is asked many. Of certificates a case is
one stated ε, of samplers one law, and of intervals how often one is missed. It prints how many cases of each kind there
were, the least distance of an upper end from the truth, and for every violation a line that repeats it. The status is 1
if there was one.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from loop import adaptive_cases, over_rounds_cases  # noqa: E402
from loop.certificate_cases import certificates  # noqa: E402
from loop.exact_cases import Case, Exact  # noqa: E402
from loop.found import NOTHING, Claims, Found  # noqa: E402
from loop.interval_cases import intervals  # noqa: E402
from loop.sampler_cases import samplers  # noqa: E402

from hubbub.accountant import BOUNDS, compose, compose_delta, delta_bracket, epsilon_bracket  # noqa: E402
from hubbub.accountant.arithmetic_errors import BeyondArithmetic  # noqa: E402
from hubbub.accountant.composition import PAIR_ERROR  # noqa: E402
from hubbub.accountant.errors import AccountingError  # noqa: E402
from hubbub.accountant.losses.grid import LossGrid  # noqa: E402
from hubbub.accountant.mechanisms import exp_decimal, paid_rounds  # noqa: E402
from hubbub.accountant.pairs import attack_grid, dominating_grid, pairs_of  # noqa: E402
from support.exact_batches import View  # noqa: E402

Array = NDArray[np.float64]

GRID_QUESTIONS = 1000
"""Values of ε at which one round's losses are compared: each takes microseconds."""

QUESTIONS: Mapping[str, Callable[[random.Random], Case]] = {**over_rounds_cases.KINDS, **adaptive_cases.KINDS}
"""The kinds that are questions to a bound: how a case of each is drawn."""

CLAIMS: Mapping[str, Callable[[random.Random, Claims], None]] = {
    each.__name__: each for each in (certificates, samplers, intervals)
}
"""The other kinds: what draws each, and claims what is true of it."""

KINDS: Sequence[str] = (*QUESTIONS, *CLAIMS)
"""All kinds."""

DEAR, DEAR_EVERY = ("rounds", "adaptive", "adaptive-two", "adaptive-laws", "adaptive-noise"), 4
"""The kinds of which every composition takes a tenth of a second, and how seldom they are drawn."""

REFUSED = ("extremes",)
"""The kinds of which some questions are refused: no double resolves them."""

BOUND_QUESTIONS = 6
"""Values of ε at which the bounds, or the composition, are asked."""

DELTAS = (1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.999, 0.0, 1.0)
"""The δ at which ε is asked; some are out of range, and must be refused."""

TOLERANCE = Fraction(1, 10**9)
"""A local ε that was rounded up belongs to a law that differs by less than this, unless ε is just below it."""

DOUBT = 1e-15
"""Relative error of a sum of differences in doubles, of which each is rounded three times."""

MOST_COMPARED = 200
"""Most pairs of views that are compared in whole numbers at one ε."""


class Truth:
    """The largest divergence of the case's pairs of views, both ways, exactly."""

    def __init__(self, asked: Case) -> None:
        ordered = [each for first, second in asked.pairs for each in ((first, second), (second, first))]
        # Over one denominator, so that no fraction is ever reduced.
        self._whole = math.lcm(*{mass.denominator for view in asked.pairs[0] for mass in view.values()})
        for first, second in ordered:
            self._whole = math.lcm(self._whole, *{mass.denominator for mass in (*first.values(), *second.values())})
        self._exact = [_numerators(first, second, self._whole) for first, second in ordered]
        width = max(len(pairs) for pairs in self._exact)
        self._gap, self._q = np.zeros((len(self._exact), width)), np.zeros((len(self._exact), width))
        for row, pairs in enumerate(self._exact):
            # Subtracted as whole numbers: of a small local ε the difference of two doubles has lost its digits.
            self._gap[row, : len(pairs)] = [(p - q) / self._whole for p, q in pairs]
            self._q[row, : len(pairs)] = [q / self._whole for _, q in pairs]

    def delta(self, epsilon: float) -> Fraction:
        """Return it at `epsilon`: doubles find the pairs that may be the largest, and whole numbers compare those."""
        factor = Fraction(exp_decimal(epsilon))
        # Compared as a fraction: beyond an ε of 709 it is no double.
        rate = float(min(factor - 1, Fraction(10**300)))
        rough: Array = np.maximum(self._gap - rate * self._q, 0.0).sum(axis=1)
        # What the doubles of a row leave open: just below the local ε it is more than δ.
        doubt: Array = DOUBT * np.where(self._gap > 0, self._gap + rate * self._q, 0.0).sum(axis=1)
        close = np.flatnonzero(rough + doubt >= float((rough - doubt).max()) * (1 - 1e-9))
        # If they are many some are compared; each is a true divergence.
        chosen = sorted(close.tolist(), key=lambda row: -rough[row])[:MOST_COMPARED]
        grown, scale = factor.numerator, factor.denominator
        most = max(sum(max(p * scale - q * grown, 0) for p, q in self._exact[row]) for row in chosen)
        return Fraction(most, self._whole * scale)


def _numerators(first: View, second: View, whole: int) -> list[tuple[int, int]]:
    def of(mass: Fraction) -> int:
        return mass.numerator * (whole // mass.denominator)

    nothing = Fraction(0)
    return [(of(mass), of(second.get(at, nothing))) for at, mass in first.items()]


def _is_one_round(asked: Case) -> bool:
    """Whether the case is one batch, about which the bounds of one round are asked."""
    only = asked.parts[0]
    return len(asked.parts) == 1 and only.rounds == 1 and not only.sampled


class Losses:
    """A grid's δ by its formula, over the losses that have mass."""

    def __init__(self, grid: LossGrid) -> None:
        kept = grid.masses > 0
        self._losses, self._masses, self._infinite = grid.losses[kept], grid.masses[kept], grid.infinite

    def delta(self, epsilon: float) -> float:
        """Return δ at `epsilon`."""
        return float(self._masses @ -np.expm1(np.minimum(epsilon - self._losses, 0.0))) + self._infinite


def epsilons(draw: random.Random, local: float, count: int) -> Iterator[float]:
    """Yield 0, tiny and common values, those near the local ε, and beyond."""
    yield from (0.0, min(local, 100.0), min(local * 1.0000001, 100.0), 20.0)
    for _ in range(count - 4):
        share = draw.choice((draw.random(), draw.random() ** 4, 1 - draw.random() ** 6, 10 ** (-12 * draw.random())))
        yield min(share * local, 100.0)


def case(kind: str, draw: random.Random) -> Case:
    """Draw a question of this kind."""
    return QUESTIONS[kind](draw)


class Run:
    """Asks one case after the other."""

    def __init__(self, seed: int, found: Found) -> None:
        self._seed, self.found = seed, found

    def ask(self, kind: str, number: int) -> None:
        """Draw the case with this number and ask it everything."""
        draw = random.Random(f"{self._seed}:{kind}:{number}")

        def report(words: str) -> None:
            again = f"python tests/loop/million.py --seed {self._seed} --kind {kind} --only {number}"
            self.found.violations.append(f"{again}: {words}")

        try:
            if kind in CLAIMS:
                CLAIMS[kind](draw, Claims(kind, self.found, report))
            else:
                asked = case(kind, draw)
                self._ask_bounds(kind, asked, draw, lambda words: report(f"{asked.parts}: {words}"))
        except Exception as error:
            # What breaks is found, too, and the run goes on.
            report(f"FAULT {error!r} at {traceback.extract_tb(error.__traceback__)[-1]}")

    def _ask_bounds(self, kind: str, asked: Case, draw: random.Random, report: Callable[[str], None]) -> None:
        truth: Exact = Truth(asked) if asked.game is None else asked.game
        local = sum(part.mechanism.epsilon_local * part.rounds for part in asked.parts)
        try:
            if _is_one_round(asked) and paid_rounds(asked.parts[0].mechanism, 2) == 2:
                self._ask_grids(kind, asked, truth, draw, report)
            for epsilon in epsilons(draw, local, BOUND_QUESTIONS):
                self._ask_delta(kind, asked, truth, epsilon, report)
            for delta in draw.sample(DELTAS, 3):
                self._ask_epsilon(kind, asked, truth, delta, report)
        except BeyondArithmetic as error:
            report(f"{error}")
        except AccountingError:
            # Such as probabilities that no grid resolves: no number is stated.
            if kind not in REFUSED:
                raise
            self.found.refused[kind] += 1

    def _ask_grids(
        self, kind: str, asked: Case, truth: Exact, draw: random.Random, report: Callable[[str], None]
    ) -> None:
        part = asked.parts[0]
        upper, attack = Losses(dominating_grid(part, 60.0)), attack_grid(part, 60.0)
        lower = Losses(attack) if attack is not None and asked.attacked else None
        for epsilon in epsilons(draw, part.mechanism.epsilon_local, GRID_QUESTIONS):
            exact = truth.delta(epsilon)
            # As `one_round_delta` charges it.
            high = min(1.0, upper.delta(epsilon * (1 - 1e-14)) * (1 + PAIR_ERROR))
            if not self.found.above(f"{kind}, losses", high, exact):
                report(f"the losses' delta({epsilon!r}) is {high!r}, in truth {float(exact)!r}")
            if lower is not None:
                low = Fraction(max(lower.delta(epsilon * (1 + 1e-14)), 0.0)) * (1 - Fraction(PAIR_ERROR))
                if low > exact * (1 + TOLERANCE) + NOTHING:
                    report(f"the attack's delta({epsilon!r}) is {float(low)!r}, in truth {float(exact)!r}")

    def _ask_delta(self, kind: str, asked: Case, truth: Exact, epsilon: float, report: Callable[[str], None]) -> None:
        exact, part = truth.delta(epsilon), asked.parts[0]
        if _is_one_round(asked):
            found = delta_bracket(part.mechanism, part.reports, epsilon, dummies=part.dummies)
        else:
            found = compose_delta(asked.parts, epsilon)
        if _is_one_round(asked) and pairs_of(part.mechanism).whole_law is not None:
            # Among few people the bound by all that others send is seldom the smallest.
            whole = BOUNDS["whole-law"].delta(part.mechanism, part.reports, epsilon, part.dummies)[1]
            if not self.found.above(f"{kind}, whole law", whole, exact):
                report(f"the whole law's delta({epsilon!r}) is {whole!r}, in truth {float(exact)!r}")
        if not self.found.above(f"{kind}, delta", found.delta_upper, exact):
            report(f"delta({epsilon!r}) is {found.delta_upper!r}, in truth {float(exact)!r}")
        if asked.attacked and found.delta_lower and Fraction(found.delta_lower) > exact * (1 + TOLERANCE) + NOTHING:
            report(f"delta({epsilon!r}) is at least {found.delta_lower!r}, in truth {float(exact)!r}")

    def _ask_epsilon(self, kind: str, asked: Case, truth: Exact, delta: float, report: Callable[[str], None]) -> None:
        part = asked.parts[0]
        try:
            if _is_one_round(asked):
                found = epsilon_bracket(part.mechanism, part.reports, delta, dummies=part.dummies)
            else:
                found = compose(asked.parts, delta)
        except AccountingError:
            if 1e-100 <= delta < 1:
                raise
            self.found.refused[kind] += 1
            return
        exact = truth.delta(min(found.epsilon_upper, 1e4))
        if not self.found.above(f"{kind}, epsilon", delta, exact):
            report(f"epsilon({delta!r}) is {found.epsilon_upper!r}, where delta is {float(exact)!r}")
        lower = found.epsilon_lower
        if asked.attacked and lower:
            below = truth.delta(math.nextafter(lower, 0.0) * (1 - 1e-9))
            if below * (1 + TOLERANCE) < Fraction(delta):
                report(f"epsilon({delta!r}) is at least {lower!r}, where delta is {float(below)!r}")


def run(seed: int, cases: int, seconds: float, kinds: Sequence[str] = KINDS) -> Found:
    """Ask one law of each kind after the other until there were so many cases, or the time is over."""
    found, end, number = Found(), time.monotonic() + seconds, 0
    asking = Run(seed, found)
    while True:
        for kind in kinds:
            if kind not in DEAR or number % DEAR_EVERY == 0 or len(kinds) == 1:
                asking.ask(kind, number)
            if sum(found.cases.values()) >= cases or time.monotonic() >= end:
                return found
        number += 1


def told(found: Found) -> str:
    """Return what a run found, as text."""
    lines = [f"{'kind':<46}{'cases':>10}   least distance of an upper end from the truth"]
    for kind, cases in sorted(found.cases.items()):
        margin = found.margins.get(kind, math.inf)
        lines.append(f"{kind:<46}{cases:>10,}   {margin:.3g}")
    lines.append(f"{'all':<46}{sum(found.cases.values()):>10,}   {sum(found.refused.values())} refused")
    lines += [f"{len(found.violations)} violations", *found.violations[:50]]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it from the command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--cases", type=int, default=10**6, help="stop after so many")
    options.add_argument("--seed", type=int, default=0, help="of the draws")
    options.add_argument("--minutes", type=float, default=10.0, help="stop after so many")
    options.add_argument("--kind", choices=KINDS, help="draw this kind alone")
    options.add_argument("--only", type=int, help="ask the law with this number alone; needs --kind")
    given = options.parse_args(arguments)
    if given.only is not None:
        if given.kind is None:
            options.error("--only needs --kind")
        found = Found()
        Run(given.seed, found).ask(given.kind, given.only)
    else:
        kinds = (given.kind,) if given.kind else KINDS
        found = run(given.seed, given.cases, 60 * given.minutes, kinds)
    print(told(found))
    return 1 if found.violations else 0


if __name__ == "__main__":
    sys.exit(main())
