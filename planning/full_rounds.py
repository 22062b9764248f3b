"""Finds the queries of a plan whose δ is too weak for a round of the most reports, far above the minimum."""

from __future__ import annotations

from hubbub.accountant.certificate.batches import round_part
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.numbers import honest_reports
from hubbub.planning.plan import Plan


def too_weak_when_full(plan: Plan) -> tuple[str, ...]:
    """Return the queries whose ε would be 0 in the certificate of a round of the most reports.

    For these, δ alone permits everything that such a round reveals.
    """
    terms, most = Terms.of(plan.draft), plan.draft.most_reports
    honest = max(1, honest_reports(most, most, terms.honest_share))
    return tuple(
        each.query.name
        for each in plan.queries
        if compose_upper([round_part(terms, each.query.mechanism, honest)], terms.delta) <= 0
    )
