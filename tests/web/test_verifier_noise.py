"""Which (ε, δ) the verifier in TypeScript says that noise keeps: none below the exact view, and nearly all above it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import nextafter
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant.mechanisms import KRR, Hashed, NoiseLaw, WithNoise
from support.noise_counts import counted_pair
from support.noise_pairs import product_divergence
from support.web_client import run_program

Asked = list[tuple[float, float]]
Keeping = Callable[[Sequence[tuple[WithNoise, Asked]]], list[list[bool | None]]]

FAR_APART = NoiseLaw("gaussian", 2**30, 2)

LAWS = [
    NoiseLaw("geometric", 2**31, 2),
    NoiseLaw("geometric", 2**32 - 2**28, 3),
    NoiseLaw("gaussian", 3 * 2**31, 2),
    FAR_APART,
    NoiseLaw("geometric", 2**28, 1),
]
"""With likely ends, ratios far apart, and nearly none."""

SHARES = (0.05, 0.3, 0.6, 0.9)


@pytest.fixture
def keeping(built: None, tmp_path: Path) -> Keeping:
    """Ask of many mechanisms in one run of Node."""

    def run(cases: Sequence[tuple[WithNoise, Asked]]) -> list[list[bool | None]]:
        file = tmp_path / "cases.json"
        file.write_text(json.dumps([{"beside": beside(each), "asked": asked} for each, asked in cases]))
        found: list[list[bool | None]] = run_program("keeping.js", file)
        return found

    return run


def beside(mechanism: WithNoise) -> dict[str, Any]:
    law, krr = mechanism.noise, mechanism.krr
    return {
        "noise": {"family": law.family, "parameter": law.parameter, "reach": law.reach},
        "gamma": int(krr.gamma * 2**32),
        "answers": krr.categories,
        "fixedTotal": mechanism.fixed_total,
    }


def few() -> list[WithNoise]:
    """Two to five symbols."""
    answers = [KRR.from_numerator(k, gamma) for k in (2, 3, 4, 5) for gamma in (2**22, 2**30)]
    cases = [WithNoise(krr, law) for krr in answers for law in LAWS if krr.categories < 5 or law.reach < 3]
    return [*cases, *(WithNoise(Hashed.from_numerator(3, 4, 2**28), law) for law in LAWS)]


def test_what_is_kept_is_true_and_what_is_not_is_false_with_few_symbols(keeping: Keeping) -> None:
    cases = []
    for mechanism in few():
        pair, asked = counted_pair(mechanism), list[tuple[float, float]]()
        for epsilon in (share * mechanism.epsilon_local for share in SHARES):
            # The divergence takes e^ε as a float.
            truth = float(product_divergence([pair], epsilon))
            asked += [(epsilon, truth * (1 - 1e-12)), (epsilon, truth * (1 + 1e-12)), (1.005 * epsilon, truth)]
        cases.append((mechanism, asked))
    for (mechanism, asked), found in zip(cases, keeping(cases), strict=True):
        assert True not in found[::3], (mechanism, asked)
        assert False not in found[1::3], (mechanism, asked)
        # No lattice has ratios well that are as far apart as those of a narrow Gaussian law.
        assert set(found[2::3]) == {True} or mechanism.noise == FAR_APART, (mechanism, asked)
        if mechanism.krr.categories == 2:
            assert set(found[::3]) == {False}
            assert set(found[1::3]) == {True}


PLANNED = [NoiseLaw.of("geometric", Fraction("0.6065"), 27), NoiseLaw.of("gaussian", Fraction("35.7"), 37)]


def test_it_decides_as_proof_mode_does_with_many_symbols(keeping: Keeping) -> None:
    rigorous = pytest.importorskip("hubbub.accountant.rigorous.noise")
    cases = []
    for law in PLANNED:
        for categories, local in ((3, 1.0), (16, 4.0), (16, 8.0), (1000, 8.0)):
            mechanism = WithNoise(KRR.from_local_epsilon(categories, local), law)
            epsilons = [0.9, 1.0] if local > 1 else [0.3, 0.5]
            proven = [rigorous.noise_delta(mechanism, Fraction(epsilon)) for epsilon in epsilons]
            ends = [(float(found.lower), float(found.upper)) for found in proven]
            # Both spread a sum on lattices of their own: these agree in all but a thousandth of δ.
            asked = [
                (epsilon, delta)
                for epsilon, (lower, upper) in zip(epsilons, ends, strict=True)
                for delta in (0.999 * lower, 1.001 * upper)
            ]
            cases.append((mechanism, asked))
    assert keeping(cases) == [[False, True] * 2] * len(cases)


def test_a_law_that_is_cut_short_is_decided_too(keeping: Keeping) -> None:
    """Its ends are so likely that more zeros than are told apart are common: nothing false is kept."""
    cut = WithNoise(KRR.from_numerator(1000, 2**26), LAWS[1])
    local = cut.epsilon_local
    assert keeping([(cut, [(0.5, 1e-3), (nextafter(local, 0.0), 1e-9), (local * (1 + 1e-9), 1e-300)])])[0][2] is True
    assert True not in keeping([(cut, [(0.5, 1e-3), (0.9 * local, 1e-9)])])[0]
