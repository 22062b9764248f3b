"""Two seconds of `million.py`, and that it finds what is below the truth, of another law, or broken."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from loop import adaptive_cases, certificate_cases, interval_cases, million, sampler_cases
from loop.adaptive_cases import Choices, Game
from loop.exact_cases import Case
from loop.found import Claims, Found
from loop.million import CLAIMS, KINDS, QUESTIONS, case

from hubbub.accountant import delta_bracket
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import RoundCounts, Terms
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.mechanisms import KRR, exp_decimal
from hubbub.accountant.pairs import Part, dominating_grid
from hubbub.queries.estimation.count_law import CountLaw
from hubbub.queries.estimation.significance import exact_p_values
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random
from support.exact_batches import View, batch_view


def test_no_case_of_two_seconds_is_below_the_truth() -> None:
    found = million.run(seed=39, cases=10**6, seconds=2.0, kinds=[kind for kind in KINDS if kind not in million.DEAR])
    assert found.violations == []
    assert sum(found.cases.values()) > 400
    assert "0 violations" in million.told(found)


def test_two_rounds_are_compared_with_their_product() -> None:
    found = Found()
    million.Run(39, found).ask("rounds", 3)
    assert found.violations == []
    assert found.cases["rounds, delta"] == million.BOUND_QUESTIONS


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_case_is_drawn_again_by_its_seed_and_its_views_are_laws(kind: str) -> None:
    first, second = (case(kind, random.Random("7:case")) for _ in range(2))
    assert first == second
    for views in first.pairs:
        assert [sum(view.values()) for view in views] == [1, 1]
    if isinstance(first.game, Game):
        for choices in first.game.rounds:
            assert {tuple(map(sum, zip(*view, strict=True))) for view in choices.views} == {(choices.whole,) * 2}
    assert bool(first.pairs) != bool(first.game)


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
    found = Found()
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


# Games


def test_the_best_choice_after_each_outcome_is_taken() -> None:
    """Of two rounds of one bit: a second view that is best after a 0 and another after a 1 win more than either."""
    quarter = Fraction(1, 4)
    law: View = {(0,): quarter, (1,): 1 - quarter}
    turned: View = {(0,): 1 - quarter, (1,): quarter}
    sure: View = {(0,): Fraction(1)}
    nothing = (sure, sure)
    first, second = Choices.of([(law, turned)]), Choices.of([(law, turned), nothing])
    for epsilon in (0.0, 0.3, 1.0, 2.0, 2.2):
        factor = Fraction(exp_decimal(epsilon))
        by_hand = max(
            sum(max(p * a - factor * q * b, Fraction(0)) for p, q in view for a, b in chosen)
            for view in ([(quarter, 1 - quarter), (1 - quarter, quarter)],)
            for chosen in ([(quarter, 1 - quarter), (1 - quarter, quarter)],)
        )
        assert Game((first, second)).delta(epsilon) >= by_hand
        # An outcome of no use is as if nothing was asked in the second round.
        alone = Game((first, Choices.of([nothing]))).delta(epsilon)
        assert alone == Game((first,)).delta(epsilon)
        assert Game((first, second)).delta(epsilon) >= alone
    assert Game((first, second)).delta(0.0) == Game((first, Choices.of([(law, turned)]))).delta(0.0)


def test_a_game_is_above_what_is_chosen_beforehand() -> None:
    """Among three people the others' answers that hide worst depend on what was seen."""
    mechanism = KRR(2, Fraction(1, 3))
    zero, one = mechanism.law(0), mechanism.law(1)
    choices = Choices.of(
        [(batch_view((zero, *held)), batch_view((one, *held))) for held in product((zero, one), repeat=2)]
    )
    assert len(choices.views) == 3
    each = [replace(choices, views=(view,)) for view in choices.views]
    fixed = [Game(rounds) for rounds in product(each, repeat=2)]
    epsilons = [share * mechanism.epsilon_local for share in (0.05, 0.1, 0.3, 0.6, 1.0, 1.4)]
    pairs = [(Game((choices, choices)).delta(each), max(game.delta(each) for game in fixed)) for each in epsilons]
    assert all(best >= beforehand for best, beforehand in pairs)
    assert any(best > beforehand for best, beforehand in pairs)


def test_a_law_by_few_inputs_has_the_columns_of_the_whole_one() -> None:
    columns = adaptive_cases._columns(4, Fraction(3), [(1, Fraction(1, 4)), (2, Fraction(3, 4))])
    assert [sum(law[x] for law, _ in columns) for x in range(4)] == [1] * 4
    few = adaptive_cases._few(columns)
    assert few.gamma == sum(blanket for _, blanket in columns)
    assert few.likelihood_ratio == 3


# What is claimed of certificates, samplers and intervals


def claimed(kind: str, numbers: range, seed: int = 27) -> Found:
    found = Found()
    for number in numbers:
        million.Run(seed, found).ask(kind, number)
    return found


@pytest.mark.parametrize("kind", CLAIMS)
def test_what_is_claimed_holds(kind: str) -> None:
    found = claimed(kind, range(8))
    assert found.violations == []
    assert sum(found.cases.values()) > 60
    assert all(each.startswith(f"{kind}, ") for each in found.cases)


def test_a_statement_that_is_too_small_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def smaller(terms: Terms, history: Sequence[RoundCounts]) -> dict[str, Any]:
        content = statement(terms, history)
        for query in content["queries"]:
            query["epsilon_upper"] *= 0.5
        return content

    monkeypatch.setattr(certificate_cases, "statement", smaller)
    violations = claimed("certificates", range(6)).violations
    assert any("the statement is refused" in each for each in violations)
    assert any("epsilon_upper is " in each and "in truth" in each for each in violations)


def test_a_check_that_accepts_everything_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_cases, "check_statement", lambda *_: None)
    violations = claimed("certificates", range(6)).violations
    assert any("is accepted for" in each for each in violations)
    assert any("a local epsilon below" in each for each in violations)


def test_a_sampler_of_another_law_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(made: KRandomizedResponse, symbol: int, random: Random) -> bytes:
        random(4)
        return symbol.to_bytes(4, "big")

    monkeypatch.setattr(KRandomizedResponse, "randomize", always)
    found = Found()
    said: list[str] = []
    sampler_cases.krr(random.Random(1), Claims("samplers", found, said.append))
    assert len(said) == sum(found.cases.values())
    assert all("and the law is" in each for each in said)


def test_intervals_that_miss_too_often_and_small_p_values_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of four times their rate, and p-values that are halved."""
    intervals = CountLaw.intervals
    monkeypatch.setattr(CountLaw, "intervals", lambda law, seen, rate: intervals(law, seen, min(0.9, 16 * rate)))
    monkeypatch.setattr(interval_cases, "exact_p_values", lambda seen, law: exact_p_values(seen, law) / 2)
    found, said = Found(), list[str]()
    for number in range(12):
        interval_cases.counts(random.Random(number), Claims("intervals", found, said.append))
    assert any(each.startswith("interval of a count is ") for each in said)
    assert any(each.startswith("p-value is ") for each in said)


def test_what_breaks_is_found_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("no place")

    monkeypatch.setitem(CLAIMS, "samplers", broken)
    found = million.run(seed=1, cases=2, seconds=0.0, kinds=["samplers"])
    assert len(found.violations) == 1
    assert "FAULT IndexError('no place')" in found.violations[0]
