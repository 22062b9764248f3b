"""What is to be said of a task whose δ is larger than goes without saying: signers, services and readers."""

from __future__ import annotations

from hubbub.protos.task.task import Task, is_large, largest_delta


def delta_warning(task: Task) -> str | None:
    """Return a warning of a task's δ that is above `largest_delta`, with the reason it gives; None where it is not."""
    privacy, reports = task.privacy, task.minimum_reports
    if not is_large(privacy.delta, reports):
        return None
    return (
        f"warning: δ = {privacy.delta:g} is above {largest_delta(reports):g} = 0.1 / minimum_reports, so every ε here "
        f"promises little; the task says why: {privacy.large_delta}"
    )
