"""Loads the signed tasks that this shuffler runs, and refuses tasks that cannot keep their promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from hubbub.accountant.certificate.alone import weak_noise
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.delta_warnings import delta_warning
from hubbub.protos.task.schedule import at as at
from hubbub.protos.task.schedule import first_not_cut
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.service.runtime.task_files import check_one_way, read_tasks

_LOG = structlog.get_logger(__name__)

Tasks = Mapping[bytes, Task]
"""Checked tasks by their ids."""


def load_signed(
    paths: Iterable[Path],
    operator: bytes,
    shuffler: bytes,
    successions: Sequence[Succession] = (),
    own: Role | None = None,
    *,
    any_number: bool = False,
) -> dict[bytes, SignedTask]:
    """Return the tasks in those files and folders (`*.json`), signed by both identities (32 bytes each).

    With `successions`, predecessors and successors of these identities may sign too; each task then has the
    successions. `own` is the role of the caller, if one of the two identities is its own. With `any_number` there may
    be no task.

    Raises:
        TaskError: if a file is no such task, if a minimum cannot support what its task promises, if tasks name
            different hops, or if there is no task at all.
    """

    def check(signed: SignedTask) -> None:
        check_promise(signed.check(operator, shuffler, successions, own))

    found = read_tasks(paths, check, any_number=any_number)
    tasks = {task_id: signed.check(operator, shuffler, successions) for task_id, signed in found.items()}
    check_one_way([(task.name, task.identities.hops) for task in tasks.values()], "analyzer")
    for task in tasks.values():
        warn_of(task)
    return {task_id: replace(found[task_id], task=task) for task_id, task in tasks.items()}


def warn_of(task: Task) -> None:
    """Log what a task promises less than people may think."""
    warning = delta_warning(task)
    if warning is not None:
        _LOG.warning("a task promises little", task=task.name, why=warning.removeprefix("warning: "))
    weak = weak_noise(Terms.of(task), {query.name: query.mechanism for query in task.queries})
    if weak is not None:
        _LOG.warning("noise alone does not keep a task's promise", task=task.name, why=weak)


def check_promise(task: Task) -> None:
    """Return only if a round at the task's minimum reaches its (ε, δ) and ε_local, within its budget.

    Raises:
        AccountingError: with the value reached, the value promised, and what to change.
    """
    check_minimum(Terms.of(task), [query.mechanism for query in task.queries])


def next_round(task: Task, now: float, after: int) -> str:
    """Return a sentence part: which round after `after` takes submissions next, and when."""
    schedule = task.schedule
    first = max(after + 1, first_not_cut(schedule, now))
    if first > task.last_round:
        return "it was the task's last round"
    opens, ends = at(schedule.opens(first)), at(schedule.ends(first))
    return f"the next is round {first}, from {opens} to {ends}: submit a new report to it"
