"""Bounds reports of a secret random subset: `reports` of `clients` people, drawn without replacement, replace-one.

One round of any mechanism: δ_sub(ln(1 + q(e^ε − 1))) ≤ q·δ(ε), q = reports/clients. The known attacks do not reach it
(a batch without the victim differs from both batches with the victim), so no lower end is given. Rounds compose through
the exact kRR pair (`walks.subsampled_walk`), never through ((1−q)Q + qP, Q): that pair does not dominate below
likelihood ratio 1.
"""

from __future__ import annotations

import math

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds import delta_bracket, epsilon_bracket
from hubbub.accountant.bounds.best_bounds import local_epsilon
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import AnyMechanism
from hubbub.accountant.numbers import checked_delta, checked_epsilon, checked_reports

SOURCE = "subsampling without replacement, δ_sub(ln(1 + q(e^ε − 1))) ≤ q·δ(ε), of: "
ROOM = 1 + 1e-14


@answering
def subsampled_epsilon(mechanism: AnyMechanism, reports: int, clients: int, delta: float) -> EpsilonBracket:
    """Return ε of one round at `delta`; `epsilon_upper` is never below the truth.

    A batch of `reports` people is drawn from `clients`; who was drawn must stay secret. Raises AccountingError for
    numbers out of range.
    """
    share = _share(reports, clients)
    inner = checked_delta(delta) / share
    # A person who is not drawn reveals nothing, so δ never exceeds the chance of being drawn.
    if inner >= 1:
        return EpsilonBracket(0.0, None, local_epsilon(mechanism), delta, "subsampling", SOURCE + "δ(0) ≤ q", 0.0)
    found = epsilon_bracket(mechanism, reports, inner * (1 - 1e-15))
    upper = min(_shrunk(found.epsilon_upper, share) * ROOM, found.epsilon_upper)
    source = SOURCE + found.source
    return EpsilonBracket(upper, None, found.epsilon_local, delta, "subsampling", source, found.numerical_slack)


@answering
def subsampled_delta(mechanism: AnyMechanism, reports: int, clients: int, epsilon: float) -> DeltaBracket:
    """Return δ of one round at `epsilon`; `delta_upper` is never below the truth. See `subsampled_epsilon`."""
    share = _share(reports, clients)
    # δ falls with ε, so the inner ε is rounded down: that can only raise δ.
    inner = math.log1p(math.expm1(checked_epsilon(epsilon)) / share) / ROOM
    found = delta_bracket(mechanism, reports, min(inner, 100.0))
    upper = min(1.0, found.delta_upper * share * ROOM)
    local, slack = found.epsilon_local, found.numerical_slack
    return DeltaBracket(upper, None, epsilon, local, "subsampling", SOURCE + found.source, slack)


def _share(reports: int, clients: int) -> float:
    drawn, people = checked_reports(reports), checked_reports(clients)
    if people < drawn:
        raise AccountingError(f"clients is {clients}; give at least the {reports} reports drawn from them")
    return drawn / people


def _shrunk(epsilon: float, share: float) -> float:
    return math.log1p(share * math.expm1(epsilon))
