"""Plans the curves of the central ε over n, ε_local, δ, k, g or T."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.bounds.bound import Bound
from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.bounds.noise import covered
from hubbub.accountant.bounds.over_rounds import composed_epsilon, compositions
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import AnyMechanism, Gaussian
from hubbub.accountant.numbers import checked_reports
from hubbub.accountant.pairs import Part
from hubbub.cli.mechanisms.arguments import Description, hidden_by, read_mechanism
from hubbub.cli.plots.plan import Axis, CurvePlan, Panel, PanelPlan, Plot, PlotPlan, Role, Series
from hubbub.cli.plots.variables import KINDS, POINTS_LIMIT, Range, Variable
from hubbub.protos.errors import UsageError
from hubbub.queries.errors import did_you_mean

BEST = "best"
"""The bound that a certificate takes."""

ATTACK = "attack"
"""The ε that the best known attack reaches."""


@dataclass(frozen=True)
class BoundInputs:
    """One point: the mechanism, the reports that hide an honest person, and δ.

    Only a mechanism with a finite ε_local can be asked about several rounds.
    """

    mechanism: AnyMechanism
    reports: int
    delta: float
    rounds: int = 1
    dummies: int = 0

    def part(self) -> Part:
        """Return the rounds, to be composed, or raise OutsideConditions."""
        if isinstance(self.mechanism, Gaussian):
            raise OutsideConditions("gaussian has no local epsilon and is not composed; ask for one round")
        return Part(self.mechanism, self.reports, self.rounds, self.dummies)


@dataclass(frozen=True)
class SweepQuestion:
    """The parameters that stay fixed, None if not given. The mechanism is read again at every point."""

    said: Description
    reports: int | None = None
    delta: float | None = None
    rounds: int = 1
    honest_share: float = 1.0
    dummies: int = 0

    def check(self, variable: Variable, x: float) -> None:
        """Raise UsageError if options are missing, contradict each other, or fix the variable that is varied."""
        said = {
            Variable.REPORTS: self.reports is not None,
            Variable.LOCAL_EPSILON: self.said.local_epsilon is not None,
            Variable.DELTA: self.delta is not None,
            Variable.CATEGORIES: self.said.categories is not None,
            Variable.CELLS: self.said.cells is not None,
            Variable.ROUNDS: self.rounds != 1,
        }
        if said[variable]:
            raise UsageError(f"--{variable.value} is the variable of --over: leave it out")
        try:
            read_mechanism(self._varied(variable, x).said)
        except AccountingError as error:
            raise UsageError(str(error)) from error
        self.at(variable, x)

    def at(self, variable: Variable, x: float) -> BoundInputs:
        """Return the inputs of the bounds at `variable` = `x`."""
        varied = self._varied(variable, x)
        if varied.reports is None or varied.delta is None:
            raise UsageError("a number is missing; give --reports and --delta, except the one that --over varies")
        honest = hidden_by(checked_reports(varied.reports), varied.reports, varied.honest_share)
        return BoundInputs(read_mechanism(varied.said), honest, varied.delta, varied.rounds, varied.dummies)

    def _varied(self, variable: Variable, x: float) -> SweepQuestion:
        changes: dict[Variable, Callable[[], SweepQuestion]] = {
            Variable.REPORTS: lambda: replace(self, reports=round(x)),
            Variable.LOCAL_EPSILON: lambda: replace(self, said=replace(self.said, local_epsilon=x)),
            Variable.DELTA: lambda: replace(self, delta=x),
            Variable.CATEGORIES: lambda: replace(self, said=replace(self.said, categories=round(x))),
            Variable.CELLS: lambda: replace(self, said=replace(self.said, cells=round(x))),
            Variable.ROUNDS: lambda: replace(self, rounds=round(x)),
        }
        return changes[variable]()


def sweep(question: SweepQuestion, over: Range, bounds: Sequence[str] = ()) -> PlotPlan:
    """Plan the curves of `bounds` over a range; by default those of the certificate, the attack and every bound.

    Raises:
        UsageError: an unknown bound, a missing option, or an empty range.
        AccountingError: a mechanism that the first value cannot describe.
    """
    unknown = [name for name in bounds if name not in names()]
    if unknown:
        remedy = did_you_mean(unknown[0], names()).rstrip() or f"choose one of: {', '.join(names())}"
        raise UsageError(f"--bound {unknown[0]!r} is unknown; {remedy}")
    x = over.values()
    question.check(over.variable, x[0])
    asked = tuple(dict.fromkeys(bounds)) or names()
    curves = tuple(
        CurvePlan(name, role_of(name), x, partial(_value, question, over.variable, name), strong=name == BEST)
        for name in asked
    )
    title = _title(question, over.variable)
    return PlotPlan(title, "", (PanelPlan(title, over.axis, Axis("central ε (nats)"), curves),))


def names() -> tuple[str, ...]:
    """Return the names of all curves that can be drawn."""
    return (BEST, ATTACK, *CATALOG)


def role_of(name: str) -> Role:
    """Return what the curve `name` proves."""
    if name == ATTACK:
        return "lower"
    return "upper" if name == BEST else CATALOG[name].direction


def _value(question: SweepQuestion, variable: Variable, name: str, x: float) -> float:
    try:
        return epsilon_at(name, question.at(variable, x))
    except OutsideConditions:
        raise
    except AccountingError as error:
        raise AccountingError(f"at {variable.value} = {x:g}: {error}") from error


def epsilon_at(name: str, asked: BoundInputs) -> float:
    """Return the ε of the curve `name`: never below the truth for an upper bound, never above it for a lower one.

    Raises:
        OutsideConditions: it does not apply, or no attack is known.
        AccountingError: numbers out of range.
    """
    if name in (BEST, ATTACK):
        bracket = _certified(asked)
        if name == BEST:
            return bracket.epsilon_upper
        if bracket.epsilon_lower is None:
            raise OutsideConditions("no attack is known for this case; ask for an upper bound")
        return bracket.epsilon_lower
    bound = CATALOG[name]
    if asked.rounds > 1:
        return _composed(bound, asked.part(), asked.delta)
    ends = bound.epsilon(covered(bound, asked.mechanism), asked.reports, asked.delta, asked.dummies)
    return ends.upper if bound.direction == "upper" else ends.lower


@lru_cache(maxsize=POINTS_LIMIT)
def _certified(asked: BoundInputs) -> EpsilonBracket:
    """Return both ends of the certified bracket; it is computed once per point, for the curves of both ends."""
    if asked.rounds > 1:
        return compose([asked.part()], asked.delta)
    return epsilon_bracket(asked.mechanism, asked.reports, asked.delta, dummies=asked.dummies)


def _composed(bound: Bound, part: Part, delta: float) -> float:
    """Return ε of all rounds by the tightest of the ways in which `bound` composes."""
    ways = compositions(bound)
    # Composing the losses is exact up to what is charged, so the other, coarser ways are not computed.
    if "losses" in ways:
        return composed_epsilon(bound, part, delta, "losses")
    found, refused = [], None
    for way in ways:
        try:
            found.append(composed_epsilon(bound, part, delta, way))
        except OutsideConditions as error:
            refused = refused or error
    if refused is not None and not found:
        raise refused
    return min(found)


def only_applying(drawing: Plot) -> Plot:
    """Leave out series without a point, and join those that are the same at every point under all their names."""
    return replace(drawing, panels=tuple(replace(panel, series=_joined(panel)) for panel in drawing.panels))


def _joined(panel: Panel) -> tuple[Series, ...]:
    kept: dict[tuple[Role, tuple[float | None, ...]], Series] = {}
    for series in panel.series:
        key = (series.role, series.y)
        if not series.empty:
            first = kept.get(key)
            kept[key] = replace(first, label=f"{first.label} = {series.label}") if first else series
    return tuple(kept.values())


def _title(question: SweepQuestion, variable: Variable) -> str:
    said = question.said
    shown = {
        Variable.CATEGORIES: said.categories and f"k = {said.categories}",
        Variable.CELLS: said.cells and f"g = {said.cells}",
        Variable.LOCAL_EPSILON: said.local_epsilon is not None and f"ε₀ = {said.local_epsilon:g}",
        Variable.REPORTS: question.reports and f"n = {question.reports:,}".replace(",", "\u202f"),
        Variable.DELTA: question.delta and f"δ = {shown_power(question.delta)}",
        Variable.ROUNDS: question.rounds > 1 and f"T = {question.rounds}",
    }
    parts = [text for each, text in shown.items() if text and each is not variable]
    exact = {"γ": said.gamma, "p₁": said.truthful, "p₀": said.other, "σ": said.sigma, "noise": said.noise}
    parts += [f"{sign} = {value}" for sign, value in exact.items() if value is not None]
    parts += [f"{question.dummies} dummies"] if question.dummies else []
    parts += [f"honest share {question.honest_share:g}"] if question.honest_share < 1 else []
    return f"central ε over {KINDS[variable].sign}: {said.mechanism}" + "".join(f", {part}" for part in parts)


def shown_power(value: float) -> str:
    """Write a power of ten as one, and any other number as it is."""
    mantissa, _, exponent = f"{value:e}".partition("e")
    if float(mantissa) != 1:
        return f"{value:g}"
    return "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
