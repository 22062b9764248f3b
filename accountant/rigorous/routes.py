"""Registers the theorem that proves each mechanism's batch in proof mode, independently of the fast path.

Sharing `pairs` would share its mistakes. A mechanism needs an exact likelihood ratio and sums in balls here; otherwise
it is not proven, and the message reports it. The fast path's check of the certificate does not depend on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Any, ClassVar

from hubbub.accountant.mechanisms import KRR, RAPPOR, Finite, Hashed, LocalMechanism, TreeNodes, WithNoise
from hubbub.accountant.rigorous.balls import Enclosure, ball, precision
from hubbub.accountant.rigorous.blanket import blanket_delta
from hubbub.accountant.rigorous.finite import finite_delta
from hubbub.accountant.rigorous.noise import noise_delta
from hubbub.accountant.rigorous.proof import NotProvenError, Progress
from hubbub.accountant.rigorous.rappor import rappor_delta, whole_law_delta
from hubbub.accountant.rigorous.two_rr import Effort, two_rr_delta
from hubbub.accountant.rigorous.whole_law import finite_whole_delta, is_whole

NODES = (8, 32, 128, 512, 2048)
"""Nodes for the number of blankets, or bins of it if there are dummies, ever finer."""

UNARY_NODES = (6, 12, 24, 48)
"""Nodes for the number of unary reports with neither bit; half as many for those with both."""

FEW_PEOPLE = 1000
"""Up to this many people a point of RAPPOR's curve is bounded in both ways."""

FINENESS = (0.03, 0.01, 0.003, 0.001)
"""Smoothing of the integrals of a finite law, relative to their tilt."""

_POINT_NODES, _POINT_BINS = 8, 40
"""The same for one point of a curve; with dummies these are bins, of which more are needed to be close."""

_COVER = 40_000
"""Summands of one point at k = 2."""


class Route(ABC):
    """A way to enclose δ of one batch."""

    name: ClassVar[str]

    @abstractmethod
    def attempts(
        self, reports: int, epsilon: Fraction, target: Fraction, dummies: int, limit: int, progress: Progress
    ) -> Iterator[Enclosure]:
        """Yield δ(`epsilon`), ever finer; `progress` is called before each, as each may take a while.

        Each should take fewer than `limit` summands; `target` is the δ to compare with.
        """

    @abstractmethod
    def point(self, reports: int, epsilon: Fraction, scale: Fraction, dummies: int) -> Enclosure:
        """Return δ(`epsilon`), fine enough for one of many points of a curve; values below `scale` are negligible.

        Only its upper end is used: the lower one may be 0.
        """


@dataclass(frozen=True)
class BlanketRoute(Route):
    """kRR of three or more values."""

    mechanism: KRR
    name: ClassVar[str] = "blanket"

    def attempts(
        self, reports: int, epsilon: Fraction, target: Fraction, dummies: int, limit: int, progress: Progress
    ) -> Iterator[Enclosure]:
        """Yield with more and more nodes, until four times as many summands would be too many."""
        for nodes in NODES:
            progress(f"{self.name} at epsilon {float(epsilon):.8g}, {nodes} nodes")
            found = blanket_delta(self.mechanism, reports, epsilon, target, nodes, dummies)
            yield found
            if found.terms * 4 > limit:
                return

    def point(self, reports: int, epsilon: Fraction, scale: Fraction, dummies: int) -> Enclosure:
        """Few nodes."""
        nodes = _POINT_BINS if dummies else _POINT_NODES
        return blanket_delta(self.mechanism, reports, epsilon, scale, nodes, dummies, only_upper=True)


@dataclass(frozen=True)
class TwoRRRoute(Route):
    """kRR of two values."""

    mechanism: KRR
    name: ClassVar[str] = "2rr"

    def attempts(
        self, reports: int, epsilon: Fraction, target: Fraction, dummies: int, limit: int, progress: Progress
    ) -> Iterator[Enclosure]:
        """Yield one cover, whose worst block is split until the question is decided."""
        progress(f"{self.name} at epsilon {float(epsilon):.8g}")
        yield two_rr_delta(self.mechanism, reports, epsilon, target, Effort(limit), dummies)

    def point(self, reports: int, epsilon: Fraction, scale: Fraction, dummies: int) -> Enclosure:
        """Use a cover of some blocks."""
        return two_rr_delta(self.mechanism, reports, epsilon, scale, Effort(_COVER, decisive=False), dummies)


@dataclass(frozen=True)
class RapporRoute(Route):
    """RAPPOR, unary encoding. Its sums bound δ only from above: a false claim is left open, not refuted.

    All that the others send gives the smaller δ, but for few people, or near the local ε: there the blanket may.
    """

    mechanism: RAPPOR
    name: ClassVar[str] = "whole-law"

    def attempts(
        self, reports: int, epsilon: Fraction, target: Fraction, dummies: int, limit: int, progress: Progress
    ) -> Iterator[Enclosure]:
        """Yield all that the others send, and then the blanket with more and more nodes.

        It ends if four times as many summands (nodes are of two counts) are too many.
        """
        progress(f"{self.name} at epsilon {float(epsilon):.8g}")
        whole = whole_law_delta(self.mechanism, reports + dummies, epsilon)
        yield whole
        for nodes in UNARY_NODES:
            progress(f"blanket at epsilon {float(epsilon):.8g}, {nodes} nodes")
            found = rappor_delta(self.mechanism, reports + dummies, epsilon, target, nodes)
            yield _smaller(found, whole)
            if found.terms * 4 > limit:
                return

    def point(self, reports: int, epsilon: Fraction, scale: Fraction, dummies: int) -> Enclosure:
        """Use the blanket, too, if there are few people: its sums over counts take longer with more."""
        whole = whole_law_delta(self.mechanism, reports + dummies, epsilon)
        if reports + dummies > FEW_PEOPLE:
            return whole
        return _smaller(whole, rappor_delta(self.mechanism, reports + dummies, epsilon, scale, UNARY_NODES[0]))


@dataclass(frozen=True)
class FiniteRoute(Route):
    """A finite law's blanket. Its integrals bound δ only from above: a false claim is left open, not refuted."""

    mechanism: Finite
    name: ClassVar[str] = "blanket"

    def attempts(
        self, reports: int, epsilon: Fraction, target: Fraction, dummies: int, limit: int, progress: Progress
    ) -> Iterator[Enclosure]:
        """Yield with less and less smoothing, until four times as many summands would be too many."""
        for fineness in FINENESS:
            progress(f"blanket at epsilon {float(epsilon):.8g}, smoothing {fineness:g}")
            found = finite_delta(self.mechanism, reports + dummies, epsilon, target, fineness)
            yield found
            if found.terms * 4 > limit:
                return

    def point(self, reports: int, epsilon: Fraction, scale: Fraction, dummies: int) -> Enclosure:
        """Use much smoothing."""
        return finite_delta(self.mechanism, reports + dummies, epsilon, scale, FINENESS[0])


@dataclass(frozen=True)
class WholeFiniteRoute(FiniteRoute):
    """All that others send by a finite law, or its blanket, whichever shows less."""

    name: ClassVar[str] = "whole-law"

    def attempts(
        self, reports: int, epsilon: Fraction, target: Fraction, dummies: int, limit: int, progress: Progress
    ) -> Iterator[Enclosure]:
        """Yield all that others send, and then the smaller one of it and of each attempt on the blanket."""
        progress(f"{self.name} at epsilon {float(epsilon):.8g}")
        whole = finite_whole_delta(self.mechanism, reports + dummies, epsilon, target)
        if whole is not None:
            yield whole
        for found in super().attempts(reports, epsilon, target, dummies, limit, progress):
            yield found if whole is None else _smaller(found, whole)

    def point(self, reports: int, epsilon: Fraction, scale: Fraction, dummies: int) -> Enclosure:
        """Hide as much as the blanket's δ needs: that of the other is not much smaller."""
        blanket = super().point(reports, epsilon, scale, dummies)
        about = max(Fraction(min(float(blanket.upper), 1.0)), scale)
        whole = finite_whole_delta(self.mechanism, reports + dummies, epsilon, about)
        return blanket if whole is None else _smaller(blanket, whole)


@dataclass(frozen=True)
class NoiseRoute(Route):
    """A randomizer beside noise of the shuffler: the noise alone, or the people alone; the smaller δ is valid.

    `people` is None if no proof of a batch without noise is known.
    """

    mechanism: WithNoise
    people: Route | None
    name: ClassVar[str] = "noise"

    def attempts(
        self, reports: int, epsilon: Fraction, target: Fraction, dummies: int, limit: int, progress: Progress
    ) -> Iterator[Enclosure]:
        """Yield the noise's δ if it is enough, and else the smaller one of it and of each attempt on the people."""
        progress(f"{self.name} at epsilon {float(epsilon):.8g}")
        alone = noise_delta(self.mechanism, epsilon)
        with precision(256):
            enough = bool(alone.upper <= ball(target))
        if enough or self.people is None:
            yield alone
            return
        for found in self.people.attempts(reports, epsilon, target, dummies, limit, progress):
            yield _smaller(alone, found)

    def point(self, reports: int, epsilon: Fraction, scale: Fraction, dummies: int) -> Enclosure:
        """Return the noise's δ, or that of the people if it is smaller."""
        alone = noise_delta(self.mechanism, epsilon)
        with precision(256):
            if reports == 1 or self.people is None or bool(alone.upper <= ball(scale)):
                return alone
        return _smaller(alone, self.people.point(reports, epsilon, scale, dummies))


def _smaller(one: Enclosure, other: Enclosure) -> Enclosure:
    """Enclose the smaller of two numbers."""
    with precision(256):
        lower, upper = one.lower.min(other.lower), one.upper.min(other.upper)
    return Enclosure(lower, upper, one.terms + other.terms)


def _with_noise(mechanism: WithNoise) -> Route:
    try:
        return NoiseRoute(mechanism, route_of(mechanism.randomizer))
    except NotProvenError:
        # The noise hides a person without the others.
        return NoiseRoute(mechanism, None)


def _krr(mechanism: KRR) -> Route:
    return TwoRRRoute(mechanism) if mechanism.categories == 2 else BlanketRoute(mechanism)


def _hashed(mechanism: Hashed) -> Route:
    # The certified bound is kRR's over the cells of one row (`pairs.hashed`).
    return BlanketRoute(mechanism.krr)


def _finite(mechanism: Finite) -> Route:
    return WholeFiniteRoute(mechanism) if is_whole(mechanism) else FiniteRoute(mechanism)


def _tree_nodes(mechanism: TreeNodes) -> Route:
    if not mechanism.alone and mechanism.node.signed:
        raise NotProvenError(
            "no proof in balls is known that two changes by one of a tree's node cover one change by two", False
        )
    return FiniteRoute(Finite(mechanism.node.law))


ROUTES: Mapping[type[LocalMechanism], Callable[[Any], Route]] = {
    KRR: _krr,
    RAPPOR: RapporRoute,
    Hashed: _hashed,
    Finite: _finite,
    TreeNodes: _tree_nodes,
    WithNoise: _with_noise,
}
"""The route of each mechanism whose batches can be proven, by its type."""

EXACT_RATIO: Mapping[type, Callable[[Any], Fraction]] = {
    KRR: attrgetter("likelihood_ratio"),
    RAPPOR: attrgetter("likelihood_ratio"),
    Hashed: attrgetter("likelihood_ratio"),
    Finite: attrgetter("neighbor_ratio"),
    TreeNodes: attrgetter("likelihood_ratio"),
    WithNoise: attrgetter("likelihood_ratio"),
}
"""The exact e^ε_local of mechanisms that have one. That of others is rounded up, so it could refute a true claim."""


def route_of(mechanism: LocalMechanism) -> Route:
    """Return the route that proves a batch of `mechanism`; raises NotProvenError if none is known."""
    known = ROUTES.get(type(mechanism))
    if known is None:
        kinds = ", ".join(each.kind for each in ROUTES)
        raise NotProvenError(f"no proof in balls is known for batches of {mechanism.kind}, only for {kinds}", False)
    return known(mechanism)


def exact_ratio(mechanism: LocalMechanism) -> Fraction:
    """Return the exact e^ε_local of one report; raises NotProvenError for a mechanism without one."""
    known = EXACT_RATIO.get(type(mechanism))
    if known is None:
        raise NotProvenError(f"{mechanism.kind} has no exact likelihood ratio, so its local ε is not proven", False)
    return known(mechanism)
