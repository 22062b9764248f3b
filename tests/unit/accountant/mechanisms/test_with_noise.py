from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import log
from typing import Any

import pytest

from hubbub.accountant import composition
from hubbub.accountant.bounds import BOUNDS, blanket, delta_bracket, epsilon_bracket, epsilon_upper
from hubbub.accountant.bounds.catalog import assess
from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.noise import NOISE_WORTH, least_noise
from hubbub.accountant.composition import NOISE, compose, compose_delta, compose_upper
from hubbub.accountant.divergence import noise_atoms
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import (
    KRR,
    RAPPOR,
    Generic,
    Hashed,
    NoiseLaw,
    TreeNodes,
    WithNoise,
    costliest,
    one_round,
    paid_rounds,
    read_mechanism,
)
from hubbub.accountant.pairs import Part, pairs_of
from hubbub.accountant.pairs.renyi import rdp_lower, rdp_upper
from hubbub.planning.comparison import question_for
from hubbub.queries.design import Design
from hubbub.queries.questions.histogram import Histogram
from support.krr_queries import calibrate_histogram, histogram_design
from support.messages import AN_ATTACK

pytestmark = pytest.mark.usefixtures("composed_once")

LAW = NoiseLaw.of("geometric", Fraction(3, 5), 27)
PLAIN = KRR.from_numerator(16, 22937084)
NOISY = WithNoise(PLAIN, LAW)
NEARLY_PLAIN = Fraction(1, 2**60)


@pytest.mark.parametrize(
    ("family", "parameter", "reach", "message"),
    [
        ("binomial", 1, 1, "the noise's family is 'binomial'; give one of geometric, gaussian"),
        ("geometric", 0, 1, r"the noise's ratio, as a numerator over 2\*\*32, is 0; give a whole number from 1 to"),
        ("geometric", 2**32, 1, "give a whole number from 1 to 4294967295"),
        ("gaussian", 2**64 + 1, 1, "the noise's variance, as a numerator"),
        ("geometric", 2.0, 1, "give a whole number from 1 to 4294967295"),
        ("geometric", 2**31, 0, "the noise's reach is 0; give a whole number from 1 to 100000"),
        ("geometric", 2**31, 100_001, "the noise's reach is 100001; give a whole number from 1 to 100000"),
        ("geometric", 2**31, True, "the noise's reach is True; give a whole number"),
        ("geometric", 2**31, 200, "a geometric law of ratio 0.5 has no mass at its ends 200 away; lower the reach"),
        ("gaussian", 2**32, 40, "a gaussian law of variance 1 has no mass at its ends 40 away.*raise the variance"),
    ],
)
def test_a_law_that_is_none_is_refused(family: str, parameter: Any, reach: int, message: str) -> None:
    with pytest.raises(AccountingError, match=message):
        NoiseLaw(family, parameter, reach)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "a noise is .*; give an object with a family: geometric, gaussian"),
        ({"family": "flat"}, "give an object with a family"),
        ({"family": "geometric", "ratio": [1, 2**32]}, r"give family, ratio as \[w, 4294967296\] and reach"),
        ({"family": "gaussian", "ratio": [1, 2**32], "reach": 1}, "give family, variance as"),
    ],
)
def test_a_content_that_is_no_law_is_refused(content: object, message: str) -> None:
    with pytest.raises(AccountingError, match=message):
        NoiseLaw.read(content)


def test_noise_stands_only_beside_reports_that_a_shuffler_can_imitate() -> None:
    for other, named in ((RAPPOR.from_numerators(3, 2**31, 2**29), "unary"), (Generic(1.0), "generic"), (None, "None")):
        with pytest.raises(AccountingError, match=f"beside {named} is not proven.*use krr or hashed"):
            WithNoise(other, LAW)  # type: ignore[arg-type]
    with pytest.raises(AccountingError, match="beside with-noise is not proven"):
        WithNoise(NOISY, LAW)  # type: ignore[arg-type]
    with pytest.raises(AccountingError, match="noise is None; give a NoiseLaw"):
        WithNoise(PLAIN, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [{"noise": None}, {"randomizer": {"mechanism": "generic"}}, {"randomizer": None}, {"ends": True}, {"n": 1}],
)
def test_a_content_that_is_no_mechanism_beside_noise_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(AccountingError):
        read_mechanism({**NOISY.content(), **changed})


def test_how_ends_are_counted_is_never_written() -> None:
    assert WithNoise(PLAIN, LAW, ends=True).content() == NOISY.content()
    assert read_mechanism(NOISY.content()) == NOISY


@pytest.mark.parametrize("sampled", [{"clients": 20_000}, {"sampling_rate": Fraction(1, 2)}])
def test_sampling_beside_noise_is_refused(sampled: dict[str, Any]) -> None:
    with pytest.raises(OutsideConditions, match="proven for kRR without dummies, not for with-noise"):
        Part(NOISY, 10_000, **sampled)


def test_the_bound_of_noise_refuses_what_it_does_not_cover() -> None:
    for name in ("noise", "noise-lower"):
        with pytest.raises(OutsideConditions, match="it needs noise of the shuffler beside the randomizer"):
            BOUNDS[name].delta(PLAIN, 100, 1.0)
    with pytest.raises(OutsideConditions, match="covers kRR beside noise"):
        BOUNDS["noise-lower"].epsilon(WithNoise(Hashed.from_numerator(16, 4, 2**20), LAW), 1, 1e-6)
    with pytest.raises(OutsideConditions, match="gives no Rényi divergence"):
        BOUNDS["noise-lower"].rdp(NOISY, 1, 2.0)
    with pytest.raises(AccountingError, match=AN_ATTACK):
        epsilon_bracket(NOISY, 1, 1e-6, bound="noise-lower")
    with pytest.raises(OutsideConditions):
        epsilon_bracket(PLAIN, 1, 1e-6, bound="noise")


@pytest.mark.parametrize("ratio", ["3/5", "9/10"])
@pytest.mark.parametrize("times", [1.0001, 1.5, 3])
def test_a_geometric_law_leaves_only_its_ends_beyond_two_steps(ratio: str, times: float) -> None:
    """One step for two symbols, where only one count moves."""
    law = NoiseLaw.of("geometric", Fraction(ratio), 30)
    step = -log(law.parameter / 2**32)
    end = Fraction(law.weights[0], 2**128)
    two, three = (WithNoise(KRR(categories, NEARLY_PLAIN), law) for categories in (2, 3))
    assert delta_bracket(two, 1, times * step).delta_upper == pytest.approx(float(end), rel=1e-9)
    both = float(2 * end - end * end)
    assert delta_bracket(three, 1, 2 * times * step).delta_upper == pytest.approx(both, rel=1e-9)
    assert delta_bracket(two, 1, 0.99 * step).delta_upper > 1.01 * end
    assert delta_bracket(three, 1, 0.99 * 2 * step).delta_upper > 1.01 * both


def test_a_bracket_names_the_smaller_of_noise_and_people() -> None:
    """Noise of ε about 1 hides more than a thousand people at a local ε of 8, and less than a million."""
    few, many = (epsilon_bracket(NOISY, reports, 1e-6) for reports in (1_000, 10**6))
    assert (few.bound, many.bound) == ("noise", "blanket")
    assert few.epsilon_upper == epsilon_upper(NOISY, 1, 1e-6)
    assert many.epsilon_upper == epsilon_upper(PLAIN, 10**6, 1e-6) < few.epsilon_upper
    assert few.epsilon_local == many.epsilon_local == PLAIN.epsilon_local
    alone = epsilon_bracket(NOISY, 1, 1e-6)
    assert alone.epsilon_lower is not None
    assert 0.999 * alone.epsilon_upper < alone.epsilon_lower <= alone.epsilon_upper
    # Honest people hide little beside it, and the attack counts them.
    assert few.epsilon_lower is not None
    assert 0.99 * few.epsilon_upper < few.epsilon_lower <= few.epsilon_upper
    assert many.epsilon_lower is not None
    assert many.epsilon_lower <= many.epsilon_upper


def test_assess_chooses_noise_where_it_is_smaller_and_people_where_they_are() -> None:
    for reports, wanted in ((1_000, "noise"), (10**6, "blanket")):
        found = {each.bound: each for each in assess(NOISY, reports, 1e-6)}
        assert [name for name, each in found.items() if each.chosen] == [wanted]
        assert found["noise"].applies
        assert found["noise"].epsilon_upper == epsilon_upper(NOISY, 1, 1e-6)
        assert found["blanket"].epsilon_upper == BOUNDS["blanket"].epsilon(PLAIN, reports, 1e-6).upper
        assert found["noise-lower"].epsilon_lower is not None
        assert found["noise-lower"].epsilon_lower <= min(found[name].epsilon_upper or 9.0 for name in ("noise", wanted))
    alone = {each.bound: each for each in assess(NOISY, 1, 1e-6)}
    assert alone["noise-lower"].epsilon_lower is not None
    assert not {each.bound: each for each in assess(PLAIN, 1_000, 1e-6)}["noise"].applies


def test_assess_chooses_over_rounds_too() -> None:
    for reports, wanted in ((100, "noise"), (10**6, "blanket")):
        found = assess(NOISY, reports, 1e-6, rounds=4)
        assert [(each.bound, each.composition) for each in found if each.chosen] == [(wanted, "losses")]
        losses = {each.bound: each.epsilon_upper for each in found if each.composition == "losses"}
        assert losses[wanted] == min(each for each in losses.values() if each is not None)


def test_compose_takes_the_smaller_of_noise_and_people() -> None:
    alone = compose([Part(NOISY, 1, 5)], 1e-6)
    assert alone.bound == NOISE
    for reports in (100, 10**6):
        both, people = (compose([Part(each, reports, 5)], 1e-6) for each in (NOISY, PLAIN))
        assert both.epsilon_upper == min(alone.epsilon_upper, people.epsilon_upper)
        assert both.bound == (NOISE if reports == 100 else "composition")
        assert both.epsilon_upper == compose_upper([Part(NOISY, reports, 5)], 1e-6)
        deltas = [compose_delta([Part(each, n, 5)], 2.0).delta_upper for each, n in ((NOISY, reports), (NOISY, 1))]
        assert deltas[0] == min(deltas[1], compose_delta([Part(PLAIN, reports, 5)], 2.0).delta_upper)


@pytest.mark.parametrize(("reports", "hidden"), [(100, False), (10**6, True)])
def test_people_who_hide_nobody_are_not_composed(monkeypatch: pytest.MonkeyPatch, reports: int, hidden: bool) -> None:
    """An attack on one round refutes what noise gives: composing what it attacks would take most of the time."""
    tried: list[Part] = []
    composing = composition._upper_epsilon

    def noted(parts: Sequence[Part], delta: float, limit: float) -> float:
        tried.extend(parts)
        return composing(parts, delta, limit)

    monkeypatch.setattr(composition, "_upper_epsilon", noted)
    # A δ of its own: no other test has composed this before.
    compose_upper([Part(NOISY, reports, 2)], 1.1e-6)
    assert any(isinstance(part.mechanism, WithNoise) for part in tried)
    assert any(part.mechanism == PLAIN for part in tried) == hidden


def test_parts_of_which_each_has_its_own_smaller_side_are_composed_of_both() -> None:
    parts = [Part(NOISY, 100), Part(WithNoise(KRR.from_numerator(16, 2**30), LAW), 10**6)]
    mixed = compose(parts, 1e-6)
    sides = [Part(NOISY, 1), Part(KRR.from_numerator(16, 2**30), 10**6)]
    assert mixed.bound == NOISE
    assert mixed.epsilon_upper <= compose(sides, 1e-6).epsilon_upper * (1 + 1e-9)
    assert mixed.epsilon_upper < 0.7 * compose([Part(part.mechanism, 1) for part in parts], 1e-6).epsilon_upper


def test_renyi_divergences_beside_noise_are_at_most_those_without() -> None:
    for order in (1.5, 2.0, 8.0):
        alone, beside = rdp_upper(PLAIN, 1000, order), rdp_upper(NOISY, 1000, order)
        assert 0 < beside <= alone
        assert beside <= rdp_upper(NOISY, 1, order) <= PLAIN.epsilon_local
        assert BOUNDS["noise"].rdp(NOISY, 1000, order) == beside
    assert rdp_lower(NOISY, 1, 2.0) is None


def test_a_description_names_randomizer_and_noise() -> None:
    text = "krr of local ε 8 beside geometric noise of standard deviation 2.738"
    assert pairs_of(NOISY).described() == text


def test_counts_of_dummies() -> None:
    assert (NOISY.symbols, NOISY.expected_dummies, NOISY.fixed_total) == (16, 432, False)
    two = WithNoise(KRR(2, Fraction(1, 2)), LAW)
    assert (two.symbols, two.expected_dummies, two.fixed_total) == (2, 54, True)
    rows = WithNoise(Hashed.from_numerator(16, 4, 2**20), LAW)
    assert (rows.symbols, rows.expected_dummies, rows.fixed_total) == (64, 1728, False)
    signed, rising = (WithNoise(TreeNodes(8, changes, 2**20, 2**30), LAW) for changes in (2, 1))
    assert (signed.symbols, signed.expected_dummies, signed.fixed_total) == (3, 108, True)
    assert (rising.symbols, rising.expected_dummies, rising.fixed_total) == (2, 54, True)


def test_the_symbol_that_is_not_drawn_gets_the_rest_of_a_fixed_total() -> None:
    two = WithNoise(KRR(2, Fraction(1, 2)), LAW)
    signed, rising = (WithNoise(TreeNodes(8, changes, 2**20, 2**30), LAW) for changes in (2, 1))
    assert (two.draws, two.dummies_range, two.by_symbol([10])) == (1, (54, 54), (44, 10))
    # Values −1, 0 and 1, or 0 and 1.
    assert (signed.draws, signed.dummies_range, signed.by_symbol([10, 30])) == (2, (108, 108), (10, 68, 30))
    assert (rising.draws, rising.dummies_range, rising.by_symbol([10])) == (1, (54, 54), (44, 10))
    assert (NOISY.draws, NOISY.dummies_range) == (16, (0, 864))
    assert NOISY.by_symbol(range(16)) == tuple(range(16))


def test_a_trees_rounds_beside_noise_are_paid_for_in_units() -> None:
    """One round alone may move two numbers, if values can fall; a unit moves one."""
    nodes = TreeNodes(8, 2, 2**20, 2**30)
    beside = WithNoise(nodes, LAW)
    assert [paid_rounds(beside, rounds) for rounds in (1, 3, 8)] == [paid_rounds(nodes, rounds) for rounds in (1, 3, 8)]
    assert costliest(beside, [9, 5, 7], lambda each: each) == [5] * 6
    assert one_round(beside) == WithNoise(one_round(nodes), LAW)
    assert (beside.one_moves, beside.one_round.one_moves) == (True, False)
    assert WithNoise(TreeNodes(8, 1, 2**20, 2**30), LAW).one_round.one_moves
    unit, alone = (epsilon_bracket(each, 1, 1e-6).epsilon_upper for each in (beside, one_round(beside)))
    assert unit < alone <= compose([Part(beside, 1, 2)], 1e-6).epsilon_upper
    assert one_round(NOISY) is NOISY
    assert read_mechanism(beside.content()) == beside


def test_the_least_noise_refuses_what_no_noise_reaches() -> None:
    with pytest.raises(AccountingError, match="epsilon is 0, which no noise reaches; allow more"):
        least_noise(PLAIN, 0.0, 1e-6)
    with pytest.raises(AccountingError, match="rounds is 0"):
        least_noise(PLAIN, 1.0, 1e-6, 0)


@pytest.mark.parametrize(("categories", "rounds"), [(2, 5), (16, 30)])
def test_the_least_noise_over_rounds_meets_its_target(categories: int, rounds: int) -> None:
    randomizer = KRR.from_local_epsilon(categories, 8.0)
    law = least_noise(randomizer, 2.0, 1e-6, rounds)
    found = compose_upper([Part(WithNoise(randomizer, law), 1, rounds)], 1e-6)
    assert 1.8 < found <= 2.0 * (1 + 1e-7)
    assert law.variance > least_noise(randomizer, 2.0, 1e-6).variance


def test_a_law_for_one_round_that_lasts_composes_over_more() -> None:
    """The ends of a law count in every round: over three they alone exceed δ, unless they are farther away."""
    one, lasting = least_noise(PLAIN, 1.0, 1e-6), least_noise(PLAIN, 1.0, 1e-6, lasting=3)
    assert replace(lasting, reach=one.reach) == one
    assert one.reach < lasting.reach < 2 * one.reach
    short, long = (compose_upper([Part(WithNoise(PLAIN, law), 1, 3)], 1e-6) for law in (one, lasting))
    assert 2.9 < long <= 3.0 < short
    with pytest.raises(AccountingError, match="lasting is 0"):
        least_noise(PLAIN, 1.0, 1e-6, lasting=0)


def test_the_least_noise_has_a_largest_reach() -> None:
    with pytest.raises(AccountingError, match="no noise with a reach of at most 100000 meets epsilon 1e-06"):
        least_noise(PLAIN, 1e-6, 1e-6)


def test_calibration_adds_noise_always_never_or_where_it_helps() -> None:
    none, auto, always = (
        calibrate_histogram(16, 1.0, 1e-6, 10_000, noise=noise, epsilon_local_cap=8.0)
        for noise in ("none", "auto", "always")
    )
    assert none.noise is None
    assert auto == always
    assert always.noise is not None
    assert always.mse < none.mse
    assert always.mechanism == WithNoise(always.randomizer.mechanism, always.noise.law)  # type: ignore[arg-type]
    assert always.epsilon_upper == epsilon_upper(always.mechanism, 1, 1e-6) <= 1.0
    assert 7.9 < always.epsilon_local <= 8.0


def rare(categories: int) -> Design:
    """A histogram that is planned for the error of a category of few, which most of all noise makes larger."""
    names = tuple(map(str, range(categories)))
    return Design(Histogram("value", names, share=1e-3))


@pytest.mark.parametrize(
    ("design", "reports", "cap", "taken"),
    [(histogram_design(16), 20_000, 4.0, True), (rare(16), 20_000, 5.0, True), (rare(16), 100_000, 7.75, False)],
    ids=["one percent", "few percent", "many percent"],
)
def test_noise_is_worth_a_few_percent_of_error_and_no_more(design: Any, reports: int, cap: float, taken: bool) -> None:
    """A few percent buy an ε that is true beside any number of liars."""
    (none,), (auto,), (always,) = (
        calibrate([design], 1.0, 1e-6, reports, noise=noise, epsilon_local_cap=cap)
        for noise in ("none", "auto", "always")
    )
    more = always.expected_standard_error / none.expected_standard_error
    assert more > 1
    assert taken is (more <= NOISE_WORTH)
    assert auto == (always if taken else none)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("designs", "reports", "cap", "taken"),
    [
        ([histogram_design(16), histogram_design(4)], 5_000, 12.0, True),
        ([histogram_design(16), histogram_design(4)], 20_000, 8.0, True),
        ([rare(16), histogram_design(4)], 100_000, 14.0, False),
    ],
)
def test_queries_have_noise_if_no_error_of_any_becomes_much_larger(
    designs: list[Any], reports: int, cap: float, taken: bool
) -> None:
    none, auto, always = (
        calibrate(designs, 1.0, 1e-6, reports, epsilon_local_cap=cap, noise=noise)
        for noise in ("none", "auto", "always")
    )
    assert auto == (always if taken else none)
    pairs = zip(auto, none, strict=True)
    assert all(one.expected_standard_error <= NOISE_WORTH * other.expected_standard_error for one, other in pairs)


# `test_queries_have_noise_if_no_error_of_any_becomes_much_larger` has fewer answers.
@pytest.mark.exhaustive
@pytest.mark.usefixtures("composed_once")
def test_a_query_that_takes_no_noise_pays_at_most_a_few_percent_for_that_of_others() -> None:
    """Unary encoding takes none. Beside a query with noise it gets less of the budget, unless a cap binds anyway."""
    designs = [histogram_design(16), Design(question_for("histogram", 4, False, "unary"))]
    free = calibrate(designs, 1.0, 1e-6, 5_000, noise="auto")
    assert [each.noise for each in free] == [None, None]
    assert free == calibrate(designs, 1.0, 1e-6, 5_000)
    capped = calibrate(designs, 1.0, 1e-6, 20_000, noise="auto", epsilon_local_cap=6.0)
    assert [each.noise is None for each in capped] == [False, True]


def test_queries_with_noise_share_a_budget_beside_any_number_of_liars() -> None:
    designs = [histogram_design(4), histogram_design(2)]
    found = calibrate(designs, 1.0, 1e-6, 5_000, epsilon_local_cap=12.0, noise="always")
    assert all(each.noise is not None for each in found)
    assert sum(each.epsilon_local for each in found) <= 12.0
    assert compose([Part(each.mechanism, 1) for each in found], 1e-6).epsilon_upper <= 1.0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"noise": "some"}, "noise is 'some'; give one of none, auto, always"),
        ({"noise": "always", "dummies": 100}, "noise is always beside 100 uniform dummies.*leave one out"),
        ({"noise": "auto", "dummies": 100}, "noise is auto beside 100 uniform dummies"),
    ],
)
def test_calibration_refuses_impossible_noise(more: dict[str, Any], message: str) -> None:
    with pytest.raises(AccountingError, match=message):
        calibrate_histogram(16, 1.0, 1e-6, 10_000, **more)


def test_calibration_cannot_always_add_noise() -> None:
    takes_none = "noise .* works beside krr and hashed answers only, and the randomizer is unary; use krr, or leave"
    with pytest.raises(AccountingError, match=takes_none):
        calibrate([Design(question_for("histogram", 4, False, "unary"))], 1.0, 1e-6, 10_000, noise="always")
    too_many = r"noise .* of 1,000,000 symbols needs [1-9]\d,000,000 dummies on average, and at most 10,000,000 are"
    with pytest.raises(AccountingError, match=too_many):
        calibrate_histogram(10**6, 1.0, 1e-6, 10_000, noise="always")


def test_calibration_does_without_noise_where_it_may() -> None:
    assert calibrate_histogram(10**6, 1.0, 1e-6, 10**6, noise="auto").noise is None


@pytest.mark.parametrize(
    ("categories", "local", "epsilon", "delta"),
    [(2, 4.0, 2.671875, 1e-11), (2, 40.0, 39.0, 1e-12), (3, 8.0, 20.0, 0.3)],
)
def test_the_least_noise_is_found_where_a_table_has_no_mass_a_step_away(
    categories: int, local: float, epsilon: float, delta: float
) -> None:
    """A narrow Gaussian law has no mass at the ends that its formula gives; its search once ended there."""
    randomizer = KRR.from_local_epsilon(categories, local)
    assert epsilon_upper(WithNoise(randomizer, least_noise(randomizer, epsilon, delta)), 1, delta) <= epsilon


@pytest.mark.parametrize("categories", [2, 16])
@pytest.mark.parametrize("local", [0.3, 4.0, 12.0])
def test_a_bound_that_is_not_searched_would_not_have_been_the_smallest(categories: int, local: float) -> None:
    """One batch: the bracket is the least of all bounds, each searched by itself, whichever that is."""
    alone = KRR.from_local_epsilon(categories, local)
    beside = WithNoise(alone, LAW)
    for reports in (1, 300, 10**5):
        for delta in (1e-12, 1e-6, 0.3):
            searched = [BOUNDS[name].epsilon(alone, reports, delta).upper for name in pairs_of(alone).upper_bounds()]
            least = min(*searched, BOUNDS["noise"].epsilon(beside, reports, delta).upper)
            found = epsilon_bracket(beside, reports, delta)
            # A gain below 0.01 % of the local epsilon is not stated.
            assert found.epsilon_upper == (least if least < found.epsilon_local * (1 - 1e-4) else found.epsilon_local)


def refused(*_: Any, **__: Any) -> Any:
    raise AssertionError("this takes long, and is not needed")


@pytest.mark.parametrize("reports", [30, 1_000, 30_000])
def test_people_who_hide_less_than_noise_are_not_looked_at_precisely(
    monkeypatch: pytest.MonkeyPatch, reports: int
) -> None:
    """A precise δ of a few blankets takes fifty milliseconds, which was nearly all of what one question took."""
    monkeypatch.setattr(blanket, "narrowed", refused)
    assert epsilon_bracket(NOISY, reports, 1.2e-6).bound == "noise"


@pytest.mark.parametrize("local", [0.2, 3.0, 8.0, 25.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2, 0.4])
def test_an_attack_beside_a_wide_law_has_both_ends_from_one_search(local: float, delta: float) -> None:
    """The sum over all pairs of counts agrees: δ is above `delta` at the lower end, and at most it at the upper."""
    beside = WithNoise(KRR.from_local_epsilon(3, local), NoiseLaw.of("gaussian", Fraction(400), 140))
    attack = BOUNDS["noise-lower"]
    found = attack.epsilon(beside, 1, delta)
    assert found.lower <= found.upper <= found.lower * (1 + 3e-8)
    assert attack.delta(beside, 1, found.upper)[0] <= delta
    assert found.lower == 0 or attack.delta(beside, 1, found.lower * (1 - 1e-12))[1] > delta
    assert found.lower <= BOUNDS["noise"].epsilon(beside, 1, delta).upper


@pytest.mark.parametrize("law", [("gaussian", "13010", 786), ("geometric", "0.99", 1500)])
def test_one_question_beside_a_wide_law_is_no_sum_over_all_pairs_of_counts(
    monkeypatch: pytest.MonkeyPatch, law: tuple[str, str, int]
) -> None:
    """A million pairs take a second, sorted counts some milliseconds."""
    family, parameter, reach = law
    # A geometric law has few ratios, so its pairs are few.
    if family == "gaussian":
        monkeypatch.setattr(noise_atoms, "_beside", refused)
    wide = WithNoise(PLAIN, NoiseLaw.of(family, Fraction(parameter), reach))
    found = epsilon_bracket(wide, 1, 1.2e-6)
    assert found.epsilon_lower is not None
    assert 0.999 * found.epsilon_upper < found.epsilon_lower <= found.epsilon_upper < 0.1


def test_points_far_out_at_the_ends_of_both_counts_have_no_ratio() -> None:
    """Their masses are below those of doubles: with 40 categories some were 0, and a ratio was divided by it."""
    law = NoiseLaw("geometric", 2_590_884_435, 39)
    mechanism = WithNoise(KRR(40, Fraction(1_777_743, 2**27)), law)
    for pair in (
        noise_atoms.dominating_atoms(mechanism.krr, law, False),
        noise_atoms.dominated_atoms(mechanism.krr, law, False),
    ):
        assert all(float(atoms.q.min()) >= 1e-290 for atoms in pair.parts)
        assert sum(atoms.cut for atoms in pair.parts) < 1e-20
    one, seven = (compose_upper([Part(mechanism, 100, rounds=rounds)], 1e-6) for rounds in (1, 7))
    assert one < seven < 7 * one
