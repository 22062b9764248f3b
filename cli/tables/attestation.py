"""What is left of a certificate's numbers where the analyzer's count of valid reports is not true, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hubbub.accountant.certificate.members import ATTESTED, IF_MINIMUM_VALID


def attested_lines(content: Mapping[str, Any], minimum: int, *, hops: bool = False) -> Iterator[str]:
    """Yield sentences on what rests on the analyzer's claim, and what is left without it.

    `minimum` is the task's; `hops` says whether batches came through other shufflers than the first.
    """
    yield _opening(content)
    by, assumed = _record(content, hops), _assumed(content)
    for query in content["queries"]:
        yield f"  {query['name']}: {_left(query, minimum, by, assumed)}"
    yield f"  this round, all queries: {_left(content['round_total'], minimum, by, assumed)}"
    if len(content["all_rounds"]["history"]) > 1:
        yield _rounds(content, minimum, by)
    if "horizon" in content:
        whole = content["horizon"]
        yield f"  all {whole['rounds']} rounds of the task: epsilon <= {whole[ATTESTED]} whatever is valid"


def attested_over_rounds(content: Mapping[str, Any], minimum: int, *, hops: bool = False) -> Iterator[str]:
    """Yield the same of all rounds of a history together, of which this is the last certificate's content."""
    yield _opening(content)
    yield _rounds(content, minimum, _record(content, hops))


def _opening(content: Mapping[str, Any]) -> str:
    never = ", and that rounds were never counted," if content["uncounted"] else ""
    return (
        f"how many reports are valid{never} is claimed by the analyzer, which alone opens them; where it is not true,"
    )


def _record(content: Mapping[str, Any], hops: bool) -> str:
    """Say on what rests what is left whatever is valid: the first shuffler's record, and who passes its dummies on."""
    dummies = any(query["dummies"] for query in content["queries"])
    return (
        "by the shuffler's record, while hops pass its dummies on" if hops and dummies else "by the shuffler's record"
    )


def _assumed(content: Mapping[str, Any]) -> str:
    """Say where nobody checked who submitted: what the dummies alone give is all that holds whoever came."""
    return ", if the honest share was assumed rightly" if content["admission"]["rests_on"] == "assumption" else ""


def _rounds(content: Mapping[str, Any], minimum: int, by: str) -> str:
    rounds = content["all_rounds"]
    return f"  all {len(rounds['history'])} rounds so far: {_left(rounds, minimum, by, _assumed(content))}"


def _left(stated: Mapping[str, Any], minimum: int, by: str, assumed: str) -> str:
    attested = f"epsilon <= {stated[ATTESTED]} whatever is valid, {by}"
    if stated[IF_MINIMUM_VALID] is None:
        return f"{attested}; fewer than the minimum of {minimum} are stated to be valid"
    held = f"if at least the minimum of {minimum} is valid{assumed}"
    return f"epsilon <= {stated[IF_MINIMUM_VALID]} {held}, {attested}"
