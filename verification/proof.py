"""Proves each upper number of a valid certificate in ball arithmetic, and measures how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hubbub.accountant.certificate.ladder import IF_MINIMUM_VALID
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.numbers import fraction_up, round_up_significant
from hubbub.accountant.rigorous.proof import NotProvenError, Progress, Proof
from hubbub.accountant.rigorous.statement import Claim, claims
from hubbub.verification.certificate import Verified

LOOSER_WHY = "more than stated, as the proof's intervals are too wide to decide the stated number itself"
"""Why a proven number is more than the stated one, by a factor of at most 1.01 (`accountant.rigorous.prove`)."""

UNPROVEN = "checked, not proven"
"""What is to be said next to a number that was computed again in floating point, and for which there is no proof."""

CLAIMS_OF_QUERY = 3
"""Numbers of each query that are proven: its ε_local, its ε, and its ε if only this person is honest."""


@dataclass(frozen=True)
class Finding:
    """One claim with its proof, or the reason why there is none.

    `refuted` means that ball arithmetic shows the stated number to be too small.
    """

    claim: Claim
    proof: Proof | None
    why_not: str | None
    refuted: bool
    seconds: float

    @property
    def fails(self) -> bool:
        """Whether `--rigorous` fails because of it: it is refuted, or it is required and not proven."""
        return self.refuted or (self.claim.required and self.proof is None)

    def as_json(self) -> dict[str, Any]:
        """Return the finding as `--json` shows it."""
        proof = self.proof
        return {
            "where": self.claim.where,
            "member": self.claim.member,
            "stated": self.claim.stated,
            "proven": proof is not None,
            "epsilon_proven": self.proven,
            "delta": None if proof is None else float(proof.delta),
            "route": None if proof is None else proof.route,
            "summands": None if proof is None else proof.terms,
            "seconds": round(self.seconds, 3),
            "why_not": self.why_not,
        }

    @property
    def proven(self) -> float | None:
        """The proven number, never below the stated one; None if nothing was proven."""
        return None if self.proof is None else fraction_up(self.proof.epsilon)

    @property
    def mark(self) -> str:
        """What is to be said next to the stated number; nothing if that very number is proven."""
        if self.proof is None:
            return "refuted" if self.refuted else UNPROVEN
        return f"proven only as ε ≤ {self._number}" if self.proof.looser else ""

    @property
    def _number(self) -> str:
        """The proven number, rounded up: what is printed must not be less."""
        return f"{round_up_significant(self.proven or 0.0, 8):.8g}"

    def as_text(self) -> str:
        """Return the finding as one line for people: first the proven number, then the stated one."""
        claim, proof = self.claim, self.proof
        if proof is None:
            kept = "refuted" if self.refuted else "not proven"
            left = "" if self.fails else "; it was checked in floating point only"
            return f"{kept}: {claim.where}, {claim.member} = {claim.stated}: {self.why_not}{left}"
        number = self._number if proof.looser else f"{claim.stated}"
        stated = f"stated: {claim.stated}; " if proof.looser else "as stated; "
        at = f" at delta {float(proof.delta):g}" if proof.delta else ""
        told = f"{stated}{proof.route}, {proof.terms} summands, {self.seconds:.1f} s"
        why = f"; {LOOSER_WHY}" if proof.looser else ""
        return f"proven: {claim.where}, {claim.member} <= {number}{at} ({told}){why}"


def prove_certificate(verified: Verified, progress: Progress) -> Iterator[Finding]:
    """Prove a valid certificate's numbers, one after the other; `progress` is called with the next step."""
    queries = [(query.name, query.mechanism) for query in verified.task.queries]
    yield from map(_found, claims(Terms.of(verified.task), queries, verified.content, progress))


def proven_content(content: Mapping[str, Any], findings: Sequence[Finding]) -> dict[str, Any]:
    """Return `queries`, `round_total` and `all_rounds` of a certificate with the proven upper numbers.

    Each stated number is kept as NAME_stated. A number that was not proven is None. The number that assumes no more of
    the analyzer's count than the minimum is always None, because it is never proven here.
    """
    queries, left = content["queries"], list(findings)
    proven = []
    for query in queries:
        # Matched by position, because claims come in the certificate's order; a query may be named `all_rounds` too.
        of_query, left = left[:CLAIMS_OF_QUERY], left[CLAIMS_OF_QUERY:]
        proven.append(_with_proven(query, of_query))
    totals = {
        where: _with_proven(content[where], [each for each in left if each.claim.where == where])
        for where in ("round_total", "all_rounds", "horizon")
        if where in content
    }
    return {"queries": proven, **totals}


def marks(content: Mapping[str, Any], findings: Sequence[Finding]) -> dict[tuple[str, str], str]:
    """Return a word for each number of the totals that is not proven as stated, by its object and its member.

    A stated number stands without a word only if exactly this number was proven.
    """
    totals = findings[CLAIMS_OF_QUERY * len(content["queries"]) :]
    found = {(each.claim.where, each.claim.member): each.mark for each in totals}
    unclaimed = {
        (where, IF_MINIMUM_VALID): UNPROVEN
        for where in ("round_total", "all_rounds", "horizon")
        if IF_MINIMUM_VALID in content.get(where, {})
    }
    return {place: mark for place, mark in {**unclaimed, **found}.items() if mark}


def query_marks(content: Mapping[str, Any], findings: Sequence[Finding], member: str) -> list[str]:
    """Return for each query the word for one of its numbers, as `marks` has it; empty if it is proven as stated."""
    by_query = [findings[CLAIMS_OF_QUERY * place :][:CLAIMS_OF_QUERY] for place in range(len(content["queries"]))]
    return [each.mark for of_query in by_query for each in of_query if each.claim.member == member]


def _with_proven(stated: Mapping[str, Any], findings: Sequence[Finding]) -> dict[str, Any]:
    unclaimed = {name: stated[name] for name in (IF_MINIMUM_VALID,) if name in stated}
    members = {each.claim.member: each.proven for each in findings}
    beside = {**unclaimed, **{each.claim.member: each.claim.stated for each in findings}}
    return {**stated, **dict.fromkeys(unclaimed), **members, **{f"{name}_stated": beside[name] for name in beside}}


def _found(claim: Claim) -> Finding:
    start = perf_counter()
    try:
        proof, why_not, refuted = claim.proof(), None, False
    except NotProvenError as error:
        proof, why_not, refuted = None, str(error), error.refuted
    return Finding(claim, proof, why_not, refuted, perf_counter() - start)
