"""Makes bounds of formulas, in three shapes: a formula for ε, for δ, or for a Rényi divergence.

A paper's module gives the formula and the theorem's conditions; this module makes a bound of them. Formulas are
evaluated with 80 digits (those with long sums in `girgis` with their error added), and the last rounding is to the safe
side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from math import inf, log10, nextafter
from typing import Any

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import Direction, Quantity, checked_beside, require, with_local_epsilon
from hubbub.accountant.bounds.renyi import epsilon_from_rdp, interpolated
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import AnyMechanism, LocalMechanism, exact_decimal
from hubbub.accountant.mechanisms.exact import PRECISE
from hubbub.accountant.numbers import checked_delta, checked_epsilon, checked_reports
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import checked_order

ROUNDING = Decimal(10) ** -60
"""Relative room for the rounding of a formula's 80-digit operations."""

SCANNED = 72
"""How many ε, on a logarithmic scale, a δ formula is tried at before the first that works is refined."""

SMALLEST_SHARE = 1e-11
"""Smallest ε tried, relative to the local one."""


@dataclass(frozen=True)
class Case:
    """The checked inputs of a formula, as exact decimals.

    Attributes:
        bound: name of the bound, for its errors.
        mechanism: the mechanism of every client.
        ratio: E = e^ε₀, never below it.
        local: ε₀.
        people: n, dummies counted as clients.
    """

    bound: str
    mechanism: LocalMechanism
    ratio: Decimal
    local: Decimal
    people: int

    def require(self, condition: bool, value: str, limit: str, remedy: str) -> None:
        """Raise OutsideConditions with the value, the limit and the remedy unless `condition` is true."""
        if not condition:
            raise OutsideConditions(f"bound {self.bound!r} does not apply: {value}, {limit}; {remedy}")


def any_local(mechanism: AnyMechanism) -> bool:
    """Whether the mechanism has a local ε; places of a batch may have different randomizers."""
    return pairs_of(mechanism).local_epsilon is not None


@dataclass(frozen=True, kw_only=True)
class Formula:
    """The common part of all three shapes. Dummies count as clients: each is a report of a random input."""

    name: str
    source: str
    covers: Callable[[Any], bool]
    needs: str
    direction: Direction = "upper"
    proven: bool = True
    cost: str = "a formula"

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions if the theorem does not cover the mechanism; `case` checks the numbers later."""
        checked_reports(reports)
        require(self.covers(mechanism), self.name, mechanism, self.needs)
        if checked_beside(mechanism, dummies) and self.direction == "lower":
            raise OutsideConditions(f"bound {self.name!r} takes no dummies, but there are {dummies}; leave them out")

    def case(self, mechanism: AnyMechanism, reports: int, dummies: int) -> Case:
        """Check and collect the formula's inputs."""
        self.conditions(mechanism, reports, dummies)
        private = with_local_epsilon(mechanism, self.name)
        with localcontext(PRECISE):
            ratio = exact_decimal(private.likelihood_ratio)
            # Rounding E up is safe: a theorem for a larger local ε covers a smaller one. But 1 stays 1: formulas test
            # for it.
            ratio *= 1 + ROUNDING if ratio > 1 else 1
            local = ratio.ln()
        return Case(self.name, private, ratio, local, int(reports) + int(dummies))

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Raise OutsideConditions: this theorem gives no δ at a given ε."""
        self.conditions(mechanism, reports, dummies)
        raise self._silent(f"δ at ε = {checked_epsilon(epsilon):g}")

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Raise OutsideConditions: this theorem gives no Rényi divergences."""
        self.conditions(mechanism, reports, dummies)
        raise self._silent(f"Rényi divergence of order {checked_order(order):g}")

    def _silent(self, quantity: str) -> OutsideConditions:
        return OutsideConditions(
            f"bound {self.name!r} gives no {quantity}: its theorem is not about that; ask another bound"
        )


@dataclass(frozen=True, kw_only=True)
class EpsilonFormula(Formula):
    """ε as a function of δ."""

    formula: Callable[[Case, Decimal], Decimal]
    inverse: Callable[[Case, Decimal], Decimal] | None = None
    """ln δ as a function of ε, if the theorem gives it directly."""

    @property
    def gives(self) -> frozenset[Quantity]:
        """ε, and δ if there is an inverse."""
        return frozenset(("epsilon", "delta") if self.inverse else ("epsilon",))

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of the formula's ε at `delta`: its neighboring doubles."""
        case, wanted = self.case(mechanism, reports, dummies), checked_delta(delta)
        with localcontext(PRECISE):
            value = self.formula(case, Decimal(wanted))
            return EpsilonEnds(double(value * (1 + ROUNDING), inf), double(value * (1 - ROUNDING), -inf))

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of the formula's δ at `epsilon`.

        Raises:
            OutsideConditions: if the theorem gives ε alone.
        """
        case, wanted = self.case(mechanism, reports, dummies), checked_epsilon(epsilon)
        if self.inverse is None:
            raise self._silent(f"δ at ε = {wanted:g}")
        with localcontext(PRECISE):
            return powers(self.inverse(case, Decimal(wanted)))


@dataclass(frozen=True, kw_only=True)
class DeltaFormula(Formula):
    """ln δ as a function of ε > 0; a search that checks each ε solves it for ε."""

    formula: Callable[[Case, float], Decimal]
    gives: frozenset[Quantity] = frozenset(("delta", "epsilon"))

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of the formula's δ at `epsilon`, at most 1."""
        case, wanted = self.case(mechanism, reports, dummies), checked_epsilon(epsilon)
        with localcontext(PRECISE):
            return powers(self.at(case, wanted))

    def at(self, case: Case, epsilon: float) -> Decimal:
        """Return ln δ at a checked ε; −∞ from the local ε on."""
        if epsilon >= case.mechanism.epsilon_local:
            return Decimal("-Infinity")
        # The formulas divide by e^ε − 1 and are undefined at ε = 0; infinity is the safe answer there.
        return self.formula(case, epsilon) + ROUNDING if epsilon else Decimal("Infinity")

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the smallest ε found at which the formula is at most `delta`, and one just below at which it is not.

        Raises:
            OutsideConditions: if there is none below the local ε; the theorem then gives nothing.
        """
        case, wanted = self.case(mechanism, reports, dummies), checked_delta(delta)
        with localcontext(PRECISE):
            target = Decimal(wanted).ln()
            return self._narrowed(case, lambda epsilon: self.at(case, epsilon) <= target, wanted)

    def _narrowed(self, case: Case, holds: Callable[[float], bool], delta: float) -> EpsilonEnds:
        # Nothing is assumed about the formula's shape. Values of ε are tried from the smallest up, and the gap before
        # the first that works is bisected. The returned upper end was checked.
        top, low = case.mechanism.epsilon_local, 0.0
        for place in range(SCANNED + 1):
            high = top * 10 ** (log10(SMALLEST_SHARE) * (1 - place / SCANNED)) * (1 - 1e-9)
            if holds(high):
                break
            low = high
        else:
            limit = f"and no ε below {top:.6g} reaches it"
            case.require(False, f"δ is {delta:g}", limit, f"raise the reports ({case.people}) or δ")
        while high - low > 1e-10 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return EpsilonEnds(high, low)


@dataclass(frozen=True, kw_only=True)
class RenyiFormula(Formula):
    """A Rényi divergence as a function of its order: of real orders, or of integers ≥ 2 and of real orders by (7)."""

    formula: Callable[[Case, float], float]
    integer: bool

    @property
    def gives(self) -> frozenset[Quantity]:
        """Rényi divergences, and the ε that an upper bound on them gives."""
        return frozenset(("epsilon", "rdp") if self.direction == "upper" else ("rdp",))

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return the formula's value, rounded to the side of `direction`, in nats."""
        case = self.case(mechanism, reports, dummies)
        return self._at(case, checked_order(order))

    def _at(self, case: Case, order: float) -> float:
        if not self.integer:
            return self.formula(case, order)
        if self.direction == "lower":
            case.require(order >= 2, f"order is {order:g}", "but the theorem needs at least 2", "raise it")
            # Rényi divergences grow with the order, so a lower bound at the whole order below is valid here.
            return self.formula(case, order // 1)
        return interpolated(lambda whole: self.formula(case, whole), order)

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return ε by Lemma 2.1 of girgis-2021, at the best order found; any order gives a valid ε.

        A lower bound gives none: the lemma makes only upper bounds, from upper bounds.
        """
        return self.composed(mechanism, reports, delta, 1, dummies)

    @answering
    def composed(
        self, mechanism: AnyMechanism, reports: int, delta: float, rounds: int, dummies: int = 0
    ) -> EpsilonEnds:
        """Return ε of `rounds` adaptive rounds: divergences add up (girgis-2021, Lemma 2.2), then as in `epsilon`."""
        case, wanted = self.case(mechanism, reports, dummies), checked_delta(delta)
        if self.direction == "lower":
            raise OutsideConditions(
                f"bound {self.name!r} is below a Rényi divergence, and Lemma 2.1 makes no lower bound on ε from it; "
                "ask for its value at an order"
            )
        found = epsilon_from_rdp(lambda order: rounds * self._at(case, order), wanted)
        case.require(found < inf, "no order gives an ε", "because none is within the conditions", "raise the reports")
        return EpsilonEnds(found, found * (1 - 1e-9))


def powers(log_delta: Decimal) -> tuple[float, float]:
    """Return e^`log_delta` rounded down and up, at most 1; both 0 at −∞."""
    if log_delta == Decimal("-Infinity"):
        return 0.0, 0.0
    # Below e^−1000 the doubles are always 0 and the least positive one.
    power = min(max(log_delta, Decimal(-1000)), Decimal(0)).exp()
    return double(power * (1 - ROUNDING), -inf), min(1.0, double(power * (1 + ROUNDING), inf))


def double(value: Decimal, towards: float) -> float:
    """Return the double next to `value` on the side of `towards` (±∞); `value` itself if it is a double."""
    result = float(value)
    wrong = Decimal(result) < value if towards > 0 else Decimal(result) > value
    return nextafter(result, towards) if wrong else result
