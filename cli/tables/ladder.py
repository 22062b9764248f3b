"""Prints the ladder of a certificate: who must be honest for which ε, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hubbub.accountant.certificate.ladder import Ladder, ladders


def ladder_lines(
    content: Mapping[str, Any], *, only: str | None = None, marks: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> Iterator[str]:
    """Yield the ladders of the round, of all rounds so far if there are several, and of all rounds of the task.

    `content` is that of a certificate or a simulation. With `only`, the ladder of that member alone. `marks` are words
    that follow an ε, such as that it is not proven, by what its ladder covers and by its member.
    """
    rounds = len(content["all_rounds"]["history"])
    shown = [each for each in ladders(content) if each.query is None and (rounds > 1 or each.covers != "all_rounds")]
    for each in shown:
        if only is None or each.covers == only:
            yield f"privacy of each person whose device is honest, {over(each, content)}, at δ = {content['delta']:g}:"
            yield from (f"  {rung.marked(marks.get((each.covers, rung.member), ''))}" for rung in each.rungs)


def over(shown: Ladder, content: Mapping[str, Any]) -> str:
    """Return what a ladder is about, in words."""
    if shown.covers == "round_total":
        return "in this round"
    if shown.covers == "all_rounds":
        return f"over all {len(content['all_rounds']['history'])} rounds so far"
    whole = content["horizon"]
    if whole["epsilon_upper"] is None:
        return f"over all {whole['rounds']} rounds of the task, as a batch was below the minimum"
    return f"over all {whole['rounds']} rounds of the task, at the minimum"
