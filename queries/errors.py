"""The base class of hubbub's errors, and the errors of questions, answers and randomizers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, time
from typing import Any


class HubbubError(Exception):
    """An error that the caller can act on: the message names the value, the limit and the remedy."""


class TaskError(HubbubError):
    """A task, or a draft of one, is not valid."""


class UnmetTask(TaskError):
    """No plan meets a draft, but other numbers in it may: a search goes on after it, and ends at every other error."""


class TakesNoNoiseTask(TaskError):
    """A draft asks for noise of the shuffler where none can be had, whatever its numbers are."""


class FieldError(TaskError):
    """A value in a task or a draft is not allowed; `table` and `key` name its place."""

    def __init__(self, table: str, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}" if table == "file" else f"{table}.{key} {problem}")
        self.table = table
        self.key = key
        self.problem = problem


class UnknownKey(FieldError):
    """A table of a draft has a key that it may not have."""


class AnswerError(HubbubError):
    """An answer does not fit its query; nothing was sent. The message never repeats the answer."""


def nearest(word: object, names: Iterable[str]) -> str | None:
    """Return the name that is most like a word, whatever its case; None if none is like it."""
    import difflib  # devices load this module, and need it for no round

    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(f"{word!s:.255}".lower(), lower, n=1)
    return lower[near[0]] if near else None


def did_you_mean(word: object, names: Iterable[str]) -> str:
    """Return "did you mean NAME? " for the name that is most like a word; "" if none is like it."""
    found = nearest(word, names)
    return "" if found is None else f"did you mean {found}? "


def shown(value: Any) -> str:
    """Return a date as files have it, or the first 80 characters of a value's repr, for an error; it never raises."""
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    # repr raises ValueError for an int of more digits than Python writes, and RecursionError for deep nesting.
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        return "a number too long to show" if isinstance(value, int) else "a value too deep to show"
