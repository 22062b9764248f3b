"""Proof mode: proves each upper number of a valid certificate in ball arithmetic, and says how long it took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.numbers import fraction_up
from hubbub.accountant.rigorous.proof import NotProvenError, Progress, Proof
from hubbub.accountant.rigorous.statement import Claim, claims
from hubbub.deploy.verification import Verified


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
        """Whether the proof mode fails by it: it is refuted, or it is required and not proven."""
        return self.refuted or (self.claim.required and self.proof is None)

    def as_json(self) -> dict[str, Any]:
        """Return the finding as `--json` shows it."""
        proof = self.proof
        return {
            "where": self.claim.where,
            "member": self.claim.member,
            "stated": self.claim.stated,
            "proven": proof is not None,
            "epsilon_proven": None if proof is None else fraction_up(proof.epsilon),
            "delta": None if proof is None else float(proof.delta),
            "route": None if proof is None else proof.route,
            "summands": None if proof is None else proof.terms,
            "seconds": round(self.seconds, 3),
            "why_not": self.why_not,
        }

    def as_text(self) -> str:
        """Return the finding as one line for people."""
        claim, proof = self.claim, self.proof
        name = f"{claim.where}, {claim.member} = {claim.stated}"
        if proof is None:
            kept = "not true" if self.refuted else "not proven"
            left = "" if self.fails else "; checked by floating point as before"
            return f"{kept}: {name}: {self.why_not}{left}"
        wider = f", as epsilon <= {fraction_up(proof.epsilon):.8g}" if proof.looser else ""
        at = f" at delta {float(proof.delta):g}" if proof.delta else ""
        return f"proven: {name}{wider}{at} ({proof.route}, {proof.terms} summands, {self.seconds:.1f} s)"


def prove_certificate(verified: Verified, progress: Progress) -> Iterator[Finding]:
    """Prove a valid certificate's numbers, one after the other; `progress` is told what is tried next."""
    queries = [(query.name, query.mechanism) for query in verified.task.queries]
    yield from map(_found, claims(Terms.of(verified.task), queries, verified.content, progress))


def _found(claim: Claim) -> Finding:
    start = perf_counter()
    try:
        proof, why_not, refuted = claim.proof(), None, False
    except NotProvenError as error:
        proof, why_not, refuted = None, str(error), error.refuted
    return Finding(claim, proof, why_not, refuted, perf_counter() - start)
