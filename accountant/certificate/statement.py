"""Makes the numbers of a certificate: the (ε, δ) of a round for everyone in it, which anyone can recompute.

`statement` computes the numbers from the counts; `check.check_statement` recomputes them and reports any that is false.
`protos.identity.documents` makes signatures and canonical form; `hubbub verify` checks both.

A certificate states for one person whose reports are honest:
- `delta`: δ, the same for every ε of it, the task's;
- `ladder`: who must be honest for which ε, in words (`certificate.ladder`);
- per query: the mechanism in its one form (`mechanisms.registry`); `epsilon_local` (valid even if both services
  collude) and `epsilon_upper` (of the shuffled batch, at the honest number of valid reports), each rounded up to 6
  significant digits; `epsilon_lower`, rounded down: an attack reaches it, so no ε below it is valid (null if no attack
  is known). Beside each `epsilon_upper…` there is an `epsilon_lower…` of the same ending and assumptions;
- `round_total`: all queries of the round composed;
- `all_rounds`: all rounds so far composed, at the reports that came (`epsilon_upper`) and at the minimum that was fixed
  beforehand (`epsilon_upper_at_minimum`). The second is valid even if the number of reports depends on earlier
  releases. It is null if a batch had fewer valid honest reports than the minimum gives: then it would not be valid.
  `budget` is the task's cap on ε over all its rounds, null if it has none;
- next to each of these ε, `epsilon_upper_alone` and `epsilon_upper_if_minimum_valid`: the ε if the numbers of valid
  reports, which the analyzer claims, are false (`certificate.alone`);
- `horizon`, if a query is longitudinal: all `rounds` of the task at the minimum, including those to come, for a person
  who takes part in every round. Its `epsilon_upper` is null if a batch was below the minimum, as above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubbub.accountant.certificate.alone import (
    SIGNIFICANT_DIGITS,
    claims_fewer,
    horizon_alone,
    lower_end,
    members_beside,
    round_alone,
    round_if_minimum,
    rounds_alone,
    rounds_if_minimum,
)
from hubbub.accountant.certificate.batches import (
    any_below_minimum,
    bracket,
    certified_epsilon,
    charges_at_actual,
    charges_at_minimum,
    composed,
    counts_of,
    derived_members,
    local_of,
    part_of_round,
)
from hubbub.accountant.certificate.ladder import ALONE, AT_MINIMUM, ladder_words, lower_of
from hubbub.accountant.certificate.minimum import parts_of_horizon
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.pairs import Part


def statement(terms: Terms, history: Sequence[RoundCounts]) -> dict[str, Any]:
    """Return the certificate's numbers for the last round of `history`, as JSON members.

    `history` has all rounds so far, in order.

    Raises:
        AccountingError: if the counts are impossible, or a mechanism has no written form.
    """
    latest = history[-1]
    return {
        "all_rounds": _all_rounds(terms, history),
        "delta": terms.delta,
        **_horizon(terms, history),
        "honest_share": terms.honest_share,
        "ladder": ladder_words(terms, {query.name: query.mechanism for query in latest.queries}, len(history)),
        "queries": [_query(terms, query) for query in latest.queries],
        "round_total": _round_total(terms, latest.queries),
    }


def _query(terms: Terms, query: QueryCount) -> dict[str, Any]:
    part = part_of_round(terms, query)
    found = bracket(part, terms.delta)
    upper = round_up_significant(found.epsilon_upper, SIGNIFICANT_DIGITS)
    members = {
        **derived_members(terms, query),
        **_members_beside(terms, [query], upper),
        "bound": found.bound,
        "epsilon_local": round_up_significant(part.mechanism.epsilon_local, SIGNIFICANT_DIGITS),
        "epsilon_lower": lower_end(found.epsilon_lower),
        "epsilon_upper": upper,
        "left_out": dict(query.left_out),
    }
    # Counts first, as people read it; signing sorts the members anyway.
    return {**counts_of(terms, query), **dict(sorted(members.items()))}


def _members_beside(terms: Terms, queries: Sequence[QueryCount], stated: float) -> dict[str, Any]:
    """Return the ε of these batches of one round if their stated numbers of valid reports are false."""
    attested = [round_alone(terms, query) for query in queries]
    minimum = None if claims_fewer(terms, queries) else [round_if_minimum(terms, query) for query in queries]
    return members_beside(terms, stated, attested, minimum)


def _round_total(terms: Terms, queries: Sequence[QueryCount]) -> dict[str, Any]:
    total = _total(terms, [part_of_round(terms, query) for query in queries])
    return {**total, **_members_beside(terms, queries, total["epsilon_upper"])}


def _total(terms: Terms, parts: Sequence[Part]) -> dict[str, Any]:
    together = composed(parts, terms.delta)
    return {
        "bound": together.bound,
        "epsilon_local": round_up_significant(local_of(parts), SIGNIFICANT_DIGITS),
        "epsilon_lower": lower_end(together.epsilon_lower),
        "epsilon_upper": round_up_significant(certified_epsilon(parts, together), SIGNIFICANT_DIGITS),
    }


def _at_minimum(terms: Terms, history: Sequence[RoundCounts], came: float) -> dict[str, float | None]:
    if any_below_minimum(terms, history):
        return {AT_MINIMUM: None, lower_of(AT_MINIMUM): None}
    minimum = _total(terms, charges_at_minimum(terms, history))
    # The maximum of both: a reader relies on this one as the careful one.
    return {AT_MINIMUM: max(minimum["epsilon_upper"], came), lower_of(AT_MINIMUM): minimum["epsilon_lower"]}


def _all_rounds(terms: Terms, history: Sequence[RoundCounts]) -> dict[str, Any]:
    total = _total(terms, charges_at_actual(terms, history))
    fewer = any(claims_fewer(terms, counts.queries) for counts in history)
    minimum = None if fewer else rounds_if_minimum(terms, history)
    return {
        **members_beside(terms, total["epsilon_upper"], rounds_alone(terms, history), minimum),
        "bound": total["bound"],
        "budget": terms.epsilon_total,
        **{name: total[name] for name in ("epsilon_local", "epsilon_lower", "epsilon_upper")},
        **_at_minimum(terms, history, total["epsilon_upper"]),
        "history": [
            {"queries": [counts_of(terms, query) for query in counts.queries], "round": counts.round}
            for counts in history
        ],
    }


def _horizon(terms: Terms, history: Sequence[RoundCounts]) -> dict[str, Any]:
    """Return the member for the cost of all rounds of a task at the minimum, if a query of it is longitudinal."""
    if terms.horizon is None:
        return {}
    mechanisms = [query.mechanism for query in history[-1].queries]
    total = _total(terms, parts_of_horizon(terms, mechanisms, terms.horizon))
    alone = horizon_alone(terms, mechanisms, terms.horizon)
    beside = members_beside(terms, total["epsilon_upper"], alone, None)
    members = {name: total[name] for name in ("bound", "epsilon_local")}
    members |= {name: beside[name] for name in (ALONE, lower_of(ALONE))}
    short = any_below_minimum(terms, history)
    stated = {name: None if short else total[name] for name in ("epsilon_upper", "epsilon_lower")}
    return {"horizon": {**members, **stated, "rounds": terms.horizon}}
