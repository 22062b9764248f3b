"""feldman-2022, Fig. 1: any common randomizer, between what is proven and what known mechanisms reach."""

from __future__ import annotations

from functools import lru_cache, partial

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.cli.plots.plan import Axis, CurvePlan, PanelPlan, PlotPlan
from hubbub.cli.plots.variables import Range, Variable

REPORTS = 10_000
"""n."""

DELTA = 1e-6
"""δ."""

CAPTION = (
    "After feldman-2022, Fig. 1, for n = 10⁴ and δ = 10⁻⁶. (a) ε over ε₀: the stronger clones (the paper's “This "
    "work”) and the earlier clones (FMT'20), both as pairs evaluated exactly, with their closed forms. The dashed "
    "curves are attained by kRR with two and with three values. (b) The same bounds over the larger of the two "
    "attained values. The paper's text does not name its n; this one is ours. The paper proved its bound for a class "
    "of randomizers only; the curve here is proven for every common randomizer, and for places of the batch with "
    "randomizers of their own, not for people with ones of their own (docs/explanation/accounting-clones.md). 2RR is "
    "the worst number of ones among the others, not only everyone at 0. The closed forms have gaps if ε₀ is outside "
    "their conditions."
)

OVER = Range(Variable.LOCAL_EPSILON, 0.25, 6.5, 26)
"""Beyond 6.5, shuffling 10⁴ reports amplifies nothing."""

UPPER = {
    "stronger-clones": "stronger clones (this work)",
    "clones": "clones (FMT'20)",
    "feldman-closed": "closed form, Thm 3.2",
    "clones-closed": "closed form of the clones",
}
"""Bounds of any common randomizer, by their names in the catalog."""

ATTAINED = {"2RR, attained": 2, "3RR, attained": 3}
"""Attacks, and the number of categories of what is attacked."""


def plan() -> PlotPlan:
    """Plan both panels."""
    x = OVER.values()
    upper = [
        CurvePlan(label, "upper", x, partial(_upper, name), name == "stronger-clones") for name, label in UPPER.items()
    ]
    lower = [CurvePlan(label, "lower", x, partial(_attained, categories)) for label, categories in ATTAINED.items()]
    ratios = [
        CurvePlan(label, "upper", x, partial(_ratio, name), name == "stronger-clones") for name, label in UPPER.items()
    ]
    return PlotPlan(
        "Any common randomizer, after feldman-2022, Fig. 1",
        CAPTION,
        (
            PanelPlan("(a) ε, n = 10⁴, δ = 10⁻⁶", OVER.axis, Axis("central ε (nats)", "log"), (*upper, *lower)),
            PanelPlan("(b) over the larger attained value", OVER.axis, Axis("bound / attained", "log"), tuple(ratios)),
        ),
    )


def _upper(name: str, local: float) -> float:
    return CATALOG[name].epsilon(Generic(local), REPORTS, DELTA).upper


# Cached because panel (b) divides by the values that panel (a) draws.
@lru_cache(maxsize=1000)
def _attained(categories: int, local: float) -> float:
    """Return what an attack on kRR reaches: the lower end of `2rr` for two categories, else all at a third value."""
    attack = "2rr" if categories == 2 else "krr-lower"
    return CATALOG[attack].epsilon(KRR.from_local_epsilon(categories, local), REPORTS, DELTA).lower


def _ratio(name: str, local: float) -> float:
    return _upper(name, local) / max(_attained(categories, local) for categories in ATTAINED.values())
