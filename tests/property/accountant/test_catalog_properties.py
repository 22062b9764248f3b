"""Upper above lower, the certified one smallest, monotone, finite or refused."""

from __future__ import annotations

from math import isfinite

from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.bounds.catalog import CATALOG, FORMULAS, assess
from hubbub.accountant.bounds.closed_form import EpsilonFormula
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic, Laplace, LocalMechanism
from support.thoroughness import usually

SLACK = 1e-4
"""Relative width to which exactly evaluated bounds are known: two of the same pair may differ by it."""

locals_ = st.floats(1e-3, 12)
people = st.integers(1, 10**7)
deltas = st.floats(-14, -0.3).map(lambda power: 10.0**power)
usual = st.one_of(st.builds(KRR.from_local_epsilon, st.integers(2, 200), locals_), st.builds(Generic, locals_))
further = st.one_of(st.builds(Laplace, locals_), st.builds(RAPPOR.from_local_epsilon, st.integers(2, 12), locals_))
mechanisms = st.one_of(usual, further)


def epsilon(name: str, mechanism: LocalMechanism, reports: int, delta: float) -> float | None:
    try:
        return CATALOG[name].epsilon(mechanism, reports, delta).upper
    except OutsideConditions:
        return None


@settings(max_examples=usually(3, 15), deadline=None)
@given(usual, people, deltas)
def test_uppers_lie_above_lowers_and_the_certified_one_is_the_smallest(
    mechanism: LocalMechanism, reports: int, delta: float
) -> None:
    assert side_by_side(mechanism, reports, delta) == []


@settings(max_examples=usually(3, 10), deadline=None)
@given(further, people, deltas)
def test_the_same_of_laplace_noise_and_rappor(mechanism: LocalMechanism, reports: int, delta: float) -> None:
    assert side_by_side(mechanism, reports, delta) == []


def side_by_side(mechanism: LocalMechanism, reports: int, delta: float) -> list[str]:
    """What is wrong with the answers of all bounds to one question."""
    found, certified = assess(mechanism, reports, delta), epsilon_bracket(mechanism, reports, delta)
    uppers = [each.epsilon_upper for each in found if each.proven and each.epsilon_upper is not None]
    lowers = [each.epsilon_lower for each in found if each.epsilon_lower is not None]
    checks = {
        "all are finite": all(isfinite(each) and each >= 0 for each in uppers + lowers),
        "certified is smallest": min(uppers) >= certified.epsilon_upper * (1 - SLACK),
        "uppers above lowers": max([*lowers, certified.epsilon_lower or 0.0]) <= min(uppers) * (1 + 1e-12),
        "one is chosen": [each.bound for each in found if each.chosen] == [certified.bound],
        "a number or a reason": all(
            (each.why_not is None) != (each.epsilon_upper is None and each.epsilon_lower is None) for each in found
        ),
    }
    return [name for name, holds in checks.items() if not holds]


@settings(max_examples=usually(6, 25), deadline=None)
@given(st.sampled_from(FORMULAS), mechanisms, people, st.integers(0, 10**6), deltas)
def test_more_reports_never_hurt_a_formula(
    bound: object, mechanism: LocalMechanism, reports: int, more: int, delta: float
) -> None:
    name = getattr(bound, "name", "")
    few = epsilon(name, mechanism, reports, delta)
    many = epsilon(name, mechanism, reports + more, delta)
    assert few is None or (many is not None and many <= few * (1 + 1e-9))


@settings(max_examples=usually(6, 25), deadline=None)
@given(st.sampled_from(FORMULAS), locals_, st.floats(0.5, 1), people, deltas)
def test_a_larger_local_epsilon_never_helps_a_formula(
    bound: object, local: float, part: float, reports: int, delta: float
) -> None:
    name = getattr(bound, "name", "")
    low, high = epsilon(name, Generic(local * part), reports, delta), epsilon(name, Generic(local), reports, delta)
    assert high is None or low is None or low <= high * (1 + 1e-9)


@settings(max_examples=usually(6, 25), deadline=None)
@given(st.sampled_from(FORMULAS), mechanisms, people, deltas, st.floats(1, 100))
def test_a_larger_delta_never_hurts_a_formula(
    bound: object, mechanism: LocalMechanism, reports: int, delta: float, factor: float
) -> None:
    name, larger = getattr(bound, "name", ""), min(0.5, delta * factor)
    strict, loose = epsilon(name, mechanism, reports, delta), epsilon(name, mechanism, reports, max(delta, larger))
    assert strict is None or loose is None or loose <= strict * (1 + 1e-9)
    assert strict is None or loose is not None or isinstance(bound, EpsilonFormula)


@settings(max_examples=usually(6, 25), deadline=None)
@given(st.sampled_from(FORMULAS), mechanisms, people, st.floats(1.001, 5000))
def test_renyi_formulas_are_finite_or_refused_and_above_zero(
    bound: object, mechanism: LocalMechanism, reports: int, order: float
) -> None:
    formula = CATALOG[getattr(bound, "name", "")]
    try:
        found = formula.rdp(mechanism, reports, order)
    except OutsideConditions:
        return
    assert isfinite(found)
    assert found >= 0


@settings(max_examples=usually(6, 25), deadline=None)
@given(st.sampled_from(["erlingsson-rdp", "girgis-lower", "clones-rdp"]), locals_, people, st.floats(2, 500))
def test_renyi_formulas_that_are_divergences_rise_with_the_order(
    name: str, local: float, reports: int, order: float
) -> None:
    if reports > 1:
        below, above = (CATALOG[name].rdp(Generic(local), reports, each) for each in (order, 1.5 * order))
        assert below <= above * (1 + 1e-7)
