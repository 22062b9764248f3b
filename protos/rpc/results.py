"""Encodes and decodes a round's results."""

from __future__ import annotations

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.records.results import QueryResult, QueryState, RoundResults, SumResult
from hubbub.protos.v1 import document_pb2, results_pb2
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row

# Found by name, so that a state without a number in the contract fails at import and not in some call.
_QUERY_STATES = {state: results_pb2.QueryState.Value(f"QUERY_STATE_{state.name}") for state in QueryState}


def write_results(results: RoundResults) -> results_pb2.RoundResults:
    """Encode a round's results."""
    return results_pb2.RoundResults(
        id=codec.write_round_id(results.id),
        queries=[_write_query(query) for query in results.queries],
        certificate=document_pb2.Certificate(document=results.certificate),
        sums=[_write_sum(each) for each in results.sums],
    )


def read_results(message: results_pb2.RoundResults) -> RoundResults:
    """Decode a round's results."""
    queries = tuple(_read_query(query) for query in message.queries)
    sums = tuple(_read_sum(each) for each in message.sums)
    return RoundResults(codec.read_round_id(message.id), queries, message.certificate.document, sums)


def _write_sum(result: SumResult) -> results_pb2.SumResult:
    message = results_pb2.SumResult(name=result.name, queries=result.queries)
    if result.estimates is not None:
        message.estimates.CopyFrom(_write_estimates(result.estimates))
    return message


def _read_sum(message: results_pb2.SumResult) -> SumResult:
    estimates = _read_estimates(message.estimates) if message.HasField("estimates") else None
    return SumResult(codec.plain(message.name), tuple(map(codec.plain, message.queries)), estimates)


def _write_query(result: QueryResult) -> results_pb2.QueryResult:
    message = results_pb2.QueryResult(
        name=result.name,
        state=_QUERY_STATES[result.state],
        reports=result.reports,
        valid=result.valid,
        left_out=result.left_out,
        counts=result.counts,
        rounds=result.rounds,
    )
    if result.estimates is not None:
        message.estimates.CopyFrom(_write_estimates(result.estimates))
    return message


def _read_query(message: results_pb2.QueryResult) -> QueryResult:
    states = {number: state for state, number in _QUERY_STATES.items()}
    if message.state not in states:
        raise MessageError(f"a query's state {message.state} is unknown to this version; install a newer one")
    estimates = _read_estimates(message.estimates) if message.HasField("estimates") else None
    return QueryResult(
        codec.plain(message.name),
        states[message.state],
        message.reports,
        message.valid,
        codec.plain_counts(message.left_out),
        estimates,
        message.counts,
        tuple(message.rounds),
    )


def _write_estimate(estimate: Estimate) -> results_pb2.Estimate:
    message = results_pb2.Estimate(
        value=estimate.value,
        standard_error=0.0 if estimate.standard_error is None else estimate.standard_error,
        lower=estimate.lower,
        upper=estimate.upper,
        no_standard_error=estimate.standard_error is None,
    )
    if estimate.simultaneous is not None:
        message.simultaneous.lower, message.simultaneous.upper = estimate.simultaneous
    return message


def _read_estimate(message: results_pb2.Estimate) -> Estimate:
    error = None if message.no_standard_error else message.standard_error
    band = message.simultaneous
    simultaneous = (band.lower, band.upper) if message.HasField("simultaneous") else None
    return Estimate(message.value, error, message.lower, message.upper, simultaneous)


def _write_estimates(estimates: Estimates) -> results_pb2.Estimates:
    message = results_pb2.Estimates(
        kind=estimates.kind,
        unit=estimates.unit,
        rows=[_write_row(row) for row in estimates.rows],
        notes=estimates.notes,
        table=estimates.table,
    )
    if estimates.clipped_to is not None:
        message.clipped_to.lower, message.clipped_to.upper = estimates.clipped_to
    return message


def _read_estimates(message: results_pb2.Estimates) -> Estimates:
    rows = tuple(_read_row(row) for row in message.rows)
    interval = message.clipped_to
    clipped_to = (interval.lower, interval.upper) if message.HasField("clipped_to") else None
    notes = tuple(codec.plain(note) for note in message.notes)
    return Estimates(codec.plain(message.kind), rows, codec.plain(message.unit), clipped_to, notes, message.table)


def _write_row(row: Row) -> results_pb2.Row:
    message = results_pb2.Row(
        statistic=row.statistic,
        category=row.category,
        consistent=row.consistent,
        unit=row.unit,
        group=[results_pb2.Member(attribute=attribute, value=value) for attribute, value in row.group],
        at=row.at,
        p_value=row.p_value,
        significant=row.significant,
    )
    if row.estimate is not None:
        message.estimate.CopyFrom(_write_estimate(row.estimate))
    return message


def _read_row(message: results_pb2.Row) -> Row:
    # An absent category is not an empty one: a row without a category is about all categories.
    return Row(
        codec.plain(message.statistic),
        _read_estimate(message.estimate) if message.HasField("estimate") else None,
        codec.plain(message.category) if message.HasField("category") else None,
        message.consistent if message.HasField("consistent") else None,
        codec.plain(message.unit),
        tuple((codec.plain(member.attribute), codec.plain(member.value)) for member in message.group),
        message.at if message.HasField("at") else None,
        message.p_value if message.HasField("p_value") else None,
        message.significant if message.HasField("significant") else None,
    )
