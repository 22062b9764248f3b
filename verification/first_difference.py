"""Finds the first difference between what a file of results states and what follows from the counts.

Every member has its own room, which is less than its last stated digit (`protos.records.significant_digits`). A whole
number has none, and neither has a text or the order of rows. A message names the member, what is stated, and what was
expected.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from hubbub.protos.records.counts import CountsDiffer
from hubbub.protos.records.results import QueryState
from hubbub.protos.records.significant_digits import CHANCE, IN_ONE_UNIT, follows, in_digits, is_row, size_of
from hubbub.queries.errors import shown

_NAMES = {bool: "true or false", dict: "an object", float: "a number", int: "a whole number", list: "a list"}
_NAMES |= {str: "a text", type(None): "null"}

_ENDS = (("lower", "upper"), ("simultaneous_lower", "simultaneous_upper"))


def difference(computed: Any, stated: Any, where: str = "") -> str | None:
    """Return how two JSON values first differ, in words; None if the stated one follows from the computed one.

    Computed numbers have all digits, and stated ones those of `protos.records.significant_digits`. If a computed number
    may have a fraction, JSON may state a whole one without it, 4 for 4.0. All other types are the same.
    """
    if isinstance(computed, dict):
        return _of_objects(computed, stated, where)
    if isinstance(computed, list):
        return _of_lists(computed, stated, where)
    if type(computed) is float and type(stated) in (int, float):
        # Outside of rows numbers are those of the task, such as the ends of its range: they are stated whole.
        return None if stated == computed else _differs(computed, stated, where)
    return None if type(computed) is type(stated) and computed == stated else _differs(computed, stated, where)


def _of_objects(computed: Mapping[str, Any], stated: Any, where: str) -> str | None:
    if not isinstance(stated, dict):
        return _differs(computed, stated, where)
    wrong = odd_members(stated, computed.keys())
    if wrong is not None:
        return f"{f'{where}: ' if where else ''}{wrong}"
    in_unit = {*IN_ONE_UNIT, CHANCE} if is_row(computed) else set()
    for name, value in computed.items():
        place = _within(where, name)
        if name in in_unit and type(value) is float:
            found = _of_numbers(computed, name, stated[name], place)
        else:
            found = difference(value, stated[name], place)
        if found is not None:
            return found
    return None


def _of_numbers(row: Mapping[str, Any], name: str, stated: Any, where: str) -> str | None:
    is_number = type(stated) is float or (type(stated) is int and abs(stated) < 2**63)
    if is_number and follows(float(stated), row[name], size_of(row, name), name):
        return None
    return _differs(in_digits(dict(row))[name], stated, where)


def _of_lists(computed: list[Any], stated: Any, where: str) -> str | None:
    if not isinstance(stated, list):
        return _differs(computed, stated, where)
    if len(computed) != len(stated):
        return (
            f"{where or 'it'} does not follow from the counts: it has {len(stated)} members, but {len(computed)} follow"
        )
    pairs = zip(computed, stated, strict=True)
    found = (difference(*pair, f"{where}[{place}]") for place, pair in enumerate(pairs))
    return next((each for each in found if each is not None), None)


def _differs(computed: Any, stated: Any, where: str) -> str:
    return (
        f"{where or 'it'} does not follow from the counts: it is {_in_words(stated)}, but {_in_words(computed)} follows"
    )


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _in_words(value: Any) -> str:
    """Return a value as an error shows it: what is composed by its type alone."""
    return _NAMES[type(value)] if isinstance(value, dict | list) else shown(value)


def odd_members(stated: Mapping[str, Any], needed: Collection[str], allowed: Collection[str] = ()) -> str | None:
    """Return which members of an object are missing or too many, in words; None if it has the needed ones.

    It may have those that are `allowed` too.
    """
    missing, more = sorted(set(needed) - set(stated)), sorted(set(stated) - set(needed) - set(allowed))
    if missing:
        return f"the member {shown(missing[0])} is missing"
    return f"the member {shown(more[0])} is one too many" if more else None


def typed(value: Any, kind: type, where: str) -> Any:
    """Return a value of that type, true and 1.0 being no whole numbers.

    Raises:
        CountsDiffer: if it has another type.
    """
    if type(value) is not kind:
        raise CountsDiffer(f"{where} must be {_NAMES[kind]}, but is {_in_words(value)}")
    return value


def check_counts(stated: Any) -> None:
    """Check the form of what a file of results states of a query's counts; its estimates are not looked at.

    Raises:
        CountsDiffer: naming the first member that has another form.
    """
    query = typed(stated, dict, "a query")
    wrong = odd_members(query, ("name", "state", "reports", "valid", "left_out"), query)
    if wrong is not None:
        raise CountsDiffer(f"a query: {wrong}")
    name = typed(query["name"], str, "the name of a query")
    if query["state"] not in list(QueryState):
        raise CountsDiffer(f"{name}: state must be published or withheld, but is {shown(query['state'])}")
    left_out = typed(query["left_out"], dict, f"{name}: left_out")
    whole = {"reports": query["reports"], "valid": query["valid"]}
    whole |= {f"left_out.{reason}": number for reason, number in left_out.items()}
    _check_tally(name, query.get("tally", {"counts": "", "rounds": []}), whole)
    for where, number in whole.items():
        if typed(number, int, f"{name}: {where}") < 0:
            raise CountsDiffer(f"{name}: {where} must not be negative, but is {shown(number)}")


def _check_tally(name: str, tally: Any, whole: dict[str, Any]) -> None:
    """Check the form of a tally; its whole numbers are added to `whole`."""
    wrong = odd_members(typed(tally, dict, f"{name}: tally"), ("counts", "rounds"))
    if wrong is not None:
        raise CountsDiffer(f"{name}: tally: {wrong}")
    typed(tally["counts"], str, f"{name}: tally.counts")
    rounds = typed(tally["rounds"], list, f"{name}: tally.rounds")
    whole |= {f"tally.rounds[{place}]": number for place, number in enumerate(rounds)}


def check_numbers(name: str, stated: Any, where: str = "") -> None:
    """Check the form of all rows in an object, also of those that cannot be computed again.

    Numbers are finite, no error is negative, and an interval's ends are in order.

    Raises:
        CountsDiffer: naming the first member that has another form.
    """
    if isinstance(stated, list):
        for place, each in enumerate(stated):
            check_numbers(name, each, f"{where}[{place}]")
    if not isinstance(stated, dict):
        return
    for member, value in stated.items():
        check_numbers(name, value, _within(where, member))
    if is_row(stated):
        _check_row(name, stated, where)


def _check_row(name: str, row: Mapping[str, Any], where: str) -> None:
    for member in (*IN_ONE_UNIT, CHANCE):
        value = row.get(member)
        is_number = type(value) is int or (type(value) is float and math.isfinite(value))
        if member in row and not is_number and not (member == "standard_error" and value is None):
            raise CountsDiffer(f"{name}: {_within(where, member)} must be a number, but is {_in_words(value)}")
    if (row["standard_error"] or 0) < 0:
        place = _within(where, "standard_error")
        raise CountsDiffer(f"{name}: {place} must not be negative, but is {shown(row['standard_error'])}")
    for low, high in _ENDS:
        if low in row and high in row and row[low] > row[high]:
            raise CountsDiffer(f"{name}: {_within(where, low)} is {shown(row[low])}, above {high}, {shown(row[high])}")
