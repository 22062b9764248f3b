"""Brackets are brackets, more people hide better, and a coarser report reveals less."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant import Finite, Part, compose_delta, delta_bracket, epsilon_bracket
from hubbub.accountant.mechanisms import exp_decimal, read_mechanism
from support.thoroughness import usually

Row = tuple[Fraction, ...]


@st.composite
def laws(draw: st.DrawFn, inputs: int = 4, outputs: int = 6, most: int = 30) -> Finite:
    shape = (draw(st.integers(2, inputs)), draw(st.integers(2, outputs)))
    rows = []
    for _ in range(shape[0]):
        weights = draw(st.lists(st.integers(1, most), min_size=shape[1], max_size=shape[1]))
        rows.append(tuple(Fraction(weight, sum(weights)) for weight in weights))
    return Finite(tuple(rows))


@settings(deadline=None, max_examples=usually(5, 25))
@given(laws(), st.integers(1, 10**7), st.floats(1e-12, 0.1))
def test_the_ends_are_in_order_and_more_people_hide_better(mechanism: Finite, reports: int, delta: float) -> None:
    found = epsilon_bracket(mechanism, reports, delta)
    assert 0 <= (found.epsilon_lower or 0.0) <= found.epsilon_upper <= mechanism.epsilon_local
    assert epsilon_bracket(mechanism, 2 * reports, delta).epsilon_upper <= found.epsilon_upper * (1 + 1e-4)
    assert delta_bracket(mechanism, reports, found.epsilon_upper).delta_upper <= delta * (1 + 1e-3)
    assert read_mechanism(mechanism.content()) == mechanism


@settings(deadline=None, max_examples=15)
@given(laws(), st.integers(1, 10**5), st.data())
def test_joining_two_outputs_or_leaving_an_input_out_never_costs_more(
    mechanism: Finite, reports: int, data: st.DataObject
) -> None:
    outputs = len(mechanism.law[0])
    one, two = data.draw(st.lists(st.integers(0, outputs - 1), min_size=2, max_size=2, unique=True))
    joined = Finite(tuple(_joined(row, one, two) for row in mechanism.law))
    before = epsilon_bracket(mechanism, reports, 1e-6).epsilon_upper
    assert epsilon_bracket(joined, reports, 1e-6).epsilon_upper <= before * (1 + 1e-4)
    # With inputs that are not listed, only the blanket counts.
    by_blanket = epsilon_bracket(replace(mechanism, blanket=mechanism.masses), reports, 1e-6).epsilon_upper
    fewer = Finite(mechanism.law, mechanism.masses, ((0, 1),))
    assert epsilon_bracket(fewer, reports, 1e-6).epsilon_upper <= by_blanket * (1 + 1e-4)


def _joined(row: Row, one: int, two: int) -> Row:
    return (*(each for place, each in enumerate(row) if place not in (one, two)), row[one] + row[two])


@settings(deadline=None, max_examples=15)
@given(laws(3, 3), st.integers(1, 3), st.floats(0.0, 1.0))
def test_every_data_set_lies_below(mechanism: Finite, people: int, share: float) -> None:
    epsilon = share * mechanism.epsilon_local
    power = Fraction(exp_decimal(epsilon))
    upper = delta_bracket(mechanism, people, epsilon)
    composed = compose_delta([Part(mechanism, people)], epsilon).delta_upper
    worst = Fraction(0)
    for others in combinations_with_replacement(mechanism.law, people - 1):
        for x, other in mechanism.neighboring:
            p, q = _view([*others, mechanism.law[x]]), _view([*others, mechanism.law[other]])
            worst = max(worst, sum((max(Fraction(0), p[at] - power * q[at]) for at in p), Fraction(0)))
    assert (upper.delta_lower or 0.0) <= worst <= min(upper.delta_upper, composed)


def _view(rows: list[Row]) -> dict[tuple[int, ...], Fraction]:
    found: dict[tuple[int, ...], Fraction] = {}
    for reports in product(*(range(len(row)) for row in rows)):
        mass = Fraction(1)
        for row, report in zip(rows, reports, strict=True):
            mass *= row[report]
        at = tuple(sorted(reports))
        found[at] = found.get(at, Fraction(0)) + mass
    return found
