"""The page on other laws: its table is what the accountant says, and its laws are what `papers.laws` says they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.accountant.bounds import epsilon_upper
from hubbub.accountant.mechanisms import KRR, Finite
from papers.laws import UNIT, Case, SubsetLaw, best, cases, error, law_of, offered, row, strongest
from support.source_tree import ROOT

PAGE = (ROOT / "docs" / "explanation" / "other-laws.md").read_text()
ROW = re.compile(r"^\| [\d.]+ \| \d+ \| [\d,]+ \| \d+ \| [\d.]+ \|.*\|$", re.MULTILINE)
MIXED = SubsetLaw(4, (0, 1, 2, 3), (100, 500, 300, 100), Fraction(6))


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    text: str

    @property
    def cells(self) -> list[str]:
        return [cell.strip() for cell in self.text.strip("|").split("|")]

    @property
    def case(self) -> Case:
        epsilon, categories, reports, cap, share = self.cells[:5]
        return Case(int(categories), int(reports.replace(",", "")), float(epsilon), 1e-6, float(cap), float(share))

    @property
    def law(self) -> SubsetLaw:
        kinds = [kind.split(": ") for kind in self.cells[9].split(", ")]
        parts = [round(float(part) * UNIT) for _, part in kinds]
        return law_of(
            self.case.categories, [int(size) for size, _ in kinds], parts, round(float(self.cells[10]) * UNIT)
        )

    @property
    def errors(self) -> list[float]:
        """Of kRR, of the best without noise, of kRR beside noise, and of the law."""
        return [float(cell) for cell in self.cells[5:9]]


LINES = [Line(found) for found in ROW.findall(PAGE)]


def named(lines: list[Line]) -> list[pytest.param]:
    return [pytest.param(line, id="-".join(line.cells[:5])) for line in lines]


def subsets(law: SubsetLaw) -> tuple[list[frozenset[int]], list[list[Fraction]]]:
    """Every report, and the probability of each for every answer."""
    outputs, rows = [], [[] for _ in range(law.categories)]
    for size, part in zip(law.sizes, law.parts, strict=True):
        for chosen in combinations(range(law.categories), size):
            outputs.append(frozenset(chosen))
            inside, outside = (comb(law.categories - 1, size - 1) if size else 0), comb(law.categories - 1, size)
            unit = Fraction(part, UNIT) / (law.ratio * inside + outside)
            for answer, chances in enumerate(rows):
                chances.append(unit * (law.ratio if answer in chosen else 1))
    return outputs, rows


def test_three_inputs_stand_for_all() -> None:
    _, rows = subsets(MIXED)
    whole = Finite(tuple(map(tuple, rows)))
    assert whole.gamma == MIXED.mechanism.gamma
    for reports in (1, 7, 1000):
        seen = [epsilon_upper(each, reports, 1e-6, bound="blanket") for each in (whole, MIXED.mechanism)]
        assert seen[0] == pytest.approx(seen[1], rel=1e-4)


def test_single_categories_are_krr() -> None:
    law = SubsetLaw(5, (1,), (UNIT,), Fraction(20))
    krr = KRR(5, 5 / (Fraction(20) + 4))
    assert epsilon_upper(law.mechanism, 500, 1e-6) == pytest.approx(epsilon_upper(krr, 500, 1e-6), rel=1e-4)


@pytest.mark.parametrize("share", [0.25, 0.6, 1.0])
def test_the_estimate_is_the_best_of_all_that_look_at_the_whole_report(share: float) -> None:
    outputs, rows = subsets(MIXED)
    laws: NDArray[np.float64] = np.array(rows, dtype=float)
    own, other = MIXED.variances(share)

    def least(weight: float) -> float:
        # The least variance of all functions of the report that are 1 on average for answer 0, and 0 for all others.
        mixed = weight * laws[0] + (1 - weight) * laws[1:].mean(axis=0)
        unbiased = np.array([1.0, 0.0, 0.0, 0.0])
        return float(unbiased @ np.linalg.solve((laws / mixed) @ laws.T, unbiased)) - weight

    assert len(outputs) == 1 + 4 + 6 + 4
    bound = max(least(weight) for weight in np.linspace(0.0, share, 2001))
    assert MIXED.worst(share) == pytest.approx(bound, rel=1e-5)
    assert max(own * share + other * (1 - share), other) == MIXED.worst(share)


def test_people_who_do_not_answer_are_a_sample_left_out() -> None:
    silent = SubsetLaw(4, (1, 0), (600, 400), Fraction(10**9))
    # Six of ten people answer, nearly plainly. The variance of a sample is worst if half of the people have a category.
    assert silent.worst(1.0) == pytest.approx(0.4 / 0.6 / 4, rel=1e-6)


def test_no_answer_helps_only_if_nobody_has_a_third_category() -> None:
    def products(law: SubsetLaw) -> tuple[float, float]:
        (own, *_), (other, *_) = law.chances()
        variance = other * (1 - other) / (own - other) ** 2
        gap = (own - other) ** 2
        return variance * gap * (1 / own + 1 / other), variance * gap * 2 / other

    krr = products(SubsetLaw(16, (1,), (UNIT,), Fraction(101, 100)))
    silent = products(SubsetLaw(16, (1, 0), (10, UNIT - 10), Fraction(1000)))
    assert krr == pytest.approx((2 * (1 - 1 / 16),) * 2, rel=0.01)
    assert silent == pytest.approx((1.0, 2.0), rel=0.01)


def test_the_table_lists_every_case() -> None:
    assert [line.case for line in LINES] == list(cases())


@pytest.mark.sampled(9)
@pytest.mark.parametrize("line", named(LINES))
def test_laws_of_the_table_are_certified_and_have_its_errors(line: Line) -> None:
    case, law = line.case, line.law
    assert error(case, law) == pytest.approx(line.errors[3], rel=1e-3)
    upper = epsilon_upper(law.mechanism, case.reports, case.delta)
    # A law within the cap may be more private than asked.
    assert upper <= case.epsilon
    assert upper > 0.98 * case.epsilon or float(law.ratio) > np.exp(case.cap - 2e-3)


@pytest.mark.parametrize("line", named(LINES))
def test_relative_errors_of_the_table(line: Line) -> None:
    _, without, beside, found = line.errors
    shown = [float(cell) for cell in line.cells[11:]]
    assert shown == pytest.approx([found / without, found / min(without, beside)], rel=2e-3)


@pytest.mark.parametrize("line", named(LINES[::5]))
def test_krr_of_the_table_is_what_planning_has(line: Line) -> None:
    assert offered(line.case, "krr", "none") == pytest.approx(line.errors[0], rel=1e-3)
    assert offered(line.case, "krr", "always") == pytest.approx(line.errors[2], rel=1e-3)


def test_a_line_is_found_again() -> None:
    line = next(line for line in LINES if line.cells[:5] == ["1", "16", "10,000", "4", "1"])
    assert row(line.case) == line.text


def test_what_the_page_concludes() -> None:
    rare = [line for line in LINES if line.case.share < 0.1 or (line.case.categories, line.case.share) == (4, 0.25)]
    beaten = [line for line in LINES if float(line.cells[12]) < 0.97]
    # Planned for rare categories, as `auto` does: under a cap of 8, nothing gains anything.
    assert all(float(line.cells[11]) > 0.995 for line in rare if line.case.cap == 8)
    # Where a law gains beside what noise does, either the cap is 4, or common categories are planned for.
    assert all(line.case.cap == 4 or line.case.share == 1 for line in beaten)
    assert all(line.case.categories >= 16 for line in beaten)
    assert min(float(line.cells[12]) for line in LINES) > 0.8


# `test_laws_of_the_table_are_certified_and_have_its_errors` has what it found.
@pytest.mark.exhaustive
def test_the_search_finds_krr_if_it_is_best() -> None:
    case = Case(4, 10**4, 1.0, 1e-6, 8.0, 0.25)
    assert sqrt(case.reports * best(case).worst(case.share)) == error(case, strongest(case, (1,), (UNIT,)))
