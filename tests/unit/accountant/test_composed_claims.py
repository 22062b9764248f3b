"""What is shown of a stated composed ε is what composing finds: never less from above, never more from below."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant import composed_claims
from hubbub.accountant.composed_claims import shows_lower, shows_upper
from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise
from hubbub.accountant.pairs import ROUNDS_LIMIT, Part

DELTA = 1e-6
KINDS = (KRR(4, Fraction(1, 4)), KRR(9, Fraction(1, 8)))


def rounds(count: int) -> list[Part]:
    """So many rounds of two questions, each with another number of reports."""
    return [Part(kind, 2000 + 37 * number) for number in range(count) for kind in KINDS]


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_what_composing_finds_is_shown_and_what_is_beyond_it_is_not(count: int) -> None:
    parts = rounds(count)
    found = compose(parts, DELTA)
    lower = found.epsilon_lower
    assert lower is not None
    assert shows_upper(parts, DELTA, found.epsilon_upper * (1 + 1e-6))
    assert shows_lower(parts, DELTA, lower * (1 - 1e-6))
    # Each end refutes what would contradict it.
    assert not shows_upper(parts, DELTA, lower * (1 - 1e-6))
    assert not shows_lower(parts, DELTA, found.epsilon_upper * (1 + 1e-6))


def test_a_smaller_epsilon_than_composing_finds_is_not_shown() -> None:
    parts = rounds(4)
    found = compose(parts, DELTA)
    assert not shows_upper(parts, DELTA, found.epsilon_upper * (1 - 1e-4))
    assert found.epsilon_lower is not None
    assert not shows_lower(parts, DELTA, found.epsilon_lower * (1 + 1e-4))


def test_another_round_makes_few_spans_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    above = composed_claims._Spans(composed_claims.dominating_grid)
    made: list[object] = []
    monkeypatch.setattr(composed_claims._Span, "_made", _noting(composed_claims._Span._made, made))
    for count, epsilon in ((15, 4.52), (16, 4.67)):
        made.clear()
        assert above.curve(rounds(count), DELTA, epsilon) is not None
    # The two new parts, and the spans of 2, 4, 8, 16 and 32 parts that end with them.
    assert len(made) == 2 + 5


def test_laws_that_were_asked_for_longest_ago_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composed_claims, "MOST_LAWS", 2)
    above = composed_claims._Spans(composed_claims.dominating_grid)
    first = above.curve(rounds(3), DELTA, 2.0)
    for count in (4, 5, 6):
        above.curve(rounds(count), DELTA, 2.0)
    spans = [span for span in above._spans.values() if span is not None]
    assert sum(span._law is not None for span in spans) <= 2
    again = above.curve(rounds(3), DELTA, 2.0)
    assert first is not None
    assert again is not None
    assert again.delta(2.0) == pytest.approx(first.delta(2.0), rel=1e-6)


def _noting(real: object, made: list[object]) -> object:
    def noted(span: object, *args: object) -> object:
        made.append(span)
        return real(span, *args)  # type: ignore[operator]

    return noted


def test_equal_rounds_are_one_part() -> None:
    grouped = composed_claims._grouped([part for _ in range(30) for part in rounds(1)])
    assert [(part.mechanism, part.rounds) for part in grouped] == [(kind, 30) for kind in KINDS]
    assert composed_claims._grouped(rounds(3)) == rounds(3)


def test_what_has_several_bounds_is_left_to_composing() -> None:
    law = NoiseLaw.of("geometric", Fraction(1, 2), 30)
    several = ([Part(KINDS[0], 2000, dummies=10)] * 3, [Part(WithNoise(KINDS[0], law), 2000)] * 3)
    for parts in several:
        assert not shows_upper(parts, DELTA, 1e6)
        assert not shows_lower(parts, DELTA, 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), float("nan")])
def test_what_is_no_epsilon_is_not_shown(epsilon: float) -> None:
    assert not shows_upper(rounds(2), DELTA, epsilon)
    assert not shows_lower(rounds(2), DELTA, epsilon)


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        # All losses are 0, so the steps are tiny: ε in steps is no double.
        ([Part(KRR(4, Fraction(1)), 10)] * 2, 1e300),
        # Together they are more rounds than one part may have.
        ([Part(KINDS[0], 2000, ROUNDS_LIMIT)] * 2, 1.0),
        ([], 1.0),
    ],
)
def test_what_is_beyond_arithmetic_is_left_to_composing(parts: list[Part], epsilon: float) -> None:
    assert not shows_upper(parts, DELTA, epsilon)
    assert not shows_lower(parts, DELTA, epsilon)


class Overflowing:
    """A curve whose δ overflows: NumPy makes it infinite, which exceeds any δ."""

    def curve(self, *_: object) -> Overflowing:
        return self

    def delta(self, epsilon: float) -> float:
        return float(np.exp(np.float64(1000 + epsilon)))


@pytest.mark.filterwarnings("ignore:overflow")
def test_an_overflow_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composed_claims, "_FROM_BELOW", Overflowing())
    assert not shows_lower(rounds(2), DELTA, 1.0)
