"""Deltas: what is to be said of a task whose δ is larger than goes without saying: signers, services and readers."""

from __future__ import annotations

from hubbub.protos.errors import TaskError
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import TASK_FORMAT, Task, is_large, largest_delta


def delta_warning(task: Task) -> str | None:
    """Return a warning of a task's δ that is above `largest_delta`, with the reason it gives; None where it is not."""
    privacy, reports = task.privacy, task.minimum_reports
    if not is_large(privacy.delta, reports):
        return None
    reason = privacy.large_delta
    said = "the task does not say why" if reason is None else f"the task says why: {reason}"
    return (
        f"warning: δ = {privacy.delta:g} is above {largest_delta(reports):g} = 0.1 / minimum_reports, so every ε here "
        f"promises little; {said}"
    )


def check_first_signature(signed: SignedTask) -> None:
    """Return only if nobody would be the first to sign a task whose δ is large, in a form that cannot say why.

    Tasks of earlier forms that were signed before `largest_delta` run on; there is no reason for a new one.

    Raises:
        TaskError: with the form, the δ, the limit, and what to do.
    """
    task, delta = signed.task, signed.task.privacy.delta
    first = signed.operator_signature is None and signed.shuffler_signature is None
    if not first or task.format == TASK_FORMAT or not is_large(delta, task.minimum_reports):
        return
    raise TaskError(
        f"nobody has signed this task of {task.format} yet, and its δ = {delta:g} is above "
        f"{largest_delta(task.minimum_reports):g} = 0.1 / minimum_reports, which that form holds against nothing; plan "
        f"the task anew with `hubbub plan`, as {TASK_FORMAT}, which asks for a smaller one or for words why"
    )
