"""Trust: a device runs a task only if the operator and the shuffler that it knows signed it, and within its cap."""

from __future__ import annotations

from fractions import Fraction

from hubbub.protos.errors import TaskError
from hubbub.protos.keys import parse_public
from hubbub.protos.signed import IDENTITY_BYTES
from hubbub.protos.signed_task import SignedTask
from hubbub.protos.task import Task


def trusted_task(document: bytes, operator_key: bytes, shuffler_key: bytes) -> Task:
    """Return the task in a signed task file, checked against both parties' public keys (PEM, or 32 raw bytes).

    Raises:
        SignatureError: where a key cannot be read, or the task is not signed by it.
        TaskError: where hubbub does not run such a task, or its queries' epsilon_local add up to more than its cap.
    """
    operator = public_key(operator_key, "the operator's key")
    shuffler = public_key(shuffler_key, "the shuffler's key")
    task = SignedTask.decode(document).check(operator, shuffler)
    check_epsilon_local(task)
    return task


def public_key(key: bytes, name: str) -> bytes:
    """Return a raw Ed25519 public key (32 bytes), given either as it is or as PEM; `name` is used in errors.

    Raises:
        SignatureError: where it is neither.
    """
    return key if len(key) == IDENTITY_BYTES else parse_public(key, name)


def check_epsilon_local(task: Task) -> None:
    """Return only if the queries' epsilon_local, each rounded up, sum to at most the task's cap.

    Raises:
        TaskError: naming the sum and the cap.
    """
    # Added exactly: a sum of floats may be rounded down, to just below a cap that is exceeded.
    total = sum(Fraction(query.mechanism.epsilon_local) for query in task.queries)
    cap = task.privacy.epsilon_local
    if total > Fraction(cap):
        raise TaskError(
            f"the queries of task {task.name} add up to epsilon_local {float(total):.6g}, above its cap of {cap:g}; "
            "nothing is sent for it, have the operator plan it again"
        )
