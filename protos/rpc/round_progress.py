"""Standings: the states of rounds at the analyzer, to and from protobuf messages."""

from __future__ import annotations

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.records.results import Progress, QueryStanding, RoundStanding
from hubbub.protos.v1 import results_pb2

_PROGRESS = {
    Progress.AWAITED: results_pb2.PROGRESS_AWAITED,
    Progress.DELIVERING: results_pb2.PROGRESS_DELIVERING,
    Progress.COUNTED: results_pb2.PROGRESS_COUNTED,
    Progress.CERTIFIED: results_pb2.PROGRESS_CERTIFIED,
    Progress.OVER: results_pb2.PROGRESS_OVER,
}


def write_standing(standing: RoundStanding) -> results_pb2.RoundStanding:
    """Encode a round's state at the analyzer."""
    return results_pb2.RoundStanding(
        id=codec.write_round_id(standing.id),
        progress=_PROGRESS[standing.progress],
        queries=[_write_query(query) for query in standing.queries],
        waiting_for=codec.plain(standing.waiting_for),
    )


def read_standing(message: results_pb2.RoundStanding) -> RoundStanding:
    """Decode a round's state at the analyzer.

    Raises:
        MessageError: where the state is unknown to this version.
    """
    states = {number: progress for progress, number in _PROGRESS.items()}
    if message.progress not in states:
        raise MessageError(f"a round's state {message.progress} is unknown to this version; install a newer one")
    queries = tuple(_read_query(query) for query in message.queries)
    waiting_for = codec.plain(message.waiting_for)
    return RoundStanding(codec.read_round_id(message.id), states[message.progress], queries, waiting_for)


def _write_query(query: QueryStanding) -> results_pb2.QueryStanding:
    return results_pb2.QueryStanding(
        name=query.name,
        reports=query.reports,
        envelopes=query.envelopes,
        arrived=query.arrived,
        valid=query.valid,
        left_out=query.left_out,
    )


def _read_query(message: results_pb2.QueryStanding) -> QueryStanding:
    # Absent means "not counted yet"; 0 means that no report was valid.
    valid = message.valid if message.HasField("valid") else None
    left_out = codec.plain_counts(message.left_out)
    return QueryStanding(
        codec.plain(message.name), message.reports, message.envelopes, message.arrived, valid, left_out
    )
