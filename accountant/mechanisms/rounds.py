"""What rounds cost together, and one of them alone: the one place that knows whose rounds are one report."""

from hubbub.accountant.mechanisms.registry import LocalMechanism
from hubbub.accountant.mechanisms.sequence import Sequence


def one_round(mechanism: LocalMechanism) -> LocalMechanism:
    """Return the law of what a person sends in one round."""
    return mechanism.one_round if isinstance(mechanism, Sequence) else mechanism


def paid_rounds(mechanism: LocalMechanism, rounds: int) -> int:
    """Return how many of `rounds` rounds a person pays for: one, where all of them are one report."""
    return min(rounds, 1) if isinstance(mechanism, Sequence) else rounds


def hiding_reports(mechanism: LocalMechanism, reports: int) -> int:
    """Return how many of a batch's honest `reports` hide a person over rounds: the steady ones, if linked."""
    return min(reports, mechanism.steady) if isinstance(mechanism, Sequence) else reports
