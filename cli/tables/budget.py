"""Shows what a device has spent, as JSON and as a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.printing import print_table

if TYPE_CHECKING:
    from hubbub.client import Budget, Epsilon, TaskBudget


def budget_document(budget: Budget) -> dict[str, Any]:
    """Return a budget as JSON."""
    given = budget.limits.given
    return {
        "day": _time(budget.day)[:10],
        "frees_up": _time(budget.frees_up),
        "today": _amounts(budget.today),
        "tasks": [_task(each) for each in budget.tasks],
        "limits": {name: {"limit": limit, "left": budget.left[name]} for name, limit in given.items()},
        "most_promised": dict(budget.limits.promised),
    }


def _task(task: TaskBudget) -> dict[str, Any]:
    return {
        "task": task.task,
        "task_id": task.task_id,
        "total": _amounts(task.total),
        "today": _amounts(task.today),
        "certified": task.certified,
        "exceeded": list(task.exceeded),
    }


def _amounts(spent: Epsilon) -> dict[str, Any]:
    amounts = {"epsilon_local": spent.epsilon_local, "epsilon": spent.epsilon, "delta": spent.delta}
    return {"rounds": spent.rounds, **amounts}


def print_budget(console: Console, budget: Budget) -> None:
    """Print a row for each task and one for today, then what is left of each limit."""
    table = Table("", "rounds", "ε_local", "central ε", "at δ", "certified")
    for column in table.columns[1:]:
        column.justify = "right"
    for task in budget.tasks:
        table.add_row(task.task, *_cells(task.total), _certified(task))
    table.add_row(f"all, on {_time(budget.day)[:10]}", *_cells(budget.today), "")
    print_table(console, table)
    for name, limit in budget.limits.given.items():
        frees_up = f", frees up at {_time(budget.frees_up)}" if name.endswith("_per_day") else ""
        console.print(f"{name} = {limit:g}: {budget.left[name]:.6g} left{frees_up}", markup=False, soft_wrap=True)
    for name, limit in budget.limits.promised.items():
        console.print(f"{name} = {limit:g}: the largest that a task may have", markup=False, soft_wrap=True)
    if not budget.limits.any:
        console.print(
            "no limit is set; see [limits] of the client's settings, or --limit", markup=False, soft_wrap=True
        )


def _cells(spent: Epsilon) -> tuple[str, ...]:
    amounts = (spent.epsilon_local, spent.epsilon, spent.delta)
    return (str(spent.rounds), *(f"{amount:.6g}" for amount in amounts))


def _certified(task: TaskBudget) -> str:
    above = f"above the promise in {', '.join(map(str, task.exceeded))}" if task.exceeded else ""
    known = "" if task.certified is None else f"to round {task.certified}"
    return ", ".join(filter(None, (known, above))) or "none"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
