"""Describes what a certificate still guarantees if the analyzer's count of valid reports is false."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hubbub.accountant.certificate.members import ATTESTED, IF_MINIMUM_VALID


def attested_lines(content: Mapping[str, Any], minimum: int, *, hops: bool = False) -> Iterator[str]:
    """Yield sentences on which numbers rest on the analyzer's claim, and which are valid without it.

    `minimum` is the task's minimum of reports; `hops` is True if batches passed through hops.
    """
    if _by_noise_alone(content):
        yield (
            "these numbers need an honest shuffler, and nobody else: its noise hides each person even if every other "
            f"report is a liar's, whatever the analyzer claims; {_record(content, hops)}"
        )
        return
    yield _opening(content)
    by, assumed = _record(content, hops), _assumed(content)
    for query in content["queries"]:
        yield f"  {query['name']}: {_left(query, minimum, by, assumed)}"
    yield f"  this round, all queries: {_left(content['round_total'], minimum, by, assumed)}"
    if len(content["all_rounds"]["history"]) > 1:
        yield _rounds(content, minimum, by)
    if "horizon" in content:
        whole = content["horizon"]
        yield (
            f"  all {whole['rounds']} rounds of the task: epsilon <= {whole[ATTESTED]} for any number of valid reports"
        )


def attested_over_rounds(content: Mapping[str, Any], minimum: int, *, hops: bool = False) -> Iterator[str]:
    """Yield the same for all rounds of a history together; `content` is that of its last certificate."""
    yield _opening(content)
    yield _rounds(content, minimum, _record(content, hops))


def _by_noise_alone(content: Mapping[str, Any]) -> bool:
    """Whether noise of the shuffler gives every ε of a certificate, so that none rests on a number of valid reports."""
    stated = [*content["queries"], content["round_total"], content["all_rounds"]]
    noise = all("noise" in query for query in content["queries"])
    return noise and all(each["epsilon_upper"] == each[ATTESTED] for each in stated) and "horizon" not in content


def _opening(content: Mapping[str, Any]) -> str:
    never = ", and that rounds were never counted," if content["uncounted"] else ""
    return f"how many reports are valid{never} is claimed by the analyzer, which alone opens them; if that is false:"


def _record(content: Mapping[str, Any], hops: bool) -> str:
    """Return what the attested ε rests on: the shuffler's record, and hops that pass its dummies on."""
    dummies = any(query["dummies"] for query in content["queries"])
    return "by the shuffler's record, if hops pass its dummies on" if hops and dummies else "by the shuffler's record"


def _assumed(content: Mapping[str, Any]) -> str:
    """Return the assumption on the honest share, if nobody checked who submitted.

    Without that assumption, only the privacy that dummies give is certain.
    """
    return ", if the honest share was assumed rightly" if content["admission"]["rests_on"] == "assumption" else ""


def _rounds(content: Mapping[str, Any], minimum: int, by: str) -> str:
    rounds = content["all_rounds"]
    return f"  all {len(rounds['history'])} rounds so far: {_left(rounds, minimum, by, _assumed(content))}"


def _left(stated: Mapping[str, Any], minimum: int, by: str, assumed: str) -> str:
    attested = f"epsilon <= {stated[ATTESTED]} for any number of valid reports, {by}"
    if stated[IF_MINIMUM_VALID] is None:
        return f"{attested}; by the analyzer's own count, fewer than the minimum of {minimum} are valid"
    held = f"if at least the minimum of {minimum} is valid{assumed}"
    return f"epsilon <= {stated[IF_MINIMUM_VALID]} {held}, {attested}"
