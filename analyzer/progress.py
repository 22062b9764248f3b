"""Progress: where each round stands at the analyzer, and what it waits for, in words."""

from __future__ import annotations

from hubbub.analyzer.tables import RoundProgress
from hubbub.protos.results import ProgressState


def state_of(progress: RoundProgress) -> ProgressState:
    """Return where a round stands."""
    if progress.is_certified:
        return ProgressState.CERTIFIED
    committed = [batch for batch in progress.batches if batch.committed is not None]
    if len(committed) == progress.queries:
        return ProgressState.COUNTED
    if not progress.has_key:
        return ProgressState.OVER
    return ProgressState.DELIVERING if progress.batches else ProgressState.AWAITED
