"""A certified upper end, a lower end where one is known, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpsilonBracket:
    """The central ε at one δ: no true value lies above `epsilon_upper`, no valid ε lies below `epsilon_lower`.

    Attributes:
        epsilon_upper: certified, in nats.
        epsilon_lower: what a known attack reaches; None where no attack is known.
        epsilon_local: what is left if shuffler and analyzer collude; summed over rounds and queries when composed.
        delta: the δ both ends belong to.
        bound: name of the bound that gave the upper end ("blanket", "local", "composition", …).
        source: the theorem behind it.
        numerical_slack: relative width of the bound's own evaluation.
    """

    epsilon_upper: float
    epsilon_lower: float | None
    epsilon_local: float | None
    delta: float
    bound: str
    source: str
    numerical_slack: float


@dataclass(frozen=True)
class DeltaBracket:
    """The δ at one central ε: no true value lies above `delta_upper`, no valid δ lies below `delta_lower`.

    Attributes:
        delta_upper: certified.
        delta_lower: what a known attack reaches; None where no attack is known.
        epsilon: the ε both ends belong to, in nats.
        epsilon_local: what is left if shuffler and analyzer collude; summed over rounds and queries when composed.
        bound: name of the bound that gave the upper end.
        source: the theorem behind it.
        numerical_slack: relative width of the bound's own evaluation.
    """

    delta_upper: float
    delta_lower: float | None
    epsilon: float
    epsilon_local: float | None
    bound: str
    source: str
    numerical_slack: float
