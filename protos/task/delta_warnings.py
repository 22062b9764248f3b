"""Warns signers, services and readers of a task whose δ is larger than usual."""

from __future__ import annotations

from hubbub.protos.task.task import Task, is_large, largest_delta


def delta_warning(task: Task) -> str | None:
    """Return a warning if a task's δ is above `largest_delta`, with the task's reason for it; otherwise None."""
    privacy, reports = task.privacy, task.minimum_reports
    if not is_large(privacy.delta, reports):
        return None
    return (
        f"warning: δ = {privacy.delta:g} is above {largest_delta(reports):g} = 0.1 / minimum_reports, so every ε here "
        f"promises little, but that of the device alone; the task gives as its reason: {privacy.large_delta}"
    )
