"""The results of a bound: a certified upper end, a lower end if an attack is known, and their source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpsilonBracket:
    """The central ε at one δ: the true ε is at most `epsilon_upper`, and no ε below `epsilon_lower` is valid.

    Attributes:
        epsilon_upper: certified, in nats.
        epsilon_lower: the ε that a known attack reaches; None if no attack is known.
        epsilon_local: the ε if shuffler and analyzer collude; summed over rounds and queries when composed.
        delta: the δ of both ends.
        bound: name of the bound that gave the upper end ("blanket", "local", "composition", …).
        source: the theorem that proves it.
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
    """The δ at one central ε: the true δ is at most `delta_upper`, and no δ below `delta_lower` is valid.

    Attributes:
        delta_upper: certified.
        delta_lower: the δ that a known attack reaches; None if no attack is known.
        epsilon: the ε of both ends, in nats.
        epsilon_local: the ε if shuffler and analyzer collude; summed over rounds and queries when composed.
        bound: name of the bound that gave the upper end.
        source: the theorem that proves it.
        numerical_slack: relative width of the bound's own evaluation.
    """

    delta_upper: float
    delta_lower: float | None
    epsilon: float
    epsilon_local: float | None
    bound: str
    source: str
    numerical_slack: float
