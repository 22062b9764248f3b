"""Rounds the counts of submissions and refusals that the operator sees of a round.

Both are rounded down until a round is cut: exact counts, read often enough, would reveal when each person submitted. At
the cut they become exact, as the round's signed records state them. Later refusals are rounded again.
"""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.protos.messages import RoundState
from hubbub.service.observability.rounding import CountRounding
from hubbub.shuffler.records import RETRIED, Round


def shown_submissions(counts: CountRounding, round_: Round, held: int) -> int:
    """Return the number of submissions to show for a round that has `held`."""
    return counts.round_down(held) if round_.state is RoundState.OPEN else held


def shown_tally(counts: CountRounding, round_: Round | None, tally: Mapping[str, int]) -> dict[str, int]:
    """Return the refusals and retries to show for a round, or for none; a reason appears with its first step."""
    at_cut = {} if round_ is None or round_.state is RoundState.OPEN else round_.refusals_at_cut
    exact = {name: at_cut.get(name, 0) for name in tally}
    shown = {name: exact[name] + counts.round_down(max(0, count - exact[name])) for name, count in tally.items()}
    return {name: count for name, count in shown.items() if count}


def refusals_of(tally: Mapping[str, int]) -> dict[str, int]:
    """Return the refusals of a tally, without the retries."""
    return {name: count for name, count in tally.items() if name != RETRIED}
