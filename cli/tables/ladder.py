"""Prints the ladder of a certificate: who must be honest for which ε, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hubbub.accountant.certificate.ladder import ladders_of_people


def ladder_lines(
    content: Mapping[str, Any], *, only: str | None = None, marks: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> Iterator[str]:
    """Yield the ladders of the round, of all rounds so far if there are several, and of all rounds of the task.

    `content` is that of a certificate or a simulation. With `only`, the ladder of that member alone. `marks` are words
    that follow an ε, such as that it is not proven, by what its ladder covers and by its member.
    """
    for over, each in ladders_of_people(content):
        if only is None or each.covers == only:
            yield f"privacy of each person whose device is honest, {over}, at δ = {content['delta']:g}:"
            yield from (f"  {rung.marked(marks.get((each.covers, rung.member), ''))}" for rung in each.rungs)
