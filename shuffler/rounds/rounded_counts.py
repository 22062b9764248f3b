"""How many submissions and refusals of a round its operator is shown, which is less than is counted.

Until a round is cut both are rounded: exact ones, looked at often enough, would tell when each person submitted. At the
cut they become exact, as the signed records of the round state them. What is refused after that is rounded again.
"""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.protos.messages import RoundState
from hubbub.service.observability.rounding import CountRounding
from hubbub.shuffler.records import RETRIED, Round


def shown_submissions(counts: CountRounding, round_: Round, held: int) -> int:
    """Return how many of a round's submissions are shown, of `held`."""
    return counts.round_down(held) if round_.state is RoundState.OPEN else held


def shown_tally(counts: CountRounding, round_: Round | None, tally: Mapping[str, int]) -> dict[str, int]:
    """Return the refusals and retries that are shown of a round, or of none; a reason appears with its first step."""
    at_cut = {} if round_ is None or round_.state is RoundState.OPEN else round_.refusals_at_cut
    exact = {name: at_cut.get(name, 0) for name in tally}
    shown = {name: exact[name] + counts.round_down(max(0, count - exact[name])) for name, count in tally.items()}
    return {name: count for name, count in shown.items() if count}


def refusals_of(tally: Mapping[str, int]) -> dict[str, int]:
    """Return the refusals of a tally, without the retries."""
    return {name: count for name, count in tally.items() if name != RETRIED}
