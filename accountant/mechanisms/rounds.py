"""Defines which mechanisms link their rounds, and the cost of one round and of several rounds of each."""

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import TypeVar

from hubbub.accountant.mechanisms.longitudinal.levels import LEVEL_SHARE
from hubbub.accountant.mechanisms.registry import LocalMechanism
from hubbub.accountant.mechanisms.sequence import Sequence
from hubbub.accountant.mechanisms.tree_nodes import TreeNodes
from hubbub.accountant.mechanisms.with_noise import WithNoise

T = TypeVar("T")


def one_round(mechanism: LocalMechanism) -> LocalMechanism:
    """Return the law of one person's report in one round."""
    return mechanism.one_round if isinstance(mechanism, Sequence | TreeNodes | WithNoise) else mechanism


def paid_rounds(mechanism: LocalMechanism, rounds: int) -> int:
    """Return how often a person pays for `mechanism` in so many rounds: once, if all rounds are one report.

    For the tree's nodes it is the number of units in which streams can differ; one round may cost two units. Noise of
    the shuffler changes what a unit costs, not how many there are.
    """
    nodes = _nodes(mechanism)
    if nodes is not None:
        return nodes.paid(rounds)
    return min(rounds, 1) if isinstance(mechanism, Sequence) else rounds


def costliest(mechanism: LocalMechanism, rounds: Several[T], reports: Callable[[T], int]) -> list[T]:
    """Return the rounds of a mechanism that a person pays for: those with the fewest reports.

    For the tree's nodes it is the round with the fewest reports, once per unit: each further batch size would take
    seconds to compose.
    """
    paid = paid_rounds(mechanism, len(rounds))
    if _nodes(mechanism) is not None:
        return [min(rounds, key=reports)] * paid
    return list(rounds) if paid == len(rounds) else sorted(rounds, key=reports)[:paid]


def _nodes(mechanism: LocalMechanism) -> TreeNodes | None:
    """Return the tree's nodes that are sent, with or without noise beside them; None for other mechanisms."""
    sent = mechanism.randomizer if isinstance(mechanism, WithNoise) else mechanism
    return sent if isinstance(sent, TreeNodes) else None


def hiding_reports(mechanism: LocalMechanism, reports: int, missing: int = 0) -> int:
    """Return how many of a batch's honest `reports` hide a person over rounds: the steady ones, if rounds are linked.

    Each of the `missing` people of the honest minimum may be a steady one. The result counts the person too.
    """
    return max(1, min(reports, mechanism.steady - missing)) if isinstance(mechanism, Sequence) else reports


def left_out(mechanism: LocalMechanism) -> float:
    """Return the share of δ kept for the event that the mechanism's bounds leave out: a level with too few people."""
    return LEVEL_SHARE if isinstance(mechanism, Sequence) and not mechanism.alone else 0.0
