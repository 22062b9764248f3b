"""girgis-2021, Fig. 4a: many rounds, through Rényi divergences, through strong composition, and composed themselves."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from scipy.special import logsumexp

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.bounds.over_rounds import composed_epsilon
from hubbub.accountant.bounds.renyi import epsilon_from_rdp
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.composition import compose
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.losses.largest_curve import zeros_law
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.renyi import LOG_TAIL_LIMIT
from hubbub.cli.plots.plan import Axis, CurvePlan, PanelPlan, PlotPlan
from hubbub.cli.plots.variables import Range, Variable

LOCAL_EPSILON = 0.5
REPORTS = 10**6
DELTA = 1e-8

OVER = Range(Variable.ROUNDS, 1, 1e5, 16)

CAPTION = (
    "After girgis-2021, Fig. 4a: ε of T rounds with ε₀ = 0.5, n = 10⁶, at δ = 10⁻⁸. The curves are their first upper "
    "bound (5) and erlingsson-2019's (9), added over rounds and converted by Lemma 2.1, and the clones by strong "
    "composition. Their lower bound (10) is converted in the same way. It is dotted, because that lemma turns upper "
    "bounds into upper bounds, but a lower bound into none. Added here: the pair of the stronger clones composed "
    "itself, and an attack that no valid ε is below. The paper finds that (5) saves a factor of 8 over strong "
    "composition at T = 10⁵; here the factor is 5.0. For that the clones are evaluated exactly, and composed by "
    "Kairouz, Oh and Viswanath's Thm 3.4 in its simplest form, or added up if that is less."
)


def plan() -> PlotPlan:
    """Plan the one panel."""
    x = OVER.values()
    curves = (
        CurvePlan("stronger clones, composed", "upper", x, _composed, strong=True),
        CurvePlan("an attack, composed", "lower", x, _attack),
        CurvePlan("(5), by Rényi divergence", "upper", x, partial(_renyi, "girgis-upper-1")),
        CurvePlan("clones, strong composition", "upper", x, _strong),
        CurvePlan("erlingsson-2019 (9), by Rényi div.", "upper", x, partial(_renyi, "erlingsson-rdp")),
        CurvePlan("(10) converted", "neither", x, _lower),
    )
    title = "Many rounds, after girgis-2021, Fig. 4a: ε₀ = 0.5, n = 10⁶, δ = 10⁻⁸"
    return PlotPlan(title, CAPTION, (PanelPlan(title, OVER.axis, Axis("central ε (nats)", "log"), curves),))


@lru_cache(maxsize=100)
def _bracket(rounds: int) -> EpsilonBracket:
    return compose([Part(Generic(LOCAL_EPSILON), REPORTS, rounds)], DELTA)


def _composed(rounds: float) -> float:
    return _bracket(int(rounds)).epsilon_upper


def _attack(rounds: float) -> float:
    lower = _bracket(int(rounds)).epsilon_lower
    if lower is None:
        raise OutsideConditions("no attack is known for this case")
    return lower


def _renyi(name: str, rounds: float) -> float:
    return composed_epsilon(CATALOG[name], Part(Generic(LOCAL_EPSILON), REPORTS, int(rounds)), DELTA, "rdp")


def _strong(rounds: float) -> float:
    """Return ε of the clones by advanced composition, or by adding up where that is less."""
    clones, part = CATALOG["clones"], Part(Generic(LOCAL_EPSILON), REPORTS, int(rounds))
    return min(composed_epsilon(clones, part, DELTA, way) for way in ("advanced", "basic"))


def _lower(rounds: float) -> float:
    return epsilon_from_rdp(lambda order: rounds * zeros_divergence(order), DELTA)


def zeros_divergence(order: float) -> float:
    """Return (10) at a real order, in nats: binary response, all zeros but one from all zeros.

    Bound `girgis-lower` is the same rounded to its side; it stops where e^{ε₀λ} overflows, before the orders that few
    rounds need. Here logarithms are summed.
    """
    masses, gain = _zeros()
    return float(logsumexp(order * np.log1p(gain), b=masses)) / (order - 1)


@lru_cache(maxsize=1)
def _zeros() -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    masses, gain, _ = zeros_law(KRR.from_local_epsilon(2, LOCAL_EPSILON), REPORTS, LOG_TAIL_LIMIT)
    return masses, gain
