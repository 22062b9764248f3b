"""The randomizer has exactly the law that the accountant computes with."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import pytest

from hubbub.accountant.mechanisms import KRR
from hubbub.client.randomize import randomize, randomize_all
from hubbub.protos.task import Task


def draws(*values: int, width: int = 4) -> Callable[[int], bytes]:
    left = list(values)
    return lambda count: left.pop(0).to_bytes(count, "big")


def enumerated_law(symbol: int, symbols: int, gamma: int) -> tuple[Fraction, ...]:
    """The law at one byte per draw: every first draw, and for it every second draw that is not rejected."""
    law = [Fraction(0)] * symbols
    for first in range(256):
        outcomes = []
        for second in range(256):
            try:
                outcomes.append(randomize(symbol, symbols, gamma, draws(first, second), width=1))
            except IndexError:  # rejected
                continue
        for outcome in outcomes:
            law[outcome] += Fraction(1, 256 * len(outcomes))
    return tuple(law)


@pytest.mark.parametrize(("symbols", "gamma"), [(2, 1), (2, 128), (3, 77), (5, 256), (16, 200), (33, 255)])
def test_enumerated_law_is_the_mechanisms_law(symbols: int, gamma: int) -> None:
    mechanism = KRR(symbols, Fraction(gamma, 256))
    for symbol in {0, symbols // 2, symbols - 1}:
        assert enumerated_law(symbol, symbols, gamma) == mechanism.law(symbol)


@pytest.mark.parametrize("gamma", [1, 17_367_567, 2**31, 2**32 - 1])
def test_draw_below_gamma_is_the_blanket_and_gamma_itself_the_truth(gamma: int) -> None:
    assert randomize(3, 5, gamma, draws(gamma - 1, 1)) == 1
    assert randomize(3, 5, gamma, draws(gamma)) == 3
    assert randomize(3, 5, gamma, draws(2**32 - 1)) == 3
    assert randomize(3, 5, gamma, draws(0, 4)) == 4


def test_gamma_of_one_never_tells_the_truth() -> None:
    assert randomize(3, 5, 2**32, draws(2**32 - 1, 2)) == 2


def test_a_tasks_reports_are_drawn_one_by_one(task: Task) -> None:
    reports = randomize_all(task, (2, 8), draws(2**32 - 1, 0, 5))
    assert reports == (2, 5)


def test_a_tasks_reports_need_one_symbol_per_query(task: Task) -> None:
    with pytest.raises(ValueError, match="shorter"):
        randomize_all(task, (2,), os.urandom)
