"""What is signed by those it knows and about its task, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from hubbub.client import CertifiedLoss, Device, SignatureError, TaskError, UsageError
from hubbub.client.privacy.certificates import read_certificate
from hubbub.client.privacy.ledger import ProvenLoss
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.task.task import Privacy, Task
from support.certificates import batch_records, content_of, counts, encode, releases_of
from support.fake_shuffler import Clock
from support.messages import NOT_SIGNED_BY
from support.samples import QUERIES, START, Parties, sample_task, signed

ANSWERS: dict[str, Any] = {"carrier": "UA"}
NOBODY = "127.0.0.1:1"

Make = Callable[..., Device]


@pytest.fixture(scope="module")
def promising(parties: Parties) -> Task:
    return sample_task(
        parties, queries=QUERIES[:1], privacy=Privacy(epsilon=1.0, delta=1e-6, epsilon_local=20.0, honest_share=0.9)
    )


def content(task: Task, parties: Parties, rounds: int, epsilon: float, all_rounds: float | None) -> dict[str, Any]:
    """The members that a device reads of the certificate of the last of so many rounds, with these numbers."""
    before = releases_of(task, parties, [counts(task, number, 5000) for number in range(rounds - 1)])
    records = batch_records(task, parties, counts(task, rounds - 1, 5000), before=before)
    return {
        "format": CERTIFICATE.format,
        "task": signed(task, parties).as_json(),
        "round": rounds - 1,
        "batches": [record.as_json() for record in records],
        "releases": [release.content() for release in before],
        "successions": [],
        "delta": 1e-6,
        "round_total": {"epsilon_upper": epsilon},
        "all_rounds": {
            "epsilon_upper": epsilon,
            "epsilon_upper_at_minimum": all_rounds,
            "history": [{"round": number} for number in range(rounds)],
        },
    }


@pytest.fixture(scope="module")
def certificates(parties: Parties, promising: Task) -> list[bytes]:
    """Of rounds 0 to 2, each with all before it; the last is short of honest reports."""
    numbers = [(0.5, 0.75), (0.5, 1.25), (1.25, None)]
    return [
        encode(content(promising, parties, rounds, *stated), parties) for rounds, stated in enumerate(numbers, start=1)
    ]


def test_a_certificate_as_the_analyzer_makes_it_is_learned(parties: Parties, promising: Task) -> None:
    made = content_of(promising, parties, [counts(promising, 0, 5000)])
    learned = read_certificate(encode(made, parties), promising)
    stated = made["all_rounds"]["epsilon_upper_at_minimum"]
    assert learned == CertifiedLoss(0, made["round_total"]["epsilon_upper"], stated, (0,))
    assert learned.proven == ProvenLoss(0, 0, Fraction(stated))


async def test_certificates_take_the_place_of_promises_where_they_prove_less(
    device: Make, parties: Parties, promising: Task, certificates: list[bytes], clock: Clock
) -> None:
    one = device(task=signed(promising, parties).encode(), shuffler=NOBODY)
    for number in range(3):
        clock.now = START + 3600.0 * number
        one.keep(ANSWERS)
    assert one.budget().tasks[0].total.epsilon == 3.0
    first, second = one.add_certificate(certificates[0]), one.add_certificate(certificates[1])
    assert (first.rounds, second.rounds) == ((0,), (0, 1))
    total = one.budget().tasks[0].total
    # Round 2 is not certified: it counts as promised.
    assert (total.epsilon, total.delta) == (2.25, 2e-6)
    one.add_certificate(certificates[0])
    assert one.budget().tasks[0].total == total


async def test_a_certificate_that_breaks_the_promise_raises_the_number(
    device: Make, parties: Parties, promising: Task, certificates: list[bytes], clock: Clock
) -> None:
    one = device(task=signed(promising, parties).encode(), shuffler=NOBODY)
    clock.now = START + 2 * 3600.0
    one.keep(ANSWERS)
    learned = one.add_certificate(certificates[2])
    assert learned.epsilon_all_rounds is None
    (budget,) = one.budget().tasks
    assert (budget.total.epsilon, budget.exceeded, budget.certified) == (1.25, (2,), None)


def test_a_certificate_with_a_changed_byte_is_not_learned(certificates: list[bytes], promising: Task) -> None:
    document = certificates[1]
    assert read_certificate(document, promising).round == 1
    for place in range(0, len(document), max(1, len(document) // 150)):
        changed = bytearray(document)
        changed[place] ^= 1
        with pytest.raises((SignatureError, TaskError)):
            read_certificate(bytes(changed), promising)


def test_what_another_party_signed_is_not_learned(parties: Parties, promising: Task) -> None:
    other = Parties.generate()
    forged = content(promising, parties, 1, 0.5, 0.75)
    with pytest.raises(SignatureError, match=f"the certificate's {NOT_SIGNED_BY}"):
        read_certificate(encode(forged, other), promising)
    strange = batch_records(promising, replace(parties, shuffler=other.shuffler), counts(promising, 0, 5000))
    batches = [record.as_json() for record in strange]
    with pytest.raises(SignatureError, match=rf"the batch record's {NOT_SIGNED_BY}"):
        read_certificate(encode({**forged, "batches": batches}, parties), promising)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no_batch": lambda content: content["batches"].pop(),
    "another_round": lambda content: content.update(round=1),
    "no_such_round": lambda content: content["all_rounds"]["history"][0].update(round=7),
    "not_a_number": lambda content: content["round_total"].update(epsilon_upper="1"),
    "below_zero": lambda content: content["round_total"].update(epsilon_upper=-1.0),
    "another_delta": lambda content: content.update(delta=1e-7),
    "no_total": lambda content: content.pop("round_total"),
    "no_history": lambda content: content["all_rounds"].update(history=[]),
}


def test_what_is_no_certificate_is_said_without_a_fault_s_name(promising: Task) -> None:
    with pytest.raises(SignatureError, match=r"not a certificate of a round: it has no member 'body'; nothing"):
        read_certificate(b"{}", promising)


@pytest.mark.parametrize("change", CHANGES)
def test_a_signed_certificate_that_contradicts_itself_is_not_learned(
    parties: Parties, promising: Task, change: str
) -> None:
    changed = content(promising, parties, 1, 0.5, 0.75)
    CHANGES[change](changed)
    with pytest.raises(SignatureError, match=r"not a certificate of a round: .*; nothing was changed"):
        read_certificate(encode(changed, parties), promising)


def test_what_came_is_never_believed_to_be_above_what_holds_at_the_minimum(parties: Parties, promising: Task) -> None:
    learned = read_certificate(encode(content(promising, parties, 1, 0.9, 0.1), parties), promising)
    assert learned.epsilon_all_rounds == 0.9


async def test_another_tasks_certificate_is_named(device: Make, certificates: list[bytes]) -> None:
    with pytest.raises(SignatureError, match=r"is of task flights \(.*\), not of flights \(.*\); give it to that"):
        device(shuffler=NOBODY).add_certificate(certificates[0])


@pytest.mark.parametrize(("given", "says"), [(b"", "not a certificate"), (b"{}", "not a certificate"), (b"{", "JSON")])
async def test_what_is_no_certificate_is_named(device: Make, given: bytes, says: str) -> None:
    with pytest.raises(SignatureError, match=says):
        device(shuffler=NOBODY).add_certificate(given)


async def test_a_certificate_is_given_as_bytes(device: Make) -> None:
    with pytest.raises(UsageError, match="certificate is of type str; give bytes"):
        device(shuffler=NOBODY).add_certificate("certificate.json")  # type: ignore[arg-type]
