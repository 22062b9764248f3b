import ast
import inspect
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hubbub.accountant import composition
from hubbub.accountant.bounds import delta_bracket, delta_lower, epsilon_bracket
from hubbub.accountant.composition import compose, compose_delta
from hubbub.accountant.divergence.sums import binary_points, four_outputs_points
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.losses import convolution, grid, largest_curve, tangents
from hubbub.accountant.losses.attack_curves import attack_curves_grid
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic, LocalMechanism
from hubbub.accountant.pairs import Part, renyi
from support.computed_once import remember, remembering_in


def test_a_hundred_thousand_rounds_of_any_randomizer_reach_the_goal() -> None:
    assert compose([Part(Generic(0.5), 10**6, 10**5)], 1e-8).epsilon_upper <= 0.91


def test_a_hundred_thousand_rounds_of_binary_response_reach_the_goal() -> None:
    bracket = compose([Part(KRR.from_local_epsilon(2, 0.5), 10**6, 10**5)], 1e-8)
    assert bracket.epsilon_lower is not None
    assert 0.80 <= bracket.epsilon_lower <= 0.8065
    assert 0.806 <= bracket.epsilon_upper <= 0.82


def test_one_round_of_one_query_is_the_one_round_bound() -> None:
    mechanism = KRR.from_local_epsilon(16, 4.0)
    assert compose([Part(mechanism, 10000)], 1e-6) == epsilon_bracket(mechanism, 10000, 1e-6)


def test_the_order_and_the_grouping_of_parts_do_not_matter() -> None:
    first, second = Part(Generic(1.0), 5000), Part(KRR.from_local_epsilon(5, 2.0), 5000)
    grouped = compose([Part(first.mechanism, 5000, 2), second], 1e-6).epsilon_upper
    assert compose([first, second, first], 1e-6).epsilon_upper == grouped
    assert compose([second, first, first], 1e-6).epsilon_upper == pytest.approx(grouped, rel=1e-6)


def test_parts_may_have_more_rounds_together_than_one_may_have() -> None:
    blank = Part(KRR.from_local_epsilon(5, 0.0), 10, 10**7)
    assert compose([blank, replace(blank, rounds=3)], 1e-9).epsilon_upper == 0.0


def test_two_queries_cost_more_than_each_and_less_than_their_sum() -> None:
    parts = [Part(KRR.from_local_epsilon(16, 4.0), 18000), Part(KRR.from_local_epsilon(20, 4.0), 18000)]
    both = compose(parts, 1e-6)
    each = [compose([part], 1e-6).epsilon_upper for part in parts]
    assert max(each) < both.epsilon_upper < 0.8 * sum(each)
    assert both.numerical_slack < 1e-3


def test_tiny_delta_keeps_its_relative_accuracy() -> None:
    part = Part(KRR.from_local_epsilon(4, 1.0), 10**6, 10)
    epsilon = compose([part], 1e-15).epsilon_upper
    bracket = compose_delta([part], epsilon)
    assert 0.9e-15 <= bracket.delta_upper <= 1.001e-15
    assert bracket.delta_lower is not None
    assert 0.9 <= bracket.delta_lower / bracket.delta_upper <= 1


def test_epsilon_falls_faster_than_the_root_up_to_a_trillion_people() -> None:
    few, many = (compose([Part(Generic(1.0), reports, 4)], 1e-9).epsilon_upper for reports in (10**8, 10**12))
    assert 100 <= few / many <= 160


def test_a_round_without_information_costs_nothing() -> None:
    bracket = compose([Part(KRR.from_local_epsilon(5, 0.0), 10, 1000)], 1e-9)
    assert bracket.epsilon_upper == 0.0


def test_zero_is_returned_only_where_delta_at_zero_is_reached() -> None:
    part = Part(KRR.from_local_epsilon(3, 1.0), 50, 2)
    at_zero = compose_delta([part], 0.0)
    assert at_zero.delta_lower is not None
    assert compose([part], min(0.99, at_zero.delta_upper * 1.05)).epsilon_upper == 0.0
    assert compose([part], at_zero.delta_lower * 0.9).epsilon_upper > 0.0


def test_with_hardly_a_blanket_the_local_sum_answers() -> None:
    bracket = compose([Part(KRR.from_local_epsilon(16, 20.0), 1000, 10)], 1e-6)
    assert bracket.epsilon_upper <= 200.0000001
    assert math.isfinite(bracket.epsilon_upper)


def test_subsampling_amplifies_every_round() -> None:
    mechanism = KRR.from_local_epsilon(4, 2.0)
    plain, sampled = (compose([Part(mechanism, 1000, 5, clients=count)], 1e-6) for count in (None, 10000))
    assert sampled.epsilon_upper < 0.2 * plain.epsilon_upper


def test_subsampling_everyone_is_no_subsampling() -> None:
    mechanism = KRR.from_local_epsilon(4, 2.0)
    plain, sampled = (compose([Part(mechanism, 1000, 5, clients=count)], 1e-6) for count in (None, 1000))
    assert sampled.epsilon_upper == pytest.approx(plain.epsilon_upper, rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan, math.inf])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(AccountingError, match="delta"):
        compose([Part(Generic(1.0), 100)], delta)


def test_no_parts_are_refused() -> None:
    with pytest.raises(AccountingError, match="parts is empty"):
        compose([], 1e-6)


@pytest.mark.parametrize("parts", [Part(Generic(1.0), 100), 3, None])
def test_one_part_in_place_of_a_list_is_refused_with_how_to_write_it(parts: Any) -> None:
    with pytest.raises(AccountingError, match=r"^parts is .*; give a list of parts, also of one: \[part\]$"):
        compose(parts, 1e-6)


@pytest.mark.parametrize(
    ("field", "value"), [("reports", 0), ("rounds", 0), ("rounds", 10**8), ("dummies", -1), ("clients", 5)]
)
def test_numbers_out_of_range_are_refused(field: str, value: int) -> None:
    values = {"reports": 10} | {field: value}
    with pytest.raises(AccountingError, match=field):
        Part(KRR.from_local_epsilon(3, 1.0), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, 1.5, True, "3"])
@pytest.mark.parametrize("field", ["reports", "rounds", "dummies", "clients"])
def test_what_is_no_whole_number_is_refused(field: str, value: object) -> None:
    with pytest.raises(AccountingError, match=field):
        Part(KRR.from_local_epsilon(3, 1.0), **({"reports": 1} | {field: value}))  # type: ignore[arg-type]


def test_whole_numbers_of_any_type_give_one_part() -> None:
    part = Part(KRR.from_local_epsilon(3, 1.0), 1000.0, 2.0, clients=5000.0)  # type: ignore[arg-type]
    assert part == Part(part.mechanism, 1000, 2, clients=5000)
    assert [type(each) for each in (part.reports, part.rounds, part.clients)] == [int] * 3


def test_a_mechanism_or_part_of_another_kind_is_refused() -> None:
    with pytest.raises(AccountingError, match="mechanism"):
        Part(None, 10)  # type: ignore[arg-type]
    with pytest.raises(AccountingError, match="parts"):
        compose([Generic(1.0)], 1e-6)  # type: ignore[list-item]


@pytest.mark.parametrize("epsilon_local", [20.0, 36.0, 40.0])
def test_binary_response_with_hardly_a_lie_keeps_its_lower_end_below_the_truth(epsilon_local: float) -> None:
    """Two people, two rounds: δ is at most what both reports alone give, 1 − e^{ε − 2ε₀}."""
    part = Part(KRR.from_local_epsilon(2, epsilon_local), 2, 2)
    for short in (1e-7, 1e-3):
        epsilon = 2 * epsilon_local - short
        bracket = compose_delta([part], epsilon)
        assert bracket.delta_lower is not None
        local = -math.expm1(epsilon - 2 * epsilon_local)
        all_true = local * (1 - math.exp(-epsilon_local)) ** 4
        assert 0.9 * short <= bracket.delta_lower <= local
        assert bracket.delta_upper >= all_true * (1 - 1e-12)


def test_many_dummies_count_as_many_blankets() -> None:
    """Beside few reports the pair is that of D blankets: its ε falls a little faster than the root of D."""
    mechanism = KRR.from_local_epsilon(16, 2.0)
    few, many = (compose([Part(mechanism, 2, 4, dummies=count)], 1e-9).epsilon_upper for count in (10**8, 10**10))
    assert few / many == pytest.approx(11, rel=0.1)


def test_subsampling_of_a_generic_randomizer_is_refused() -> None:
    with pytest.raises(OutsideConditions, match="not for generic; leave clients out"):
        Part(Generic(1.0), 10, clients=20)
    with pytest.raises(OutsideConditions, match="not for generic with 3 dummies; leave sampling_rate out"):
        Part(Generic(1.0), 10, dummies=3, sampling_rate=Fraction(1, 10))


def test_binary_reports_that_hardly_depend_on_the_answer_compose() -> None:
    """δ(0) is all that is left of their curve: one point, without a slope."""
    part = Part(KRR.from_numerator(2, 2**32 - 1), 2, 2)
    assert compose([part], 0.1).epsilon_upper == 0
    assert 0 < compose([part], 1e-12).epsilon_upper <= 2 * part.mechanism.epsilon_local


def test_few_rounds_cost_no_more_than_basic_composition_of_the_one_round_bounds() -> None:
    """Where fifty blankets hide people, losses on a grid alone were 5 % above it."""
    weak, strong = KRR.from_local_epsilon(3, 11.0), KRR.from_local_epsilon(3, 1.0)
    both = compose([Part(weak, 10**6), Part(strong, 10**6)], 1e-9)
    alone = [epsilon_bracket(each, 10**6, 0.5e-9).epsilon_upper for each in (weak, strong)]
    assert both.epsilon_upper <= sum(alone) * (1 + 1e-9)
    assert both.epsilon_lower is not None
    assert both.epsilon_lower <= both.epsilon_upper


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "parts",
    [
        [Part(KRR.from_numerator(3, 2**29), 1000), Part(KRR.from_numerator(5, 2**30), 1000)],
        [Part(KRR.from_numerator(4, 2**31), 20, 2), Part(KRR.from_numerator(2, 2**30), 20)],
        [Part(KRR.from_numerator(3, 2**18), 500), Part(KRR.from_numerator(3, 2**31), 500)],
        [Part(RAPPOR(4, Fraction(1, 2), Fraction(1, 50)), 300, 2)],
        [Part(KRR.from_numerator(4, 2**28), 50, dummies=30), Part(Generic(1.0), 50)],
    ],
)
def test_one_round_bounds_that_attacks_rule_out_would_not_add_up_to_less(parts: list[Part]) -> None:
    found = compose(parts, 1e-6)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(composition, "_each_attacked", lambda *_: False)
        assert compose(parts, 1e-6) == found


@pytest.mark.parametrize(
    "mechanism",
    [
        KRR.from_numerator(2, 2**30),
        KRR.from_numerator(5, 2**30),
        RAPPOR(3, Fraction(1, 2), Fraction(1, 9)),
        Generic(1.0),
    ],
)
@pytest.mark.parametrize("dummies", [0, 20])
def test_an_attack_alone_is_that_of_the_bracket(mechanism: LocalMechanism, dummies: int) -> None:
    asked = mechanism, 200, 0.3
    assert delta_lower(*asked, dummies=dummies) == delta_bracket(*asked, dummies=dummies).delta_lower


def test_the_smallest_delta_is_composed_too() -> None:
    assert compose([Part(KRR.from_local_epsilon(3, 1.0), 10**4, rounds=2)], 1e-100).epsilon_upper <= 2.0


def test_what_services_remember_in_a_folder_is_what_is_computed_and_of_these_arguments_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Services that tests fork compute no composition that another has (`support.preloaded`)."""
    asked = [(Part(KRR.from_numerator(4, 2**31), 1000, rounds),) for rounds in (2, 3)]
    computed = [composition._composed_delta(parts, 0.5) for parts in asked]
    first = remembering_in(tmp_path, "delta", composition._composed_delta)
    assert [first(parts, 0.5) for parts in asked] == computed
    assert len(list(tmp_path.iterdir())) == len(set(computed)) == len(asked)
    second = remembering_in(tmp_path, "delta", lambda *_: pytest.fail("computed twice"))
    assert [second(parts, 0.5) for parts in reversed(asked)] == computed[::-1]
    assert remembering_in(tmp_path, "another", lambda *_: "computed")(asked[0], 0.5) == "computed"


def test_what_other_tests_remember_is_what_is_computed_and_of_these_arguments_alone() -> None:
    """Tests of budgets, ledgers and certificates compute no composition twice (`support.computed_once`)."""
    asked = [([Part(KRR.from_numerator(4, 2**31), 1000, rounds)], delta) for rounds in (2, 3) for delta in (1e-6, 1e-7)]
    computed = [compose(parts, delta) for parts, delta in asked]
    with pytest.MonkeyPatch.context() as patched:
        remember(patched)
        assert [compose(parts, delta) for parts, delta in asked] == computed
        assert [compose(parts, delta) for parts, delta in reversed(asked)] == computed[::-1]
        patched.setattr(composition, "_upper_epsilon", lambda *_: pytest.fail("computed twice"))
        assert compose(*asked[0]) == computed[0]
    assert len(set(computed)) == len(asked)
    assert [compose(parts, delta) for parts, delta in asked] == computed


@pytest.mark.parametrize("reports", [3, 10, 300])
@pytest.mark.parametrize("local", [0.25, 0.69])
def test_over_rounds_an_unknown_randomizer_is_attacked_by_what_reveals_more(local: float, reports: int) -> None:
    """Among few it is one of four outputs, among many binary response: the other one is up to a sixth below."""
    mechanism = Generic(local)
    stated = compose([Part(mechanism, reports, 2)], 1e-6)
    assert stated.epsilon_lower is not None
    grids = [
        attack_curves_grid(points(mechanism), local, reports, 50.0) for points in (binary_points, four_outputs_points)
    ]
    reached = [composition._reached([(each, 2)], 1e-6, stated.epsilon_upper) for each in grids]
    assert stated.epsilon_lower == pytest.approx(max(reached), rel=1e-3)


@pytest.mark.parametrize(
    "module", [composition, convolution, largest_curve, grid, tangents, renyi], ids=lambda m: m.__name__
)
def test_long_arrays_are_multiplied_on_one_thread(module: ModuleType) -> None:
    """BLAS takes all cores for `@` from ten thousand numbers on: three quarters of a composition was their waiting."""
    tree = ast.parse(inspect.getsource(module))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.MatMult)]


def test_a_long_dot_product_has_the_error_that_is_charged() -> None:
    left = np.random.default_rng(26).random(1 << 15)
    assert grid.dot(left, left[::-1]) == pytest.approx(math.fsum(left * left[::-1]), rel=1e-14)
    assert grid.dot(left[:0], left[:0]) == 0.0
