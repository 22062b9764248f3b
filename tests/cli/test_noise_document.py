"""The page on noise of the shuffler: its tables and its printed answer are what the accountant computes."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket, epsilon_upper
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise
from hubbub.accountant.mechanisms.exact import exp_decimal
from hubbub.accountant.pairs import Part
from hubbub.cli.mechanisms.arguments import read_noise
from support.documented_commands import answers, missing, said

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "accounting-noise.md").read_text()
NUMBERS = PAGE[PAGE.index("\n## Numbers\n") :]
LEAST, TWO = NUMBERS.split("\nWith two symbols,")[:2]
TARGETS = {"(1, 10⁻⁶)": (1.0, 1e-6), "(1, 10⁻⁸)": (1.0, 1e-8), "(1/2, 10⁻⁸)": (0.5, 1e-8)}
ROW = re.compile(r"^\| (\([^|]+\)) \| (\d+) \| `([^`]+)` \| ([\d.]+) \| `([^`]+)` \| ([\d.]+) \|$", re.MULTILINE)

Case = tuple[int, str, int, str, str]


def cases() -> list[Case]:
    """Categories, target, rounds, noise and its standard deviation, of both tables."""
    found: list[Case] = []
    for categories, table in ((16, LEAST), (2, TWO)):
        for target, rounds, *laws in ROW.findall(table):
            found += [(categories, target, int(rounds), *laws[at : at + 2]) for at in (0, 2)]
    return found


CASES = cases()


def test_both_tables_are_read() -> None:
    assert len(CASES) == 2 * 2 * 9
    assert {case[2] for case in CASES} == {1, 12, 365}


@pytest.mark.parametrize(("categories", "target", "rounds", "noise", "deviation"), [c for c in CASES if c[2] == 1])
def test_laws_of_one_round_meet_their_target(
    categories: int, target: str, rounds: int, noise: str, deviation: str
) -> None:
    mechanism, epsilon, delta = _asked(categories, target, noise, deviation)
    assert 0.99 * epsilon < epsilon_upper(mechanism, 1, delta, bound="noise") <= epsilon


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("categories", "target", "rounds", "noise", "deviation"), [c for c in CASES if c[2] > 1])
def test_laws_of_many_rounds_meet_their_target(
    categories: int, target: str, rounds: int, noise: str, deviation: str
) -> None:
    mechanism, epsilon, delta = _asked(categories, target, noise, deviation)
    assert 0.99 * epsilon < compose_upper([Part(mechanism, 1, rounds)], delta) <= epsilon


def _asked(categories: int, target: str, noise: str, deviation: str) -> tuple[WithNoise, float, float]:
    law = read_noise(noise, "noise")
    assert float(law.variance) ** 0.5 == pytest.approx(float(deviation), rel=0.005)
    return WithNoise(KRR.from_local_epsilon(categories, 8.0), law), *TARGETS[target]


SMALL = re.findall(r"^\| (\d/\d+) \| (\d/\d) \| (\d) \| ([\d.]+)" + r" \| (0\.\d+)" * 5 + r" \|$", PAGE, re.MULTILINE)


def test_small_cases_are_read() -> None:
    assert len(SMALL) == 3


@pytest.mark.parametrize(("gamma", "ratio", "reach", "epsilon", "attack", "exact", "pair", "told", "convexity"), SMALL)
def test_what_the_other_symbols_save(
    gamma: str,
    ratio: str,
    reach: str,
    epsilon: str,
    attack: str,
    exact: str,
    pair: str,
    told: str,
    convexity: str,
) -> None:
    mechanism = WithNoise(KRR(3, Fraction(gamma)), NoiseLaw.of("geometric", Fraction(ratio), int(reach)))
    at = float(epsilon)
    assert pytest.approx(float(exact), abs=1e-6) == view_divergence(mechanism, at)
    assert pytest.approx(float(pair), abs=1e-6) == BOUNDS["noise"].delta(mechanism, 1, at)[1]
    assert pytest.approx(float(attack), abs=1e-6) == BOUNDS["noise-lower"].delta(mechanism, 1, at)[0]
    own, other, power = float(mechanism.krr.truthful), float(mechanism.krr.other), float(exp_decimal(at))
    assert pytest.approx(float(told), abs=1e-6) == two_counts(mechanism, own - power * other, power * own - other)
    # At this local ε a report is its answer, so this is the divergence of A and B.
    assert pytest.approx(float(convexity), abs=1e-6) == (own - other) * two_counts(mechanism, 1.0, power)


def two_counts(mechanism: WithNoise, alpha: float, beta: float) -> float:
    """Σ (α·A − β·B)₊, A and B the laws of two counts for two reports."""
    chances = [0.0, *(float(Fraction(weight, 2**128)) for weight in mechanism.noise.weights), 0.0]
    one = list(itertools.pairwise(chances))
    return sum(max(0.0, alpha * p * d - beta * q * c) for (p, q), (c, d) in itertools.product(one, one))


def view_divergence(mechanism: WithNoise, epsilon: float) -> float:
    """δ of one report of three symbols beside noise, summed over all counts."""
    chances = [float(Fraction(weight, 2**128)) for weight in mechanism.noise.weights]
    reach, power = len(chances) + 1, float(exp_decimal(epsilon))
    found = 0.0
    for counts in itertools.product(range(reach), repeat=3):
        by_report = [_chance(chances, counts, report) for report in range(3)]
        first, second = (
            sum(float(share) * each for share, each in zip(mechanism.krr.law(x), by_report, strict=True))
            for x in (0, 1)
        )
        found += max(0.0, first - power * second)
    return found


def _chance(chances: list[float], counts: tuple[int, ...], report: int) -> float:
    """The probability of these counts if the report is `report`."""
    product = 1.0
    for symbol, count in enumerate(counts):
        drawn = count - (symbol == report)
        product *= chances[drawn] if 0 <= drawn < len(chances) else 0.0
    return product


def test_the_printed_answer_is_what_is_printed() -> None:
    [(command, lines)] = answers(PAGE)
    assert len(said(lines)) == 4
    assert missing(command, lines) == []


def test_the_attack_beside_honest_people_reaches_what_is_printed() -> None:
    section = PAGE[PAGE.index("\n## The attack\n") :].split("\n## Numbers\n")[0]
    assert "`epsilon_lower` is null" not in section
    mechanism = WithNoise(KRR.from_local_epsilon(16, 8.0), read_noise("geometric:0.6053:27", "noise"))
    printed = re.search(
        r"n = 1000 it reaches ([\d.]+),.*n = 10⁵ others\s+hide more, and it reaches ([\d.]+)\.\n", section, re.S
    )
    assert printed
    for reports, reached in zip((1000, 10**5), printed.groups(), strict=True):
        lower = epsilon_bracket(mechanism, reports, 1e-6).epsilon_lower
        assert lower is not None
        assert float(reached) <= lower <= 1.001 * float(reached)
