"""Computes the cost of a round at the minimum of reports: known before anyone is asked, as the minimum is fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hubbub.accountant.bounds.noise import NOISE
from hubbub.accountant.certificate.batches import linked_part, local_sum, round_part
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import UnmetTarget
from hubbub.accountant.mechanisms import LocalMechanism, WithNoise, one_round, paid_rounds
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.pairs import Part

LEAST_GAIN = 0.01
"""Noise that takes less than this share off ε_local hides nobody; δ is then too small for its law."""


def parts_at_minimum(terms: Terms, mechanisms: Sequence[LocalMechanism]) -> tuple[Part, ...]:
    """Return each query of one round at the honest share of the minimum: the most that a round costs, fixed beforehand.

    If reports are linked over rounds, the first round pays for all rounds.
    """
    return _parts_at(terms, mechanisms, _least(terms))


def _parts_at(terms: Terms, mechanisms: Sequence[LocalMechanism], reports: int) -> tuple[Part, ...]:
    return tuple(linked_part(terms, mechanism, reports) for mechanism in mechanisms)


def _least(terms: Terms) -> int:
    return max(1, honest_reports(terms.minimum_reports, terms.minimum_reports, terms.honest_share))


def parts_of_horizon(terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int) -> tuple[Part, ...]:
    """Return each query over so many rounds at the minimum: the most that they cost together, fixed beforehand."""
    return parts_of_horizon_at(terms, mechanisms, rounds, _least(terms))


def parts_of_horizon_at(
    terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int, reports: int
) -> tuple[Part, ...]:
    """Return each query over so many rounds, at so many honest reports in each round."""
    return tuple(
        replace(part, rounds=paid_rounds(part.mechanism, rounds)) for part in _parts_at(terms, mechanisms, reports)
    )


def check_minimum(terms: Terms, mechanisms: Sequence[LocalMechanism]) -> None:
    """Return only if a round at the minimum gives everyone the (ε, δ) and the ε_local that the task promises.

    Raises:
        UnmetTarget: names the values reached and promised, and the setting to change; for noise of the shuffler that
            hides nobody at the task's δ, it names the law.
    """
    local = local_sum([one_round(mechanism) for mechanism in mechanisms])
    # "not ... <=" also refuses a promise of NaN: every comparison with NaN is false.
    if not local <= terms.epsilon_local:
        raise UnmetTarget(
            f"the queries' epsilon_local add up to {local:.6g}, but the cap is {terms.epsilon_local:g}; "
            "raise gamma, minimum_reports or the cap"
        )
    for mechanism in mechanisms:
        _check_noise_pays(terms, one_round(mechanism))
    alone = tuple(round_part(terms, mechanism, _least(terms)) for mechanism in mechanisms)
    reached = compose_upper(alone, terms.delta)
    if not reached <= terms.epsilon:
        raise UnmetTarget(
            f"at minimum_reports = {terms.minimum_reports} a round is ({reached:.6g}, {terms.delta:g})-private, but "
            f"({terms.epsilon:g}, {terms.delta:g}) is promised; raise minimum_reports or gamma"
        )
    if terms.epsilon_total is None:
        return
    charged = parts_of_horizon(terms, mechanisms, 1)
    # A ledger charges more for a first round only if that round pays for all rounds.
    reached = reached if charged == alone else compose_upper(charged, terms.delta)
    if reached > terms.epsilon_total:
        raise UnmetTarget(
            f"one round spends epsilon {reached:.6g} at delta {terms.delta:g}, but epsilon_total is "
            f"{terms.epsilon_total:g}: not even the first would be released; raise it, or lower epsilon"
        )


def _check_noise_pays(terms: Terms, mechanism: LocalMechanism) -> None:
    """Return only if a query's noise hides a person at the task's δ: the ends of its law must be rarer than that.

    At an end the count shows the report. Where the randomizer alone keeps the promise, nothing is asked.
    """
    if not isinstance(mechanism, WithNoise) or mechanism.epsilon_local <= terms.epsilon:
        return
    if not NOISE.is_within(mechanism, max(terms.epsilon, mechanism.epsilon_local * (1 - LEAST_GAIN)), terms.delta):
        law = mechanism.noise
        end = float(Fraction(law.weights[0], 1 << TABLE_BITS))
        raise UnmetTarget(
            f"noise of a {law.family} law of reach {law.reach} takes less than {100 * LEAST_GAIN:g} % off the "
            f"epsilon_local of {mechanism.epsilon_local:.6g} at delta {terms.delta:g}: it draws each end of the law "
            f"with probability {end:.3g}, where a count shows the report; give the law a longer reach, or leave the "
            "noise out"
        )
