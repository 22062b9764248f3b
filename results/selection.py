"""Chooses tasks, rounds and rows as an analyst names them; an error says what there is instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from numbers import Integral, Real

from hubbub.accountant.errors import listed, shown
from hubbub.protos.errors import UsageError
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.results import RoundId, is_task
from hubbub.results.published_row import PublishedRow

Named = str | ListedTask | None
"""How a task is named: its name, 8 digits of its id or more, or what `tasks()` returned; None if there is one task."""

_FIELDS = PublishedRow.__dataclass_fields__
_TELLING = ("round", "query", "statistic", "category", "group", "at")
"""Attributes in which rows of one task differ, in the order in which people choose by them."""


def word_of(task: Named) -> str | None:
    """Return the name, or the id in hex, by which a task is asked for.

    Raises:
        UsageError: if it is something else, such as the number of a round.
    """
    if isinstance(task, ListedTask):
        return task.task_id.hex()
    if task is None or isinstance(task, str):
        return task
    raise UsageError(f"a task is named by its name or its id in hex, not by {shown(task)}; rounds are given as rounds=")


def matches(which: RoundId, word: str | None) -> bool:
    """Return whether a round is of the task of that name, or of an id that begins so in hex."""
    return word is None or is_task(word, which.task_id, which.task_name)


def check_task(word: str | None, known: Sequence[ListedTask]) -> None:
    """Return only if a task is known by that word.

    Raises:
        UsageError: naming the tasks that there are.
    """
    if word is not None and not any(is_task(word, each.task_id, each.name) for each in known):
        raise UsageError(f"there is no task {word!r}; there are: {listed(each.name for each in known)}")


def check_one_task(found: Sequence[RoundId], word: str | None) -> None:
    """Return only if there are rounds, and they are of one task.

    Raises:
        UsageError: if not; several tasks are named with their ids.
    """
    if not found:
        of = "" if word is None else f" of task {word}"
        raise UsageError(f"no round{of} is certified yet; `hubbub status` shows what each waits for")
    names = sorted({f"{each.task_name} ({each.task_id.hex()})" for each in found})
    if len(names) > 1:
        raise UsageError(f"there are several tasks; name one: {', '.join(names)}")


def chosen_rounds(found: Sequence[RoundId], wanted: object) -> set[int]:
    """Return the numbers of the wanted rounds, all of which must be there; of all if None are named.

    Raises:
        UsageError: if one is missing, or these are no numbers in a list, or none.
    """
    there = {each.round for each in found}
    if wanted is None:
        return there
    several = isinstance(wanted, Iterable) and not isinstance(wanted, str) and getattr(wanted, "ndim", 1) != 0
    asked = list(wanted) if several else None  # type: ignore[call-overload] # an iterable
    if asked is None or not all(is_number(each) for each in asked):
        raise UsageError(f"rounds are whole numbers in a list, such as rounds=[0, 3]; got {shown(wanted)}")
    if not asked:
        # A table of no rows would say that it was verified.
        raise UsageError(f"rounds is empty; leave it out for all, or name some of {listed(sorted(there))}")
    if missing := sorted(set(asked) - there):
        raise UsageError(
            f"rounds {listed(missing)} of task {found[0].task_name} are not there; these are: {listed(sorted(there))}"
        )
    return {int(each) for each in asked}


def is_number(value: object) -> bool:
    """Return whether a value can be a round's number: whole, also numpy's, and neither True nor False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def chosen_rows(rows: Sequence[PublishedRow], wanted: Mapping[str, object]) -> list[PublishedRow]:
    """Return the rows whose attributes are the wanted ones; a list names several values of one.

    Raises:
        UsageError: if rows have no such attribute, or none can have such a value, as another type is never equal.
    """
    for name in wanted:
        if name not in _FIELDS:
            raise UsageError(f"rows have no {name}; they have {', '.join(_FIELDS)}")
    values = {name: _values(rows, name, value) for name, value in wanted.items()}
    return [row for row in rows if all(getattr(row, name) in several for name, several in values.items())]


def _values(rows: Sequence[PublishedRow], name: str, wanted: object) -> list[object]:
    """Return one wanted value, or several, in a list. A group is a tuple, so a tuple is one value of it."""
    single = str | bytes | tuple if name == "group" else str | bytes
    one = isinstance(wanted, single) or not isinstance(wanted, Iterable) or getattr(wanted, "ndim", 1) == 0
    found = [wanted] if one else list(wanted)  # type: ignore[call-overload] # an iterable, if it is not one value
    what, fits = _kind(name)
    for each in found:
        if each is not None and not fits(each):
            there = [shown(value) for value in dict.fromkeys(getattr(row, name) for row in rows)]
            raise UsageError(f"{name} of a row is {what}; got {shown(each)}, and rows have {listed(there)}")
    return found


def _kind(name: str) -> tuple[str, Callable[[object], bool]]:
    """Return what an attribute is, in words, and whether a value can be one: others would equal none, in silence."""
    of = str(_FIELDS[name].type).partition(" ")[0]
    kinds: dict[str, tuple[str, Callable[[object], bool]]] = {
        "str": ("a text", lambda value: isinstance(value, str)),
        "datetime": ("a time with its zone", lambda value: isinstance(value, datetime) and value.tzinfo is not None),
        "bool": ("True or False", lambda value: isinstance(value, bool) or _dtype(value) == "b"),
        "Group": ("a tuple of pairs", lambda value: isinstance(value, tuple)),
    }
    return kinds.get(of, ("a number", _is_real))


def _is_real(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, Real | Decimal) or _dtype(value) in tuple("iuf")


def _dtype(value: object) -> str:
    """Return the kind of a numpy scalar, or of an array without a dimension; empty for any other value."""
    return str(getattr(getattr(value, "dtype", None), "kind", "")) if getattr(value, "ndim", 1) == 0 else ""


def only_row(rows: Sequence[PublishedRow], wanted: Mapping[str, object]) -> PublishedRow:
    """Return the only row whose attributes are the wanted ones.

    Raises:
        UsageError: if there is none, naming what rows have instead, or why the query is withheld; or several, naming
            what tells them apart.
    """
    found = chosen_rows(rows, wanted)
    words = " and ".join(f"{name}={shown(value)}" for name, value in wanted.items())
    if len(found) == 1:
        return found[0]
    if found:
        apart = [name for name in _TELLING if len({getattr(row, name) for row in found}) > 1]
        have = f"have {words}" if words else "are in the table"
        raise UsageError(f"{len(found)} rows {have}, not one; they differ in {listed(apart)}: name one value of each")
    about = {name: value for name, value in wanted.items() if name in ("task", "task_id", "round", "query")}
    if held_back := [row for row in chosen_rows(rows, about) if row.withheld]:
        first = held_back[0]
        raise UsageError(f"no row has {words}: {first.query} is withheld in round {first.round}, as {first.reason}")
    for name, value in wanted.items():
        if not chosen_rows(rows, {name: value}):
            there = [shown(each) for each in dict.fromkeys(getattr(row, name) for row in rows)]
            raise UsageError(f"no row has {name}={shown(value)}; rows have {listed(there)}")
    raise UsageError(f"no row has {words}" if words else "the table has no rows; `where` found none")
