"""Compares kRR with every law whose reports are subsets of the categories: the table of explanation/other-laws.md.

`cd docs && python -m papers.laws` prints it, in about five minutes. Nothing here is offered to a task.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import Noise
from hubbub.accountant.divergence.finite import finite_points
from hubbub.accountant.divergence.search import COARSE
from hubbub.accountant.mechanisms import Finite
from hubbub.accountant.mechanisms.laws import subset_selection
from hubbub.queries.design import Design
from hubbub.queries.questions.histogram import Histogram

UNIT = 1000
"""Shares of reports are multiples of one part in so many."""

RATIO_UNIT = 2**20
"""A ratio is a multiple of one part in so many."""

LOCAL_UNIT = 1000
"""ln(ratio) is one of the multiples of one part in so many, rounded down to a ratio: so a table can state it."""

PARTS = (1, 10, 50, 100, 200, 350, 550, 800, 900, 990)
"""Parts of the second size that are tried first, of `UNIT`."""

RESOLVED = 1.001
"""kRR is taken if its error is at most so many times the least one: ratios are multiples, so laws differ by that."""

LARGEST_SIZE = 24
"""The largest size that is tried: a larger subset has every other category too often."""

STEPS = 40
"""Steps of the search for the weights of an estimate."""


@dataclass(frozen=True)
class SubsetLaw:
    """A report is a subset of the categories; all categories are treated alike.

    Its size is drawn first, whatever the answer: a `sizes[i]` with probability `parts[i]` / `UNIT`. Of the subsets of
    that size, each with the answer in it is `ratio` times as likely as each without. Size 0 is "no answer". One
    part of size 1 is kRR, and one of a larger size subset selection.
    """

    categories: int
    sizes: tuple[int, ...]
    parts: tuple[int, ...]
    ratio: Fraction

    @cached_property
    def mechanism(self) -> Finite:
        """The law of three inputs and the blanket, as `subset_selection` has them, size by size."""
        rows: list[list[Fraction]] = [[] for _ in range(min(3, self.categories))]
        blanket: list[Fraction] = []
        for size, part in zip(self.sizes, self.parts, strict=True):
            share = Fraction(part, UNIT)
            if size == 0:
                rows, blanket = [[*row, share] for row in rows], [*blanket, share]
                continue
            of_size = subset_selection(self.categories, size, self.ratio)
            rows = [row + [share * chance for chance in law] for row, law in zip(rows, of_size.law, strict=True)]
            blanket += [share * mass for mass in of_size.masses]
        return Finite(tuple(tuple(row) for row in rows), tuple(blanket))

    def chances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the laws of what a count's estimate looks at: the size, and whether the category is in the subset.

        The first is that of a person with the category, the second that of another; shape (2 · sizes,) each.
        """
        own, other = [], []
        for size, part in zip(self.sizes, self.parts, strict=True):
            ratio, share = float(self.ratio), part / UNIT
            total = ratio * size + self.categories - size
            inside = ratio * size / total
            # Of the other categories in the subset, the answer takes one place if it is in it.
            elsewhere = (size - inside) / (self.categories - 1)
            own += [share * inside, share * (1 - inside)]
            other += [share * elsewhere, share * (1 - elsewhere)]
        return np.array(own), np.array(other)

    def variances(self, share: float) -> tuple[float, float]:
        """Return the variance that a person with the category adds to its count's estimate, and another person.

        The estimate is the unbiased linear one whose worst variance, of counts up to `share` of the people, is least.
        By convexity it is the best one for some mixture of the two kinds of people, which is searched.
        """
        own, other = (law for law in self.chances())
        low, high = 0.0, share
        for _ in range(STEPS):
            left, right = low + 0.382 * (high - low), low + 0.618 * (high - low)
            if _blended(left, *_best_for(left, own, other)) < _blended(right, *_best_for(right, own, other)):
                low = left
            else:
                high = right
        return _best_for(high, own, other)

    def worst(self, share: float) -> float:
        """Return the largest variance of a count of at most `share` of the people, for each person of the batch."""
        own, other = self.variances(share)
        return max(other, _blended(share, own, other))


def _blended(share: float, own: float, other: float) -> float:
    return share * own + (1 - share) * other


def _best_for(share: float, own: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Return both variances under the weights with the least variance if `share` of the people have the category.

    With the law ω of such a person's report, the weights f that minimize E_ω f² under E f = 1 for `own` and 0 for
    `other` are a combination of own/ω and other/ω (Lagrange).
    """
    mixed = share * own + (1 - share) * other
    seen = mixed > 0
    laws = np.array([own[seen], other[seen]])
    scaled = laws / mixed[seen]
    weights = np.linalg.solve(scaled @ laws.T, np.array([1.0, 0.0])) @ scaled
    squares = laws @ weights**2
    return float(squares[0] - 1), float(squares[1])


@dataclass(frozen=True)
class Case:
    """What is asked: k `categories`, `reports`, (epsilon, delta), the `cap` on ε_local and the largest `share`."""

    categories: int
    reports: int
    epsilon: float
    delta: float
    cap: float
    share: float


def offered(case: Case, randomizer: str, noise: Noise) -> float:
    """Return the worst standard error that planning has for a histogram through that randomizer."""
    names = tuple(str(place) for place in range(case.categories))
    design = Design(Histogram("count", names, randomizer=randomizer, share=case.share))
    target = case.epsilon, case.delta, case.reports
    return calibrate([design], *target, epsilon_local_cap=case.cap, noise=noise)[0].expected_standard_error


def law_of(categories: int, sizes: Sequence[int], parts: Sequence[int], local: int) -> SubsetLaw:
    """Return the law of that ln(ratio), in parts of `LOCAL_UNIT`."""
    ratio = Fraction(int(exp(local / LOCAL_UNIT) * RATIO_UNIT), RATIO_UNIT)
    return SubsetLaw(categories, tuple(sizes), tuple(parts), ratio)


def strongest(case: Case, sizes: Sequence[int], parts: Sequence[int]) -> SubsetLaw:
    """Return the law of these sizes with the largest ratio within the cap that meets (ε, δ)."""

    def meets(local: int) -> bool:
        # An upper end of ln δ, however coarse: what is returned is private enough, and little too much.
        mechanism = law_of(case.categories, sizes, parts, local).mechanism
        return finite_points(mechanism).log_upper(case.reports, case.epsilon, COARSE) <= log(case.delta)

    low, high = int(min(case.epsilon, case.cap) * LOCAL_UNIT), int(case.cap * LOCAL_UNIT)
    if meets(high):
        low = high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return law_of(case.categories, sizes, parts, low)


def error(case: Case, law: SubsetLaw) -> float:
    """Return the law's worst standard error in the case."""
    return sqrt(case.reports * law.worst(case.share))


def best(case: Case) -> SubsetLaw:
    """Return the best law found: one size, two neighboring sizes, or single categories and no answer."""
    most = min(case.categories // 2, LARGEST_SIZE)
    alone = [strongest(case, (size,), (UNIT,)) for size in range(2, most + 1)]
    size = min(alone, key=lambda law: error(case, law)).sizes[0]
    pairs = ((1, 0), (size - 1, size), (size, size + 1))
    tried = [mixture(case, *pair) for pair in pairs if pair[1] < case.categories]
    krr, found = strongest(case, (1,), (UNIT,)), min(alone + tried, key=lambda law: error(case, law))
    return krr if error(case, krr) <= RESOLVED * error(case, found) else found


def mixture(case: Case, first: int, second: int) -> SubsetLaw:
    """Return the best law found in which some reports have the first size, and the others the second one."""

    def at(part: int) -> SubsetLaw:
        return strongest(case, (first, second), (UNIT - part, part))

    known = {part: at(part) for part in PARTS}
    place = min(range(len(PARTS)), key=lambda each: error(case, known[PARTS[each]]))
    low, high = PARTS[max(0, place - 1)], PARTS[min(len(PARTS) - 1, place + 1)]
    known |= {part: at(part) for part in range(low, high, max(1, (high - low) // 5))}
    return min(known.values(), key=lambda law: error(case, law))


def cases() -> tuple[Case, ...]:
    """Return what the table lists."""
    found = []
    for categories in (4, 16, 100):
        rare = max(0.01, 1 / categories)
        for reports in (10**3, 10**4, 10**5, 10**6):
            found += [Case(categories, reports, 1.0, 1e-6, 8.0, share) for share in (rare, 1.0)]
        found += [Case(categories, 10**4, 1.0, 1e-6, 4.0, share) for share in dict.fromkeys((rare, 0.25, 1.0))]
        found.append(Case(categories, 10**3, 0.25, 1e-6, 8.0, rare))
    return tuple(found)


def row(case: Case) -> str:
    """Return the case's line of the table."""
    law = best(case)
    without, beside = offered(case, "auto", "none"), offered(case, "krr", "always")
    krr, found = offered(case, "krr", "none"), error(case, law)
    kinds = ", ".join(f"{size}: {part / UNIT:g}" for size, part in zip(law.sizes, law.parts, strict=True))
    local = round(LOCAL_UNIT * log(law.ratio)) / LOCAL_UNIT
    asked = [f"{case.epsilon:g}", str(case.categories), f"{case.reports:,}", f"{case.cap:g}", f"{case.share:g}"]
    errors = [f"{each:.4g}" for each in (krr, without, beside, found)]
    relative = [f"{found / known:.3f}" for known in (without, min(without, beside))]
    return f"| {' | '.join([*asked, *errors, kinds, f'{local:g}', *relative])} |"


def main() -> None:
    """Print the table."""
    for case in cases():
        sys.stdout.write(row(case) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
