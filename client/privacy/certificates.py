"""What a certificate says of a round's central ε, as far as a device can check it.

Checked are the signatures of operator and shuffler on the task, of the analyzer on the certificate and of the shuffler
on its batches, and that it is about this task. Its numbers are not computed again: that takes the accountant, which a
device does not carry; `hubbub verify` does it.
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
from hubbub.protos.task.signers import followed, signers
from hubbub.protos.task.task import Task


@dataclass(frozen=True)
class CertifiedLoss:
    """What a certificate says to a device.

    Attributes:
        round: the round that it is about.
        epsilon: the central ε of that round alone, at the reports that came and the task's δ.
        epsilon_all_rounds: that of all certified rounds so far, at the task's minimum; None where a batch was short of
            it, so that no number holds that was fixed beforehand.
        rounds: the rounds that the second number is about.
    """

    round: int
    epsilon: float
    epsilon_all_rounds: float | None
    rounds: tuple[int, ...]

    @property
    def proven(self) -> ProvenLoss | None:
        """What it proves of all rounds so far."""
        if self.epsilon_all_rounds is None:
            return None
        last = max(self.rounds)
        return ProvenLoss(last, last + 1 - len(self.rounds), Fraction(self.epsilon_all_rounds))


def read_certificate(certificate: bytes, task: Task) -> CertifiedLoss:
    """Return what a certificate of one of the task's rounds says.

    Raises:
        SignatureError: where a signature does not hold, it is another task's, or it does not have a certificate's form.
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
    # Whose signature it needs follows from the round, so that is looked at before it is checked.
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
    if not float(total["delta"]) == float(everything["delta"]) == task.privacy.delta:
        raise ValueError(f"its delta is not the task's {task.privacy.delta:g}")
    careful = everything["epsilon_upper_at_minimum"]
    certified = CertifiedLoss(
        round=content["round"],
        epsilon=_epsilon(total["epsilon_upper"]),
        # What came is never above what is proven at the minimum: a certificate that says so is not believed.
        epsilon_all_rounds=None if careful is None else max(_epsilon(careful), _epsilon(everything["epsilon_upper"])),
        rounds=tuple(each["round"] for each in everything["history"]),
    )
    numbers = set(certified.rounds)
    if len(numbers) != len(certified.rounds) or certified.round not in numbers:
        raise ValueError("its history does not name each round once, and its own among them")
    if not all(type(number) is int and 0 <= number < task.schedule.rounds for number in numbers):
        raise ValueError(f"it is about a round that is not among the task's {task.schedule.rounds}")
    return certified


def _epsilon(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError("an epsilon is not a number, 0 or more")
    return float(value)


def _check_records(content: Mapping[str, Any], task: Task, certified: CertifiedLoss) -> None:
    """Check that the shuffler released what the certificate is about: each query's batch, and each earlier round's."""
    found = [_record(document, task) for document in content["batches"]]
    expected = {(certified.round, query) for query in range(len(task.queries))}
    # Attested by the records: a round that was released and is not in the history would not fit.
    before = attested(task, content["releases"], (record.position for record in found))
    if tuple(release.round for release in before) != certified.rounds[:-1]:
        raise ValueError("its history is not of the rounds that were released before it")
    if {(record.batch.round, record.batch.query) for record in found} != expected:
        raise ValueError("it does not hold the shuffler's records of exactly the batches that it is about")


def _record(document: Any, task: Task) -> BatchRecord:
    signed = SignedDocument.from_json(document)
    identities = signers(task, round_named(signed)[1])
    record = BatchRecord.read(signed, identities.shuffler, identities.hops)
    if record.batch.task_id != task.id or record.reports < task.minimum_reports:
        raise ValueError("a batch in it is another task's, or under the task's minimum")
    return record
