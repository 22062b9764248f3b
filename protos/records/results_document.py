"""Writes a round's published numbers as JSON members and table rows, as formats-results.md describes them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.documents import parse_named
from hubbub.protos.identity.formats import CERTIFICATE, RESULTS, SERIES
from hubbub.protos.records.results import QueryResult, RoundResults, SumResult
from hubbub.protos.records.significant_digits import in_digits, row_in_digits
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.schedule import Schedule, at
from hubbub.protos.task.signed_task import SignedTask
from hubbub.queries.estimation.estimates import Estimate, Estimates, Group, Row

COLUMNS: dict[str, type] = {
    "task": str,
    "round": int,
    "query": str,
    "kind": str,
    "category": str,
    "statistic": str,
    **dict.fromkeys(("estimate", "standard_error", "lower", "upper", "consistent"), float),
    "unit": str,
    "state": str,
    "reports": int,
    "valid": int,
    **dict.fromkeys(("clip_lower", "clip_upper"), float),
    **dict.fromkeys(("epsilon_upper", "epsilon_local", "delta", "round_epsilon_upper"), float),
    **dict.fromkeys(("attribute", "group", "attribute_2", "group_2"), str),
    **dict.fromkeys(("at", "simultaneous_lower", "simultaneous_upper", "p_value"), float),
    "significant": bool,
    "round_begins": str,
    "round_ends": str,
}
"""Columns of the table with the type of their values, as formats-results.md describes them: one row per published
number. A withheld query has one row without an estimate. An attribute of `results.PublishedRow` has the same name."""


@dataclass(frozen=True)
class ResultRow:
    """A row with an estimate."""

    row: Row
    estimate: Estimate

    @property
    def label(self) -> str:
        """The name to show before the number: the group, then the category, or the statistic with its unit."""
        return row_label(self.row.group, self.row.category, self.row.statistic, self.row.at, self.row.unit)


def row_label(group: Group, category: str | None, statistic: str, at: float | None, unit: str = "") -> str:
    """Return the label of a row's numbers."""
    about = ", ".join(f"{attribute}={value}" for attribute, value in group)
    name = category
    if name is not None and at is not None:
        name = f"{name} ({statistic}, round {at:g})"
    if name is None:
        name = statistic if at is None else f"{statistic} at {at:g}"
        name = f"{name}, {unit}" if unit else name
    return f"{about}: {name}" if about else name


def result_rows(result: QueryResult | SumResult) -> tuple[ResultRow, ...]:
    """Return the published numbers in order; none if it is withheld, and none for a row without a value."""
    rows = () if result.estimates is None else result.estimates.rows
    return tuple(ResultRow(row, row.estimate) for row in rows if row.estimate is not None)


def numbers(estimate: Estimate) -> dict[str, float | None]:
    """Return an estimate's numbers under their names in documents and tables."""
    named = {
        "estimate": estimate.value,
        "standard_error": estimate.standard_error,
        "lower": estimate.lower,
        "upper": estimate.upper,
    }
    if estimate.simultaneous is None:
        return named
    lower, upper = estimate.simultaneous
    return {**named, "simultaneous_lower": lower, "simultaneous_upper": upper}


# JSON

SUMS = "sums"
"""The member with the sums of numbers that are asked by digits; a task that asks none has none."""


def results_document(results: RoundResults) -> dict[str, Any]:
    """Return a round's results as one JSON document, the certificate included."""
    return {**numbers_document(results), "certificate": read_json(results.certificate)}


def numbers_document(results: RoundResults) -> dict[str, Any]:
    """Return the members of a round's results but for its certificate."""
    sums = {SUMS: [in_digits(sum_document(each)) for each in results.sums]} if results.sums else {}
    return {
        "format": RESULTS.format,
        "task": {"id": results.id.task_id.hex(), "name": results.id.task_name},
        "round": results.id.round,
        "queries": [
            {**counts_document(query), **_tally_document(query), **_estimates_of(query)} for query in results.queries
        ],
        **sums,
    }


def sum_document(result: SumResult) -> dict[str, Any]:
    """Return the sum of a number that is asked by binary digits, with the names of their queries; no number is cut."""
    named = {"name": result.name, "queries": list(result.queries), "state": result.state.value}
    return named if result.estimates is None else {**named, **estimates_document(result.estimates)}


def counts_document(result: QueryResult) -> dict[str, Any]:
    """Return the counts of a query's batch."""
    return {
        "name": result.name,
        "state": result.state.value,
        "reports": result.reports,
        "valid": result.valid,
        "left_out": dict(result.left_out),
    }


def _tally_document(result: QueryResult) -> dict[str, Any]:
    """Return the source of the estimates, so that they can be recomputed (`hubbub.verification.results`)."""
    if not result.tallied:
        return {}
    return {"tally": {"counts": base64.b64encode(result.tallied).decode(), "rounds": list(result.rounds)}}


def _estimates_of(result: QueryResult) -> dict[str, Any]:
    return {} if result.estimates is None else dict(in_digits(estimates_document(result.estimates)))


def estimates_document(estimates: Estimates) -> dict[str, Any]:
    """Return rows by statistic, with all digits; `groups` has an object with the statistics of each group."""
    document: dict[str, Any] = {"kind": estimates.kind}
    if estimates.clipped_to is not None:
        document |= {"unit": estimates.unit, "range": list(estimates.clipped_to)}
    document |= _statistics([row for row in estimates.rows if not row.group])
    groups: dict[Group, list[Row]] = {}
    for row in estimates.rows:
        if row.group:
            groups.setdefault(row.group, []).append(row)
    if groups:
        document["groups"] = [{"group": dict(group), **_statistics(rows)} for group, rows in groups.items()]
    return document | ({"notes": list(estimates.notes)} if estimates.notes else {})


def _statistics(rows: Sequence[Row]) -> dict[str, Any]:
    """Return an object for a statistic without categories, otherwise a list of objects."""
    document: dict[str, Any] = {}
    for row in rows:
        value = None if row.estimate is None else numbers(row.estimate)
        if row.category is None and row.at is None:
            document[row.statistic] = value
            continue
        about = {"category": row.category, "at": row.at}
        more = {"consistent": row.consistent, "p_value": row.p_value, "significant": row.significant}
        members = {**_known(about), **(value or {}), **_known(more)}
        document.setdefault(f"{row.statistic}s", []).append(members)
    return document


def _known(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def series_document(rounds: Sequence[RoundResults]) -> dict[str, Any]:
    """Return rounds of one task as one JSON document; each has its times, and is a file of results in itself."""
    first = rounds[0].id
    return {
        "format": SERIES.format,
        "task": {"id": first.task_id.hex(), "name": first.task_name},
        "rounds": [{**results_document(each), **round_times(each)} for each in rounds],
    }


def round_times(results: RoundResults) -> dict[str, str]:
    """Return when a round began and ended, by the task in its certificate; nothing if that has no such task."""
    try:
        schedule = SignedTask.from_json(_body(results.certificate)["task"]).task.schedule
    except (HubbubError, KeyError, TypeError, ValueError):
        return {}
    return times_of(schedule, results.id.round)


@lru_cache(maxsize=2)
def parse_certificate(certificate: bytes) -> Any:
    """Return the members of a certificate, to be read only; the last two are kept, as one may be long.

    Nothing is checked but its form: `counts.read_certified` checks who signed it.

    Raises:
        FormatError: if it names another format.
        SignatureError: if it is not in canonical form.
    """
    return parse_named(certificate, CERTIFICATE, "body")


def _body(certificate: bytes) -> Mapping[str, Any]:
    """Return what a certificate states, in whatever form it is: `hubbub verify` reports its faults."""
    try:
        value = parse_certificate(certificate)
    except (HubbubError, SignatureError):
        value = read_json(certificate)
    body: Mapping[str, Any] = value["body"]
    return body


def times_of(schedule: Schedule, number: int) -> dict[str, str]:
    """Return when a round of that schedule begins and ends."""
    return {"round_begins": at(schedule.opens(number)), "round_ends": at(schedule.ends(number))}


# Rows


def table_rows(results: RoundResults) -> list[dict[str, Any]]:
    """Return a round's results as rows with the members `COLUMNS`; None if a column does not apply."""
    shared = {"task": results.id.task_name, "round": results.id.round, **round_times(results)}
    # Read without checks: `hubbub verify` checks a certificate, and reports its faults.
    body = _body(results.certificate)
    privacy = {query["name"]: query for query in body.get("queries", ())}
    total = body.get("round_total", {})
    rows: list[dict[str, Any]] = []
    for each in results.sums:
        # What a person gives to the sum is in the round's total, and in the rows of the digits.
        whole: dict[str, Any] = dict.fromkeys(COLUMNS) | shared | _counted_sum(each)
        rows.extend(whole | _privacy({}, total) | {"delta": body.get("delta")} | row for row in _query_rows(each))
    for query in results.queries:
        common: dict[str, Any] = dict.fromkeys(COLUMNS) | shared | _counted(query)
        common |= _privacy(privacy.get(query.name, {}), total) | {"delta": body.get("delta")}
        rows.extend(common | row for row in _query_rows(query))
    return rows


def _counted(result: QueryResult) -> dict[str, Any]:
    counts = {"state": result.state.value, "reports": result.reports, "valid": result.valid}
    return {"query": result.name, **counts, **_clipped(result.estimates)}


def _counted_sum(result: SumResult) -> dict[str, Any]:
    return {"query": result.name, "state": result.state.value, **_clipped(result.estimates)}


def _clipped(estimates: Estimates | None) -> dict[str, Any]:
    clipped = None if estimates is None else estimates.clipped_to
    lower, upper = clipped if clipped is not None else (None, None)
    return {"clip_lower": lower, "clip_upper": upper}


def _privacy(query: Mapping[str, Any], total: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate's privacy statements on a query's batch, and on all of one person's reports in the round."""
    members = {name: query.get(name) for name in ("epsilon_upper", "epsilon_local")}
    return members | {"round_epsilon_upper": total.get("epsilon_upper")}


def _query_rows(result: QueryResult | SumResult) -> Iterator[dict[str, Any]]:
    if result.estimates is None:
        # A withheld query has a row without numbers, so that the table shows that it was asked.
        yield {}
        return
    for line in result_rows(result):
        row = line.row
        names = {"kind": result.estimates.kind, "statistic": row.statistic, "category": row.category}
        tested = {"p_value": row.p_value, "significant": row.significant}
        about = {"unit": row.unit or None, "at": row.at, **_group_columns(row.group), **tested}
        yield row_in_digits({**names, "consistent": row.consistent, **about, **numbers(line.estimate)})


def _group_columns(group: Group) -> dict[str, str]:
    columns = ("attribute", "group", "attribute_2", "group_2")
    return dict(zip(columns, (text for member in group for text in member), strict=False))
