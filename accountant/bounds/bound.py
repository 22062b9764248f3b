"""A value with a name, a source and a direction, that checks its conditions before it answers."""

from typing import Literal, Protocol

from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import AnyMechanism, LocalMechanism
from hubbub.accountant.numbers import checked_dummies
from hubbub.accountant.pairs import pairs_of

Direction = Literal["upper", "lower"]

Quantity = Literal["delta", "epsilon", "rdp"]

EVERYTHING: frozenset[Quantity] = frozenset(("delta", "epsilon", "rdp"))
"""What a bound can answer when it is the divergence of a pair."""


INSTEAD = "; ask for 'best' instead"
"""How the error of a bound ends that was asked for by its name."""


class Bound(Protocol):
    """A bound on the divergence of one shuffled batch; `direction` says which end of it certifies.

    `delta` and `epsilon` return both ends of the *bound's own* value, evaluated in floating point. Where the theorem's
    conditions are about ε, δ or an order, the method that is given them raises OutsideConditions.
    """

    @property
    def name(self) -> str:
        """How the bound is asked for."""

    @property
    def source(self) -> str:
        """Paper and theorem."""

    @property
    def direction(self) -> Direction:
        """Whether the bound lies above or below the true divergence."""

    @property
    def proven(self) -> bool:
        """Whether a certificate may rest on it: False for what a paper merely plots."""

    @property
    def gives(self) -> frozenset[Quantity]:
        """Which of `delta`, `epsilon` and `rdp` it can answer; the others raise OutsideConditions."""

    @property
    def cost(self) -> str:
        """How the work grows, in words."""

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions where the theorem does not apply."""

    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """(lower, upper) of the bound's δ at `epsilon`."""

    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Ends of the bound's ε at `delta`; `upper` is checked to hold."""

    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """The Rényi divergence of real `order` above 1, in nats, on the side of `direction`."""


def described(mechanism: AnyMechanism) -> str:
    """Return what a mechanism is in a few words, for errors and tables."""
    return pairs_of(mechanism).described()


def require(condition: bool, name: str, mechanism: AnyMechanism, needs: str) -> None:
    """Raise OutsideConditions, saying what bound `name` needs, unless `condition` holds."""
    if not condition:
        raise uncovered(name, mechanism, needs)


def checked_beside(mechanism: AnyMechanism, dummies: int) -> int:
    """Return `dummies` as a whole number; raise OutsideConditions where it is not known what one is."""
    number = checked_dummies(dummies)
    if number and not mechanism.counts_dummies:
        raise OutsideConditions(
            f"{described(mechanism)} does not say what a dummy is, got {number} of them; give the law of a dummy, or "
            "leave dummies out, which is safe"
        )
    return number


def uncovered(name: str, mechanism: AnyMechanism, needs: str) -> OutsideConditions:
    """Return the error that bound `name` does not cover `mechanism`, and what it needs."""
    return OutsideConditions(f"bound {name!r} does not cover {described(mechanism)}: it needs {needs}{INSTEAD}")


def with_local_epsilon(mechanism: AnyMechanism, name: str) -> LocalMechanism:
    """Return `mechanism`; raise OutsideConditions, in the name of bound `name`, where it has no local ε."""
    if not isinstance(mechanism, LocalMechanism):
        raise OutsideConditions(
            f"bound {name!r} does not cover {described(mechanism)}: it needs a local epsilon; ask for 'blanket' instead"
        )
    return mechanism


def at_most_without(diluted: EpsilonEnds, plain: EpsilonEnds) -> EpsilonEnds:
    """Return the ends of a bound beside dummies, given those without: the smaller upper end.

    Whoever sees the batch without dummies can draw some, which are independent of every answer, put them in and shuffle
    again: that gives the batch with dummies. So it is a post-processing, and whatever bounds δ without dummies bounds
    it with them. In exact numbers dummies only help; but what bins cost is charged where there are some.
    """
    upper = min(diluted.upper, plain.upper)
    return EpsilonEnds(upper, min(diluted.lower, upper))


def at_most_without_delta(diluted: tuple[float, float], plain: tuple[float, float]) -> tuple[float, float]:
    """Return (lower, upper) of a bound's δ likewise."""
    upper = min(diluted[1], plain[1])
    return min(diluted[0], upper), upper
