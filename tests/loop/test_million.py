"""Two seconds of `million.py`, and that it finds a bound that is below the truth."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from loop import million
from loop.exact_cases import Case
from loop.over_rounds_cases import KINDS, case

from hubbub.accountant import delta_bracket
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.mechanisms import KRR, exp_decimal
from hubbub.accountant.pairs import Part, dominating_grid
from support.exact_batches import batch_view


def test_no_case_of_two_seconds_is_below_the_truth() -> None:
    found = million.run(seed=39, cases=10**6, seconds=2.0, kinds=[kind for kind in KINDS if kind != "rounds"])
    assert found.violations == []
    assert sum(found.cases.values()) > 400
    assert "0 violations" in million.told(found)


def test_two_rounds_are_compared_with_their_product() -> None:
    found = million.Found()
    million.Run(39, found).ask("rounds", 3)
    assert found.violations == []
    assert found.cases["rounds, delta"] == million.BOUND_QUESTIONS


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_case_is_drawn_again_by_its_seed_and_its_views_are_laws(kind: str) -> None:
    first, second = (case(kind, random.Random("7:case")) for _ in range(2))
    assert first == second
    for views in first.pairs:
        assert [sum(view.values()) for view in views] == [1, 1]


def test_the_truth_is_the_largest_of_all_pairs_both_ways() -> None:
    mechanism = KRR(2, Fraction(1, 2))
    zero, one = mechanism.law(0), mechanism.law(1)
    pairs = tuple((batch_view((zero, other)), batch_view((one, other))) for other in (zero, one))
    truth = million.Truth(Case((Part(mechanism, 2),), pairs, attacked=True))
    # Of n = 2 with p = 1/4: the others' report hides the victim's.
    assert truth.delta(0.0) == max(
        sum((max(Fraction(0), p - pair[1].get(at, Fraction(0))) for at, p in pair[0].items()), Fraction(0))
        for pair in pairs
    )
    assert truth.delta(mechanism.epsilon_local * 1.001) == 0


@pytest.mark.parametrize("kind", ["unknown", "common"])
def test_just_below_the_local_epsilon_an_attack_is_not_above_the_truth(kind: str) -> None:
    asked = case(kind, random.Random("2711:unknown:4"))
    part, truth = asked.parts[0], million.Truth(asked)
    for off in (1e-9, 1e-12, 2e-13, 1e-14, 5e-16):
        epsilon = part.mechanism.epsilon_local * (1 - off)
        factor = Fraction(exp_decimal(epsilon))
        exact = max(
            sum((max(Fraction(0), p - factor * two.get(at, Fraction(0))) for at, p in one.items()), Fraction(0))
            for first, second in asked.pairs
            for one, two in ((first, second), (second, first))
        )
        assert truth.delta(epsilon) == exact
        found = delta_bracket(part.mechanism, part.reports, epsilon)
        assert found.delta_lower is not None
        assert found.delta_lower <= exact
        assert exact <= found.delta_upper


def test_a_bound_that_is_too_small_is_named_with_the_line_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def smaller(part: Part, log_tail: float) -> LossGrid:
        grid = dominating_grid(part, log_tail)
        return replace(grid, masses=grid.masses * 0.9)

    assert million.main(["--seed", "5", "--kind", "krr", "--only", "1"]) == 0
    monkeypatch.setattr(million, "dominating_grid", smaller)
    assert million.main(["--seed", "5", "--kind", "krr", "--only", "1"]) == 1
    said = capsys.readouterr().out
    assert "python tests/loop/million.py --seed 5 --kind krr --only 1: " in said
    assert "the losses' delta(" in said


def test_an_attack_above_the_truth_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = million.Found()
    monkeypatch.setattr(million, "attack_grid", dominating_grid)
    # With several categories and few people the bound is above every attack.
    for number in range(6):
        million.Run(5, found).ask("krr", number)
    assert any("the attack's delta(" in each for each in found.violations)


def test_a_number_alone_needs_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        million.main(["--only", "3"])
    assert "--only needs --kind" in capsys.readouterr().err
    assert million.main(["--cases", "1", "--minutes", "1", "--kind", "places"]) == 0
