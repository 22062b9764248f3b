"""Encodes and decodes the states of rounds at the analyzer."""

from __future__ import annotations

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, QueryStatus
from hubbub.protos.v1 import results_pb2

_PROGRESS = {
    AnalysisStage.AWAITED: results_pb2.PROGRESS_AWAITED,
    AnalysisStage.DELIVERING: results_pb2.PROGRESS_DELIVERING,
    AnalysisStage.COUNTED: results_pb2.PROGRESS_COUNTED,
    AnalysisStage.CERTIFIED: results_pb2.PROGRESS_CERTIFIED,
    AnalysisStage.OVER: results_pb2.PROGRESS_OVER,
}


def write_round_status(status: AnalyzerRoundStatus) -> results_pb2.AnalyzerRoundStatus:
    """Encode a round's state at the analyzer."""
    return results_pb2.AnalyzerRoundStatus(
        id=codec.write_round_id(status.id),
        progress=_PROGRESS[status.progress],
        queries=[_write_query(query) for query in status.queries],
        waiting_for=codec.plain(status.waiting_for),
    )


def read_round_status(message: results_pb2.AnalyzerRoundStatus) -> AnalyzerRoundStatus:
    """Decode a round's state at the analyzer.

    Raises:
        MessageError: if the state is unknown to this version.
    """
    states = {number: progress for progress, number in _PROGRESS.items()}
    if message.progress not in states:
        raise MessageError(f"a round's state {message.progress} is unknown to this version; install a newer one")
    queries = tuple(_read_query(query) for query in message.queries)
    waiting_for = codec.plain(message.waiting_for)
    return AnalyzerRoundStatus(codec.read_round_id(message.id), states[message.progress], queries, waiting_for)


def _write_query(query: QueryStatus) -> results_pb2.QueryStatus:
    return results_pb2.QueryStatus(
        name=query.name,
        reports=query.reports,
        envelopes=query.envelopes,
        arrived=query.arrived,
        valid=query.valid,
        left_out=query.left_out,
    )


def _read_query(message: results_pb2.QueryStatus) -> QueryStatus:
    # Absent means "not counted yet"; 0 means that no report was valid.
    valid = message.valid if message.HasField("valid") else None
    left_out = codec.plain_counts(message.left_out)
    return QueryStatus(codec.plain(message.name), message.reports, message.envelopes, message.arrived, valid, left_out)
