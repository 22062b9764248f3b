"""Every public function is asked about every mechanism: it answers, or refuses what it does not cover."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Listed
from fractions import Fraction
from itertools import product
from math import isfinite
from typing import Any

import pytest

from hubbub import accountant
from hubbub.accountant import (
    BOUNDS,
    CATALOG,
    KRR,
    RAPPOR,
    AccountingError,
    DeltaBracket,
    EpsilonBracket,
    Finite,
    Gaussian,
    Generic,
    Laplace,
    Ledger,
    LedgerEntry,
    NoiseLaw,
    Part,
    WithNoise,
    assess,
    compose,
    compose_delta,
    compose_upper,
    delta_bracket,
    epsilon_bracket,
    group_epsilon,
    rdp_lower,
    rdp_upper,
    read_mechanism,
    subsampled_delta,
    subsampled_epsilon,
    to_dp_accounting,
)
from hubbub.accountant.mechanisms import AnyMechanism, Common, Hashed, Sequence, TreeNodes
from hubbub.accountant.mechanisms.registry import KINDS
from support.thoroughness import EXHAUSTIVE

HALF, TENTH = Fraction(1, 2), Fraction(1, 10)
BESIDE = NoiseLaw.of("geometric", Fraction(3, 5), 12)
EVERY: tuple[AnyMechanism, ...] = (
    KRR(2, TENTH),
    KRR(5, TENTH),
    Generic(1.5),
    Common(1.5),
    RAPPOR.from_local_epsilon(4, 2.0),
    Laplace(1.5),
    Gaussian(1.0),
    Hashed(16, 256, TENTH),
    Finite(((HALF, HALF / 2, HALF / 2), (HALF / 2, HALF, HALF / 2))),
    Sequence(2.0, 1.5, 200),
    TreeNodes(8, 2, 2**29, 2**28),
    WithNoise(KRR(2, TENTH), BESIDE),
    WithNoise(KRR(5, TENTH), BESIDE),
    WithNoise(Hashed(16, 256, TENTH), BESIDE),
)
BATCHES = ((90, 0), (90, 9))
"""Reports, and uniform dummies among them."""


def charged(mechanism: Any, reports: int, dummies: int) -> float:
    entry = LedgerEntry("task", 0, "query", Part(mechanism, reports, 1, dummies))
    return Ledger("task", 100.0, 1e-6).charge([entry]).epsilon_spent()


def written(mechanism: Any, reports: int, dummies: int) -> None:
    # Gaussian noise has no local ε, so no task may use it: it has no written form.
    if not isinstance(mechanism, Gaussian):
        assert read_mechanism(mechanism.content()) == mechanism


Ask = Callable[[Any, int, int], Any]
FUNCTIONS: dict[str, Ask] = {
    "epsilon_bracket": lambda m, n, d: epsilon_bracket(m, n, 1e-6, dummies=d),
    "delta_bracket": lambda m, n, d: delta_bracket(m, n, 0.5, dummies=d),
    "assess": lambda m, n, d: assess(m, n, 1e-6, dummies=d, order=3.0),
    "assess, rounds": lambda m, n, d: assess(m, n, 1e-6, dummies=d, rounds=3),
    "compose": lambda m, n, d: compose([Part(m, n, 3, d)], 1e-6),
    "compose_delta": lambda m, n, d: compose_delta([Part(m, n, 3, d)], 0.5),
    "compose_upper": lambda m, n, d: compose_upper([Part(m, n, 3, d)], 1e-6),
    "group_epsilon": lambda m, n, d: group_epsilon(m, n, 2, 1e-6, d),
    "rdp_upper": lambda m, n, d: rdp_upper(m, n, 3.0, d),
    "rdp_lower": lambda m, n, d: rdp_lower(m, n, 3.0, d),
    "subsampled_epsilon": lambda m, n, _: subsampled_epsilon(m, n, 10 * n, 1e-6),
    "subsampled_delta": lambda m, n, _: subsampled_delta(m, n, 10 * n, 0.5),
    "to_dp_accounting": lambda m, n, d: to_dp_accounting(Part(m, n, 2, d), 1e-2),
    "Ledger": charged,
    "read_mechanism": written,
}
QUESTIONS = {
    **FUNCTIONS,
    **{f"{name}.epsilon": lambda m, n, d, b=bound: b.epsilon(m, n, 1e-6, d) for name, bound in CATALOG.items()},
    **{f"{name}.delta": lambda m, n, d, b=bound: b.delta(m, n, 0.5, d) for name, bound in CATALOG.items()},
    **{f"{name}.rdp": lambda m, n, d, b=bound: b.rdp(m, n, 3.0, d) for name, bound in CATALOG.items()},
}


DEAR = (
    *("assess", "assess, rounds", "compose", "compose_delta", "compose_upper", "group_epsilon", "epsilon_bracket"),
    *("to_dp_accounting", "girgis-upper-1.epsilon", "rdp_upper", "subsampled_epsilon", "blanket.epsilon"),
    "delta_bracket",
)
"""What takes seconds, or nearly one, to ask about all mechanisms."""


def asked(name: str) -> Listed[tuple[AnyMechanism, tuple[int, int]]]:
    """All mechanisms in both batches; in a usual run what is dear is asked about its part of them."""
    every = [*product(EVERY, BATCHES)]
    if name not in DEAR or EXHAUSTIVE:
        return every
    part = DEAR.index(name)
    return every[len(every) * part // len(DEAR) : len(every) * (part + 1) // len(DEAR)]


def numbers(answer: Any) -> Iterable[float]:
    """The upper and lower ends in an answer, each pair in order of size."""
    if isinstance(answer, EpsilonBracket):
        return answer.epsilon_lower or 0.0, answer.epsilon_upper
    if isinstance(answer, DeltaBracket):
        return answer.delta_lower or 0.0, answer.delta_upper
    if isinstance(answer, tuple) and answer and all(isinstance(each, float) for each in answer):
        return answer
    return (answer,) if isinstance(answer, float) else ()


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_mechanism_is_answered_or_refused(name: str) -> None:
    answered = 0
    for mechanism, (reports, dummies) in asked(name):
        try:
            found = tuple(numbers(QUESTIONS[name](mechanism, reports, dummies)))
        except AccountingError:
            continue
        answered += 1
        assert all(isfinite(each) and each >= 0 for each in found), (mechanism, reports, dummies, found)
        assert list(found) == sorted(found), (mechanism, reports, dummies, found)
    # A bound gives some of the three; every other function answers at least one mechanism.
    assert answered or name.partition(".")[0] in CATALOG


def test_all_mechanisms_and_functions_are_asked() -> None:
    assert {type(each) for each in EVERY} == {*KINDS.values(), Gaussian}
    functions = {name for name in accountant.__all__ if name[0].islower()}
    assert functions == {name for name in FUNCTIONS if name[0].islower() and "," not in name}
    assert set(BOUNDS) <= set(CATALOG)
    assert {each for name in DEAR for each in asked(name)} == {*product(EVERY, BATCHES)}
