"""Reads a round's central ε from a certificate, and checks the certificate as far as a device can.

It checks the signatures of operator and shuffler on the task, of the analyzer on the certificate and of the shuffler
on the batches, and that the certificate is about this task. It does not recompute the numbers: that needs the
accountant, which a device does not have. `hubbub verify` recomputes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hubbub.client.privacy.ledger import ProvenLoss
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument, instead_of_json, parse_named
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.batch import BatchRecord, round_named
from hubbub.protos.records.release_chain import attested
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task, followed, signers


@dataclass(frozen=True)
class CertifiedLoss:
    """The central ε in a certificate.

    Attributes:
        round: the round that the certificate is about.
        epsilon: the central ε of that round alone, at the reports that came and the task's δ.
        epsilon_all_rounds: the central ε of all certified rounds so far, at the task's minimum. None if a batch was
            below the minimum, because then no number that was fixed in advance is a bound.
        rounds: the rounds that `epsilon_all_rounds` covers.
    """

    round: int
    epsilon: float
    epsilon_all_rounds: float | None
    rounds: tuple[int, ...]

    @property
    def proven(self) -> ProvenLoss | None:
        """The proven ε of all rounds so far; None if there is none."""
        if self.epsilon_all_rounds is None:
            return None
        last = max(self.rounds)
        return ProvenLoss(last, last + 1 - len(self.rounds), Fraction(self.epsilon_all_rounds))


def read_certificate(certificate: bytes, task: Task) -> CertifiedLoss:
    """Return the central ε in a certificate of one of the task's rounds.

    Raises:
        SignatureError: if a signature is invalid, it is another task's, or it does not have a certificate's form.
    """
    instead = instead_of_json(certificate)
    if instead:
        raise SignatureError(f"not a certificate of a round, it is {instead}; give the bytes that the analyzer signed")
    try:
        return _read(certificate, task)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        problem = f"it has no member {error}" if isinstance(error, KeyError) else f"{error!r:.200}"
        raise SignatureError(f"not a certificate of a round: {problem}; nothing was changed") from error


def _read(certificate: bytes, task: Task) -> CertifiedLoss:
    value = parse_named(certificate, CERTIFICATE, "body")
    body = value["body"]
    signed = SignedTask.from_json(body["task"])
    if signed.task.id != task.id:
        raise SignatureError(
            f"the certificate is of task {signed.task.name} ({signed.task.id.hex()[:12]}), not of {task.name} "
            f"({task.id.hex()[:12]}); give it to that task's device"
        )
    signed.check(task.identities.operator, task.identities.shuffler)
    # The round determines whose signature is needed, so it is read before the signature is checked.
    if type(body["round"]) is not int:
        raise ValueError("its round is no number")
    before = () if task.lineage is None else task.lineage.successions
    task = followed(task, [*before, *map(Succession.from_json, body["successions"])])
    analyzer = signers(task, body["round"]).analyzer
    content = SignedDocument.from_json(value).content(CERTIFICATE, analyzer)
    certified = _stated(content, task)
    _check_records(content, task, certified)
    return certified


def _stated(content: Mapping[str, Any], task: Task) -> CertifiedLoss:
    total, everything = content["round_total"], content["all_rounds"]
    if float(content["delta"]) != task.privacy.delta:
        raise ValueError(f"its delta is not the task's {task.privacy.delta:g}")
    careful = everything["epsilon_upper_at_minimum"]
    certified = CertifiedLoss(
        round=content["round"],
        epsilon=_epsilon(total["epsilon_upper"]),
        # ε at the reports that came is never above ε at the minimum. If a certificate states so, take the larger.
        epsilon_all_rounds=None if careful is None else max(_epsilon(careful), _epsilon(everything["epsilon_upper"])),
        rounds=tuple(each["round"] for each in everything["history"]),
    )
    numbers = set(certified.rounds)
    if len(numbers) != len(certified.rounds) or certified.round not in numbers:
        raise ValueError("its history does not name each round once, and its own among them")
    if not all(type(number) is int and 0 <= number < task.schedule.rounds for number in numbers):
        raise ValueError(f"it is about a round that is not one of the task's {task.schedule.rounds}")
    return certified


def _epsilon(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError("an epsilon is not a number, 0 or more")
    return float(value)


def _check_records(content: Mapping[str, Any], task: Task, certified: CertifiedLoss) -> None:
    """Check that the shuffler released the batch of each query of this round, and the earlier rounds of the history."""
    found = [_record(document, task) for document in content["batches"]]
    expected = {(certified.round, query) for query in range(len(task.queries))}
    # The records attest the release chain: a released round that is missing from the history would not fit.
    before = attested(task, content["releases"], (record.position for record in found))
    if tuple(release.round for release in before) != certified.rounds[:-1]:
        raise ValueError("its history is not of the rounds that were released before it")
    if {(record.batch.round, record.batch.query) for record in found} != expected:
        raise ValueError("its batch records are not of exactly the batches that it is about")


def _record(document: Any, task: Task) -> BatchRecord:
    signed = SignedDocument.from_json(document)
    identities = signers(task, round_named(signed)[1])
    record = BatchRecord.read(signed, identities.shuffler, identities.hops)
    if record.batch.task_id != task.id or record.reports < task.minimum_reports:
        raise ValueError("a batch in it is another task's, or below the task's minimum")
    return record
