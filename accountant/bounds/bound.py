"""Defines the interface of a bound: a value with name, source and direction, which checks its conditions first."""

from typing import Literal, Protocol

from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import AnyMechanism, LocalMechanism, WithNoise
from hubbub.accountant.numbers import checked_dummies
from hubbub.accountant.pairs import pairs_of

Direction = Literal["upper", "lower"]

Quantity = Literal["delta", "epsilon", "rdp"]

EVERYTHING: frozenset[Quantity] = frozenset(("delta", "epsilon", "rdp"))
"""The quantities of a bound that is the divergence of a pair."""


INSTEAD = "; ask for 'best' instead"
"""The end of the error message of a bound that was requested by name."""


class Bound(Protocol):
    """A bound on the divergence of one shuffled batch; `direction` gives the end of it that certifies.

    `delta` and `epsilon` return both ends of the *bound's own* value, evaluated in floating point. If the theorem has
    conditions on ε, δ or an order, the method that takes that number raises OutsideConditions.
    """

    @property
    def name(self) -> str:
        """The name by which the bound is requested."""

    @property
    def source(self) -> str:
        """Paper and theorem."""

    @property
    def direction(self) -> Direction:
        """Whether the bound is above or below the true divergence."""

    @property
    def proven(self) -> bool:
        """Whether a certificate may rest on it: False for a number that a paper only plots."""

    @property
    def gives(self) -> frozenset[Quantity]:
        """Those of `delta`, `epsilon` and `rdp` that it can answer; the others raise OutsideConditions."""

    @property
    def cost(self) -> str:
        """How the work grows, in words."""

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions if the theorem does not apply."""

    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of the bound's δ at `epsilon`."""

    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of the bound's ε at `delta`; `upper` was checked."""

    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return the Rényi divergence of real `order` above 1, in nats, rounded to the side of `direction`."""


def described(mechanism: AnyMechanism) -> str:
    """Return a short description of a mechanism, for errors and tables."""
    return pairs_of(mechanism).described()


def require(condition: bool, name: str, mechanism: AnyMechanism, needs: str) -> None:
    """Raise OutsideConditions, with the needs of bound `name`, unless `condition` is true."""
    if not condition:
        raise uncovered(name, mechanism, needs)


def checked_beside(mechanism: AnyMechanism, dummies: int) -> int:
    """Return `dummies` as a whole number; raise OutsideConditions if the law of a dummy is not known."""
    number = checked_dummies(dummies)
    if number and not mechanism.counts_dummies:
        raise OutsideConditions(
            f"{described(mechanism)} does not define a dummy, but there are {number}; give the law of a dummy, or "
            "leave dummies out, which is safe"
        )
    return number


def check_no_dummies(name: str, dummies: int) -> None:
    """Raise OutsideConditions if an attack has no Rényi divergence, as there are dummies."""
    if dummies:
        raise OutsideConditions(
            f"bound {name!r} gives no Rényi divergence beside dummies, but there are {dummies}; ask for its δ, or "
            "leave dummies out"
        )


def uncovered(name: str, mechanism: AnyMechanism, needs: str) -> OutsideConditions:
    """Return the error that bound `name` does not cover `mechanism`, with the bound's needs."""
    if isinstance(mechanism, WithNoise):
        # Whatever it needs of the randomizer, noise alone is the cause: an attack without it is none with it.
        needs = "a batch without noise of the shuffler, which may hide what it looks at"
    return OutsideConditions(f"bound {name!r} does not cover {described(mechanism)}: it needs {needs}{INSTEAD}")


def with_local_epsilon(mechanism: AnyMechanism, name: str) -> LocalMechanism:
    """Return `mechanism`; raise OutsideConditions, on behalf of bound `name`, if it has no local ε."""
    if not isinstance(mechanism, LocalMechanism):
        raise OutsideConditions(
            f"bound {name!r} does not cover {described(mechanism)}: it needs a local epsilon; ask for 'blanket' instead"
        )
    return mechanism


def at_most_without(diluted: EpsilonEnds, plain: EpsilonEnds) -> EpsilonEnds:
    """Return the ends of a bound with dummies, given those without: the smaller upper end.

    An observer of the batch without dummies can draw dummies, which are independent of every answer, add them and
    shuffle again. That gives the batch with dummies. So it is a post-processing, and any bound on δ without dummies is
    a bound with them. In exact numbers dummies only help; but with dummies the error of bins is charged.
    """
    upper = min(diluted.upper, plain.upper)
    return EpsilonEnds(upper, min(diluted.lower, upper))


def at_most_without_delta(diluted: tuple[float, float], plain: tuple[float, float]) -> tuple[float, float]:
    """Return (lower, upper) of a bound's δ, in the same way."""
    upper = min(diluted[1], plain[1])
    return min(diluted[0], upper), upper
