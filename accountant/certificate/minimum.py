"""What a round costs at the minimum of reports. It is fixed beforehand, so the cost is known before anyone is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hubbub.accountant.certificate.batches import composed, linked_part, local_sum, round_part
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import LocalMechanism, one_round, paid_rounds
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.pairs import Part


def parts_at_minimum(terms: Terms, mechanisms: Sequence[LocalMechanism]) -> tuple[Part, ...]:
    """Each query of one round, at the honest share of the minimum reports: what a round costs at most, fixed before.

    Of reports that are linked over the rounds, all rounds are paid for with one.
    """
    return _parts_at(terms, mechanisms, _least(terms))


def _parts_at(terms: Terms, mechanisms: Sequence[LocalMechanism], reports: int) -> tuple[Part, ...]:
    return tuple(linked_part(terms, mechanism, reports) for mechanism in mechanisms)


def _least(terms: Terms) -> int:
    return max(1, honest_reports(terms.minimum_reports, terms.minimum_reports, terms.honest_share))


def parts_of_horizon(terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int) -> tuple[Part, ...]:
    """Each query over so many rounds at the minimum: what they cost at most together, fixed before."""
    return parts_of_horizon_at(terms, mechanisms, rounds, _least(terms))


def parts_of_horizon_at(
    terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int, reports: int
) -> tuple[Part, ...]:
    """Each query over so many rounds, at so many honest reports in each of them."""
    return tuple(
        replace(part, rounds=paid_rounds(part.mechanism, rounds)) for part in _parts_at(terms, mechanisms, reports)
    )


def check_minimum(terms: Terms, mechanisms: Sequence[LocalMechanism]) -> None:
    """Return only if a round at the minimum gives everyone the (ε, δ) and the ε_local that the task promises.

    Raises:
        AccountingError: with what is reached, what was promised, and what to change.
    """
    local = local_sum([one_round(mechanism) for mechanism in mechanisms])
    # Written as "not ... <=" so that a promise of NaN, of which every comparison is false, is refused too.
    if not local <= terms.epsilon_local:
        raise AccountingError(
            f"the queries' epsilon_local add up to {local:.6g}, the cap is {terms.epsilon_local:g}; "
            "raise gamma or minimum_reports, or the cap"
        )
    alone = tuple(round_part(terms, mechanism, _least(terms)) for mechanism in mechanisms)
    reached = composed(alone, terms.delta).epsilon_upper
    if not reached <= terms.epsilon:
        raise AccountingError(
            f"at minimum_reports = {terms.minimum_reports} a round is ({reached:.6g}, {terms.delta:g})-private, "
            f"({terms.epsilon:g}, {terms.delta:g}) is promised; raise minimum_reports or gamma"
        )
    if terms.epsilon_total is None:
        return
    charged = parts_of_horizon(terms, mechanisms, 1)
    # What a ledger charges for a first round is more only where it pays for all rounds at once.
    reached = reached if charged == alone else composed(charged, terms.delta).epsilon_upper
    if reached > terms.epsilon_total:
        raise AccountingError(
            f"one round spends epsilon {reached:.6g} at delta {terms.delta:g}, epsilon_total is "
            f"{terms.epsilon_total:g}: not even the first would be released; raise it, or lower epsilon"
        )
