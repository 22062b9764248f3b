"""Lists the members of a certificate and the kind of value of each; a member that is not listed is refused."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from hubbub.accountant.bounds import BOUNDS
from hubbub.accountant.certificate.ladder import ALONE, AT_MINIMUM, IF_MINIMUM_VALID, lower_of
from hubbub.accountant.errors import AccountingError, CertificateError, listed, shown
from hubbub.accountant.mechanisms import mechanism_members

Kind = Callable[[Any], bool]


def _count(value: Any) -> bool:
    # By type, not isinstance: True is an int in Python, but not a count.
    return type(value) is int and value >= 0


def _number(value: Any) -> bool:
    return type(value) is float and 0 <= value < inf


def _number_or_none(value: Any) -> bool:
    return value is None or type(value) is int or _number(value)


def _text(value: Any) -> bool:
    return type(value) is str


def _counts(value: Any) -> bool:
    return type(value) is dict and all(_text(name) and _count(count) for name, count in value.items())


def _list(value: Any) -> bool:
    return type(value) is list


_BATCH: Mapping[str, Kind] = {"honest_reports": _count, "reports": _count, "valid": _count}

_EPSILON: Mapping[str, Kind] = {
    "bound": _text,
    "epsilon_local": _number,
    "epsilon_upper": _number,
}

_TOTAL: Mapping[str, Kind] = {**_EPSILON, "epsilon_lower": _number_or_none}

_ALL_ROUNDS: Mapping[str, Kind] = {
    **_TOTAL,
    "budget": _number_or_none,
    AT_MINIMUM: _number_or_none,
    lower_of(AT_MINIMUM): _number_or_none,
    "history": _list,
}

_ALONE: Mapping[str, Kind] = {ALONE: _number, lower_of(ALONE): _number_or_none}

_HORIZON: Mapping[str, Kind] = {**_TOTAL, **_ALONE, "epsilon_upper": _number_or_none, "rounds": _count}

QUERY_MEMBERS: Mapping[str, Kind] = {
    **_TOTAL,
    **_BATCH,
    "dummies": _count,
    "left_out": _counts,
    "mechanism": _text,
    "name": _text,
    "state": _text,
}
"""The members of every query, apart from those of its mechanism's content."""

_BESIDE: Mapping[str, Kind] = {
    **_ALONE,
    IF_MINIMUM_VALID: _number_or_none,
    lower_of(IF_MINIMUM_VALID): _number_or_none,
}
"""The members next to every ε of a batch and of a total."""

_FLOAT_KINDS = (_number, _number_or_none)
FLOATS = frozenset(
    [
        "delta",
        "honest_share",
        *_BESIDE,
        *(name for kinds in (_ALL_ROUNDS, QUERY_MEMBERS) for name in kinds if kinds[name] in _FLOAT_KINDS),
    ]
)
"""Members that are floats wherever they occur. Canonical JSON writes 4.0 as 4, so a reader makes it a float again."""


def check_members(content: Mapping[str, Any]) -> None:
    """Return only if a statement has exactly the expected members, each of its kind.

    Numbers are finite floats from 0; counts are whole numbers from 0, and not booleans; a query's bound is one of the
    catalog.

    Raises:
        CertificateError: names the first member that is missing, unknown or of another kind.
    """
    _check("all_rounds", {**_ALL_ROUNDS, **_BESIDE}, content["all_rounds"])
    for entry in content["all_rounds"]["history"]:
        _check("a round so far", {"queries": _list, "round": _count}, entry)
        for stated in entry["queries"]:
            _check("a round so far", _BATCH, stated)
    if "horizon" in content:
        _check("horizon", _HORIZON, content["horizon"])
    _check("round_total", {**_TOTAL, **_BESIDE}, content["round_total"])
    for stated in content["queries"]:
        _check("a query", {**QUERY_MEMBERS, **_BESIDE, **_mechanism_members(stated)}, stated)
        if stated["bound"] not in BOUNDS:
            raise CertificateError(
                f"a query: {shown(stated['bound'])} is no bound; it must be one of {listed(sorted(BOUNDS))}"
            )
    if type(content["honest_share"]) is bool or not _count(content["round"]):
        raise CertificateError("honest_share must be a number, and round a whole number from 0")


def _mechanism_members(stated: Mapping[str, Any]) -> Mapping[str, Kind]:
    """Return the members of this query's mechanism, which must be a known one."""
    try:
        return mechanism_members(stated["mechanism"])
    except AccountingError as error:
        raise CertificateError(f"a query: {error}") from error


def _check(where: str, kinds: Mapping[str, Kind], stated: Mapping[str, Any]) -> None:
    if set(stated) != set(kinds):
        raise CertificateError(
            f"{where}: the members are {listed(sorted(stated)):.200}; they must be {listed(sorted(kinds))}"
        )
    for name, fits in kinds.items():
        if not fits(stated[name]):
            raise CertificateError(
                f"{where}: {name} is {shown(stated[name])}, which is not of the expected kind; see the docs"
            )
