"""A device runs only what both parties it knows have signed, under the task's own cap."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hubbub.accountant.mechanisms import KRR, RAPPOR
from hubbub.client import SignatureError, TaskError
from hubbub.client.session.trust import check_epsilon_local, public_key, trusted_task
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy, Task
from support.krr_queries import unary_query
from support.messages import ABOVE_CAP, NOT_SIGNED_BY
from support.samples import Parties, sample_task, signed


def test_a_task_signed_by_both_is_trusted(document: SignedTask, parties: Parties) -> None:
    task = trusted_task(document.encode(), parties.operator.public, parties.shuffler.public)
    assert task == document.task


@pytest.mark.parametrize("role", ["operator", "shuffler"])
def test_a_task_of_other_parties_is_refused(document: SignedTask, parties: Parties, role: str) -> None:
    keys = {"operator": parties.operator.public, "shuffler": parties.shuffler.public}
    keys[role] = Identity.generate().public
    with pytest.raises(SignatureError, match=f"another {role}"):
        trusted_task(document.encode(), keys["operator"], keys["shuffler"])


@pytest.mark.parametrize("role", ["operator", "shuffler"])
def test_a_task_that_one_party_did_not_sign_is_refused(document: SignedTask, parties: Parties, role: str) -> None:
    half = replace(document, **{f"{role}_signature": None})
    with pytest.raises(SignatureError, match=f"the {role} has not signed"):
        trusted_task(half.encode(), parties.operator.public, parties.shuffler.public)


def test_a_tampered_task_is_refused(document: SignedTask, parties: Parties) -> None:
    weaker = document.encode().replace(b'"minimum_reports":20', b'"minimum_reports":21')
    assert weaker != document.encode()
    with pytest.raises(SignatureError, match=f"the task's {NOT_SIGNED_BY}"):
        trusted_task(weaker, parties.operator.public, parties.shuffler.public)


def test_a_task_above_its_own_cap_is_refused(parties: Parties) -> None:
    task = sample_task(parties, privacy=Privacy(epsilon=10.0, delta=1e-2, epsilon_local=3.0))
    with pytest.raises(TaskError, match=rf"add up to epsilon_local \d.* {ABOVE_CAP} 3; nothing is sent"):
        trusted_task(signed(task, parties).encode(), parties.operator.public, parties.shuffler.public)


def test_the_cap_itself_is_allowed_and_anything_below_the_sum_is_not(task: Task) -> None:
    total = sum(KRR(query.symbols, Fraction(1, 2)).epsilon_local for query in task.queries)
    check_epsilon_local(replace(task, privacy=replace(task.privacy, epsilon_local=total * (1 + 1e-15))))
    with pytest.raises(TaskError):
        check_epsilon_local(replace(task, privacy=replace(task.privacy, epsilon_local=total * (1 - 1e-15))))


def test_the_cap_holds_for_the_sum_over_all_randomizers(task: Task) -> None:
    carrier, delay = task.queries
    unary = unary_query(carrier.question, 3 * 2**30, 2**30)
    mixed = replace(task, queries=(unary, delay))
    total = RAPPOR(3, Fraction(3, 4), Fraction(1, 4)).epsilon_local + KRR(9, Fraction(1, 2)).epsilon_local
    check_epsilon_local(replace(mixed, privacy=replace(task.privacy, epsilon_local=total * (1 + 1e-15))))
    with pytest.raises(TaskError, match="add up to epsilon_local"):
        check_epsilon_local(replace(mixed, privacy=replace(task.privacy, epsilon_local=total * (1 - 1e-15))))


def test_keys_are_read_from_pem_and_raw_bytes(parties: Parties) -> None:
    pem = parties.operator.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert public_key(pem, "the key") == public_key(parties.operator.public, "the key") == parties.operator.public


@pytest.mark.parametrize("content", [b"", b"k" * 31, b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused(content: bytes) -> None:
    with pytest.raises(SignatureError, match="the operator's key has no readable public key"):
        public_key(content, "the operator's key")


def test_a_key_of_another_kind_is_refused() -> None:
    pem = (
        rsa.generate_private_key(65537, 2048)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(SignatureError, match="an identity is an Ed25519 key"):
        public_key(pem, "the key")
