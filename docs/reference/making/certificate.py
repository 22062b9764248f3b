"""The page on certificates and results: every member with its kind and meaning, and every column of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hubbub.accountant.certificate import members
from hubbub.accountant.certificate.meanings import BODY, MECHANISMS, NUMBERS
from hubbub.accountant.mechanisms.registry import KINDS
from hubbub.verification import certificate as verification
from reference.making.page import Page, Section, code, divided, section, table, wrapped

_KINDS: Mapping[Any, str] = {
    members._count: "count",
    members._number: "number",
    members._number_or_none: "number or null",
    members._text: "text",
    members._counts: "counts by name",
    members._list: "list",
}
"""What the check of a member takes, in words."""

_BESIDE = members._BESIDE

OBJECTS: Mapping[str, Mapping[str, members.Kind]] = {
    "Each of queries": {**members.QUERY_MEMBERS, **_BESIDE},
    "round_total": {**members._TOTAL, **_BESIDE},
    "all_rounds": {**members._ALL_ROUNDS, **_BESIDE},
    "Each of all_rounds.history": {"queries": members._list, "round": members._count},
    "Each of the history's queries": members._BATCH,
    "horizon": members._HORIZON,
}
"""The objects of a certificate that have numbers, with the kind of each member."""

_RULES = (
    "A certificate is `body` and `signature`, in canonical JSON; [formats](formats.md#certificates) has the form. A "
    "member that is not here is refused. A count is a whole number from 0. A number is finite, and from 0. ε and δ "
    "have no unit. Upper ends are rounded up to six digits, lower ends down."
)
_RESULTS = (
    "A file of results, and the table of exported estimates, have the members of "
    "[results](formats-results.md): `task`, `round`, `queries` and `certificate`, and a row for each published number."
)


def pages() -> list[Page]:
    """Return the page on certificates.

    Raises:
        ValueError: if the members that are described are not those that are checked.
    """
    _check()
    body = [[code(name), kind, meaning] for name, (kind, meaning) in BODY.items()]
    sections = [_object(title, kinds) for title, kinds in OBJECTS.items()]
    mechanisms = [
        [code(kind), code(name), MECHANISMS[name]] for kind, known in KINDS.items() for name in sorted(known.members)
    ]
    return divided(
        Page(
            "certificate",
            "Members of a certificate",
            "What does each number of a certificate mean, and of which kind is it?",
            "every member of a certificate: kind and meaning",
            (
                section("", wrapped(_RULES), wrapped(_RESULTS)),
                section("The body", table(("member", "kind", "means"), body)),
                *sections,
                section(
                    "Members of a mechanism",
                    wrapped("Each of `queries` also has the members of its `mechanism`."),
                    table(("mechanism", "member", "means"), mechanisms),
                ),
            ),
        )
    )


def _object(title: str, kinds: Mapping[str, members.Kind]) -> Section:
    rows = [[code(name), _KINDS[kinds[name]], NUMBERS[name]] for name in sorted(kinds)]
    return section(title, table(("member", "kind", "means"), rows))


def _check() -> None:
    _same("BODY", BODY, verification._MEMBERS | verification._OPTIONAL)
    _same("NUMBERS", NUMBERS, {name for kinds in OBJECTS.values() for name in kinds})
    _same("MECHANISMS", MECHANISMS, {name for known in KINDS.values() for name in known.members})


def _same(name: str, described: Iterable[str], checked: Iterable[str]) -> None:
    differing = sorted(set(described) ^ set(checked))
    if differing:
        raise ValueError(f"accountant/certificate/meanings.py: {name} differs from what is checked: {differing}")
