"""What rounds cost together, and one of them alone: the one place that knows whose rounds hang together."""

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import TypeVar

from hubbub.accountant.mechanisms.longitudinal.levels import LEVEL_SHARE
from hubbub.accountant.mechanisms.registry import LocalMechanism
from hubbub.accountant.mechanisms.sequence import Sequence
from hubbub.accountant.mechanisms.tree_nodes import TreeNodes

T = TypeVar("T")


def one_round(mechanism: LocalMechanism) -> LocalMechanism:
    """Return the law of what a person sends in one round."""
    return mechanism.one_round if isinstance(mechanism, Sequence | TreeNodes) else mechanism


def paid_rounds(mechanism: LocalMechanism, rounds: int) -> int:
    """Return how often a person pays for `mechanism` in so many rounds: once, where all of them are one report.

    Of the tree's nodes it is the units in which streams can differ, of which one round may cost two.
    """
    if isinstance(mechanism, TreeNodes):
        return mechanism.paid(rounds)
    return min(rounds, 1) if isinstance(mechanism, Sequence) else rounds


def costliest(mechanism: LocalMechanism, rounds: Several[T], reports: Callable[[T], int]) -> list[T]:
    """Return what a person pays for of these rounds of a mechanism: those with the fewest reports.

    Of the tree's nodes it is the round with the fewest, as often as there are units to pay for: each size of a batch
    takes seconds to compose.
    """
    paid = paid_rounds(mechanism, len(rounds))
    if isinstance(mechanism, TreeNodes):
        return [min(rounds, key=reports)] * paid
    return list(rounds) if paid == len(rounds) else sorted(rounds, key=reports)[:paid]


def hiding_reports(mechanism: LocalMechanism, reports: int, missing: int = 0) -> int:
    """Return how many of a batch's honest `reports` hide a person over rounds: the steady ones, if linked.

    Any of the people who are `missing` of the honest minimum may be a steady one. The person is always there.
    """
    return max(1, min(reports, mechanism.steady - missing)) if isinstance(mechanism, Sequence) else reports


def left_out(mechanism: LocalMechanism) -> float:
    """Return the share of δ that is the chance of what the mechanism's bounds leave out: a level of too few people."""
    return LEVEL_SHARE if isinstance(mechanism, Sequence) and not mechanism.alone else 0.0
