"""Lists the numbers of a certificate to prove in balls: those of every query, and the totals if a proof is found.

The honest reports are recounted here, in exact arithmetic, from the counts and the task's share alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hubbub.accountant.certificate.batches import linked_part, missing_reports, parts_over_rounds, round_part
from hubbub.accountant.certificate.ladder import ALONE
from hubbub.accountant.certificate.minimum import parts_of_horizon, parts_of_horizon_at
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import CertificateError
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.pairs import Part, kept_delta
from hubbub.accountant.rigorous.balls import written
from hubbub.accountant.rigorous.composition import prove_composed
from hubbub.accountant.rigorous.proof import Progress, Proof, quiet
from hubbub.accountant.rigorous.prove import prove_local


@dataclass(frozen=True)
class Claim:
    """One number of a certificate, by place (`where`) and `member`; `proof()` proves it or raises NotProvenError.

    `required` claims are those of a query, which the proof mode must always prove; totals it proves if it can.
    """

    where: str
    member: str
    stated: float
    required: bool
    proof: Callable[[], Proof]


def honest(valid: int, reports: int, share: float) -> int:
    """Return the valid reports minus all that may be dishonest.

    These are (1 − share)·reports, rounded up, with the share as the written decimal.
    """
    dishonest = (1 - written(share)) * reports
    return max(0, valid + (-dishonest.numerator // dishonest.denominator))


def claims(
    terms: Terms, queries: Sequence[tuple[str, LocalMechanism]], content: Mapping[str, Any], progress: Progress = quiet
) -> Iterator[Claim]:
    """Yield every upper number of a statement, of a task of those `terms` and `queries`, in the certificate's order.

    Raises:
        CertificateError: if the stated honest reports are not those counted here.
    """
    prover = _Prover(terms, progress)
    upper, alone = prover.upper, prover.alone
    latest, lone = [], []
    for (name, mechanism), stated in zip(queries, content["queries"], strict=True):
        latest.append(round_part(terms, mechanism, _reports(terms, stated)))
        yield _local(name, latest[-1:], stated, True)
        yield upper(name, "epsilon_upper", latest[-1:], stated, True)
        lone.append(round_part(terms, mechanism, 1))
        yield alone(name, lone[-1:], stated, True)
    yield _local("round_total", latest, content["round_total"], False)
    yield upper("round_total", "epsilon_upper", latest, content["round_total"], False)
    yield alone("round_total", lone, content["round_total"], False)
    stated = content["all_rounds"]
    came = _so_far(terms, queries, stated["history"], lambda counts: _reports(terms, counts))
    least = _so_far(terms, queries, stated["history"], lambda counts: _reports(terms, counts, terms.minimum_reports))
    yield _local("all_rounds", came, stated, False)
    yield upper("all_rounds", "epsilon_upper", came, stated, False)
    yield alone("all_rounds", _so_far(terms, queries, stated["history"], lambda _: 1), stated, False)
    if stated["epsilon_upper_at_minimum"] is not None:
        yield upper("all_rounds", "epsilon_upper_at_minimum", least, stated, False)
    if terms.horizon is not None:
        stated, of = content["horizon"], [mechanism for _, mechanism in queries]
        parts = parts_of_horizon(terms, of, terms.horizon)
        yield _local("horizon", parts, stated, False)
        if stated["epsilon_upper"] is not None:
            yield upper("horizon", "epsilon_upper", parts, stated, False)
        yield alone("horizon", parts_of_horizon_at(terms, of, terms.horizon, 1), stated, False)


@dataclass(frozen=True)
class _Prover:
    """Makes claims that parts cost together at most what is stated. Equal claims are proven once."""

    terms: Terms
    progress: Progress
    # A first round is also all rounds so far: its proof is used for both.
    known: dict[tuple[object, ...], Proof] = field(default_factory=dict)

    def upper(self, where: str, member: str, parts: Sequence[Part], stated: Mapping[str, Any], required: bool) -> Claim:
        merged, value = _merged(parts), stated[member]

        def proof() -> Proof:
            key = (value, *merged)
            if key not in self.known:
                self.known[key] = _proven(self.terms, merged, value, lambda step: self.progress(f"{where}: {step}"))
            return self.known[key]

        return Claim(where, member, value, required, proof)

    def alone(self, where: str, parts: Sequence[Part], stated: Mapping[str, Any], required: bool) -> Claim:
        """Claim the ε if only the person and the shuffler are honest; `parts` have one honest report."""
        if stated[ALONE] == stated["epsilon_local"]:
            return _local(where, parts, stated, required, ALONE)
        return self.upper(where, ALONE, parts, stated, required)


def _proven(terms: Terms, parts: Sequence[Part], stated: float, progress: Progress) -> Proof:
    """Prove the stated ε at δ minus the chances of the events that the parts leave out, so it is valid at δ."""
    proof = prove_composed(parts, stated, kept_delta(parts, terms.delta), progress)
    return replace(proof, delta=written(terms.delta)) if proof.delta else proof


def _so_far(
    terms: Terms,
    queries: Sequence[tuple[str, LocalMechanism]],
    history: Sequence[Mapping[str, Any]],
    hiding: Callable[[Mapping[str, Any]], int],
) -> list[Part]:
    """Return the joint cost of a history's rounds, if so many reports of each stated batch hide a person."""
    reports = [[hiding(counts) for counts in entry["queries"]] for entry in history]
    missing = [missing_reports(terms, of_query) for of_query in zip(*reports, strict=True)]
    of = [mechanism for _, mechanism in queries]
    return parts_over_rounds(
        [[linked_part(terms, *each) for each in zip(of, of_round, missing, strict=True)] for of_round in reports]
    )


def _reports(terms: Terms, counts: Mapping[str, Any], minimum: int | None = None) -> int:
    """Return the honest share of the reports that came, or of the minimum if that is less."""
    reports = honest(counts["valid"], counts["reports"], terms.honest_share)
    if counts["honest_reports"] != reports:
        raise CertificateError(f"honest_reports is {counts['honest_reports']!r}; it must be {reports}")
    if minimum is not None:
        # Fewer people hide less, so the smaller number is the safe one.
        reports = min(reports, honest(minimum, minimum, terms.honest_share))
    return max(1, reports)


def _merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Merge equal batches into one part of several rounds."""
    rounds: Counter[Part] = Counter()
    for part in parts:
        rounds[Part(part.mechanism, part.reports, dummies=part.dummies)] += part.rounds
    return tuple(Part(part.mechanism, part.reports, count, part.dummies) for part, count in rounds.items())


def _local(
    where: str, parts: Sequence[Part], stated: Mapping[str, Any], required: bool, member: str = "epsilon_local"
) -> Claim:
    # Every report counts, of any mechanism: leaving one out would prove too small an ε.
    mechanisms = tuple(part.mechanism for part in parts for _ in range(part.rounds))
    value = stated[member]
    return Claim(where, member, value, required, lambda: prove_local(mechanisms, value))
