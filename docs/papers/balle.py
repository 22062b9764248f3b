"""balle-2019, Fig. 3: the blanket bounded by inequalities, beside the exact evaluation of the same blanket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.mechanisms import KRR, Generic, Laplace
from hubbub.cli.plots.plan import Axis, CurvePlan, PanelPlan, PlotPlan
from hubbub.cli.plots.variables import Range, Variable
from papers.inverse import largest_local_epsilon

LOCAL_EPSILON = 0.49
"""ε₀ of panel (i). The authors draw 0.5, which lies just outside erlingsson-2019's condition ε₀ < 1/2."""

EPSILON = 0.1
"""Central ε of panels (ii) to (iv)."""

DELTA = 1e-6
"""δ of panels (i) to (iii)."""

CAPTION = (
    "After balle-2019, Fig. 3. (i) ε that n shuffled reports have at δ = 10⁻⁶, of any common randomizer with ε₀ = "
    "0.49, or of places with such randomizers of their own. (ii), (iii) The largest ε₀ that reaches ε = 0.1 at δ = "
    "10⁻⁶. (iv) The same for kRR with k = ⌊∛n⌋ and δ = n⁻². The parameters are those of the code that the authors "
    "published, but with ε₀ = 0.49 instead of 0.5, because the theorem behind EFMRTT'19 requires ε₀ < ½. Bennett is "
    "Lemma 5.6 as its proof has it, not as printed; the printed one falls below the truth. So in (iii) Bennett is not "
    "better than Hoeffding for RR-2; the paper finds it better for all. EFMRTT'19 has a gap below n = 1000, outside "
    "its theorem's conditions, and ends at ε₀ = ½. The black curves are not in the paper: the same blanket, or the "
    "stronger clones for the randomizers of (i), evaluated exactly."
)

MechanismAt = Callable[[int, float], Any]
"""The mechanism of n reports and a local ε."""


def plan() -> PlotPlan:
    """Plan the four panels."""
    return PlotPlan("Bounds of the privacy blanket, after balle-2019, Fig. 3", CAPTION, (_i(), _ii(), _iii(), _iv()))


def _generic(_: int, local: float) -> Generic:
    return Generic(local)


def _laplace(_: int, local: float) -> Laplace:
    return Laplace(local)


def _krr(categories: int) -> MechanismAt:
    return lambda _, local: KRR.from_local_epsilon(categories, local)


def _growing(reports: int, local: float) -> KRR:
    """KRR of k = ⌊∛n⌋: the nearest whole number to the root, or the one below."""
    # A float's cube root may be just below a whole number, which floor would then miss; integers decide.
    root = round(reports ** (1 / 3))
    return KRR.from_local_epsilon(root if root**3 <= reports else root - 1, local)


def _i() -> PanelPlan:
    over = Range(Variable.REPORTS, 1e3, 1e6, 25)
    labels = {
        "stronger-clones": "stronger clones, exact",
        "erlingsson-simple": "EFMRTT'19",
        "balle-hoeffding": "Hoeffding, generic",
        "balle-bennett": "Bennett, generic",
    }

    def at(name: str, reports: float) -> float:
        return CATALOG[name].epsilon(Generic(LOCAL_EPSILON), int(reports), DELTA).upper

    curves = tuple(
        CurvePlan(label, "upper", over.values(), partial(at, name), strong=name == "stronger-clones")
        for name, label in labels.items()
    )
    return PanelPlan("(i) any common randomizer, ε₀ = 0.49, δ = 10⁻⁶", over.axis, Axis("central ε (nats)"), curves)


def _largest(
    label: str, bound: str, mechanism: MechanismAt, delta: Callable[[float], float] = lambda _: DELTA
) -> CurvePlan:
    """Plan the curve of the largest ε₀ over n."""

    def at(reports: float) -> float:
        n = int(reports)
        return largest_local_epsilon(CATALOG[bound], partial(mechanism, n), n, EPSILON, delta(n))

    return CurvePlan(label, "holds", _OVER.values(), at, strong=bound == "blanket")


_OVER = Range(Variable.REPORTS, 100, 1e5, 25)


def _panel(title: str, *curves: CurvePlan) -> PanelPlan:
    return PanelPlan(title, _OVER.axis, Axis("largest local ε₀ (nats)"), curves)


def _ii() -> PanelPlan:
    return _panel(
        "(ii) Hoeffding, ε = 0.1, δ = 10⁻⁶",
        _largest("EFMRTT'19", "erlingsson-simple", _generic),
        _largest("Hoeffding, generic", "balle-hoeffding", _generic),
        _largest("Hoeffding, RR-2", "balle-hoeffding", _krr(2)),
        _largest("Hoeffding, RR-100", "balle-hoeffding", _krr(100)),
        _largest("Hoeffding, Laplace", "balle-hoeffding", _laplace),
    )


def _iii() -> PanelPlan:
    curves = [
        _largest(f"{word}, {label}", bound, mechanism)
        for label, mechanism in (("RR-2", _krr(2)), ("RR-100", _krr(100)), ("Laplace", _laplace))
        for word, bound in (("Hoeffding", "balle-hoeffding"), ("Bennett", "balle-bennett"))
    ]
    return _panel("(iii) Hoeffding and Bennett, ε = 0.1, δ = 10⁻⁶", *curves)


def _iv() -> PanelPlan:
    bounds = {"blanket": "blanket, exact", "balle-hoeffding": "Hoeffding", "balle-bennett": "Bennett"}
    curves = [_largest(label, bound, _growing, lambda n: n**-2.0) for bound, label in bounds.items()]
    return _panel("(iv) RR-k, ε = 0.1, δ = n⁻², k = ⌊∛n⌋", *curves)
