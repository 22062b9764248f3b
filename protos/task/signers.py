"""Finds the valid signers of a round of a task, and applies successions of identities to a task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hubbub.protos.identity.keys import CORE_ROLES
from hubbub.protos.identity.lineage import Lineage, leading
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.protos.task.schedule import prepared_from
from hubbub.protos.task.task import Identities, Task


def signers(task: Task, round_number: int) -> Identities:
    """Return the identities that sign everything of a round: those in force when its keys may first be made."""
    lineage = task.lineage
    if lineage is None:
        return task.identities
    moment = prepared_from(task.schedule, round_number)
    of_round = {role.value: lineage.at(role, task.identities.of(role), moment) for role in CORE_ROLES}
    # A hop has one identity for the whole of a task.
    return Identities(**of_round, hops=task.identities.hops)


def connected(task: Task, successions: Iterable[Succession]) -> list[Succession]:
    """Return the successions that lead to or from the identities of a task; others are of other deployments."""
    return leading(successions, ((role, task.identities.of(role)) for role in CORE_ROLES))


def followed(task: Task, successions: Iterable[Succession]) -> Task:
    """Return the same task, with the successors of the identities that it names.

    Raises:
        SuccessionError: if the successions do not make one chain from them.
    """
    successions = list(successions)
    if not successions:
        return task
    if {each.new for each in successions} & set(task.identities.hops):
        raise SuccessionError("a succession names the key of one of the task's hops; each party makes its own key")
    known = {role: task.identities.of(role) for role in CORE_ROLES}
    return replace(task, lineage=Lineage.of(known, successions))
