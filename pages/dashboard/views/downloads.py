"""Files to save: estimates as CSV and Parquet, results and certificates as `hubbub verify` reads them, a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hubbub.pages.dashboard.site import Site, download, file_name, whole_number
from hubbub.pages.report.rendering import written_now
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.records.results_document import results_document, series_document
from hubbub.results import ResultsTable

Write = Callable[[ResultsTable], bytes]


@dataclass(frozen=True)
class FileKind:
    """A kind of file: what it is, its ending, its type, and how it is written of verified rounds."""

    words: str
    ending: str
    kind: str
    write: Write


def _csv(table: ResultsTable) -> bytes:
    # Loaded when it is needed, because pyarrow takes a moment and 60 MB.
    from hubbub.deploy.operator.export import csv_bytes

    return csv_bytes(*table.results)


def _parquet(table: ResultsTable) -> bytes:
    from hubbub.deploy.operator.export import parquet_bytes

    return parquet_bytes(*table.results)


def _results(table: ResultsTable) -> bytes:
    rounds = table.results
    return _json(results_document(rounds[0]) if len(rounds) == 1 else series_document(rounds))


def _certificate(table: ResultsTable) -> bytes:
    if len(table.results) != 1:
        raise UsageError("a certificate is of one round; choose the round first")
    return table.results[0].certificate


def _report(table: ResultsTable) -> bytes:
    return written_now(table).encode()


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


KINDS: Mapping[str, FileKind] = {
    "csv": FileKind("CSV, for a spreadsheet", "csv", "text/csv; charset=utf-8", _csv),
    "parquet": FileKind("Parquet", "parquet", "application/vnd.apache.parquet", _parquet),
    "results": FileKind("results, for `hubbub verify`", "json", "application/json", _results),
    "certificate": FileKind("the certificate", "certificate.json", "application/json", _certificate),
    "report": FileKind("a report, to hand on", "report.html", "text/html; charset=utf-8", _report),
}


def file(site: Site, request: Request) -> Response:
    """Return a file of one round, or of all rounds once all are checked.

    Raises:
        UsageError: for another kind.
        HubbubError: if rounds are not checked yet.
    """
    task_id, what, number = request.path_params["task"], request.path_params["what"], whole_number(request, "round")
    if what not in KINDS:
        raise UsageError(f"there is no file {what!r:.40}; choose one of {', '.join(KINDS)}")
    kind, task = KINDS[what], site.results.task(task_id).task
    if number is not None:
        table, words = site.results.table(task_id, number), f"round-{number}"
    else:
        of_task = site.results.check_all(task_id)
        if of_task.unchecked:
            left = len(of_task.unchecked)
            many = "1 round is" if left == 1 else f"{left} rounds are"
            raise HubbubError(f"{many} still being checked; reload this page a little later")
        if not of_task.verified:
            raise UsageError("no round is certified yet; there is nothing to save")
        table = site.results.joined(task_id, of_task.verified)
        # A name that says so if rounds are not as their certificates state, and so not in the file.
        words = f"{len(of_task.verified)}-of-{len(of_task.listed)}-rounds" if of_task.wrong else "all-rounds"
    return download(kind.write(table), kind.kind, f"{file_name(task.name, task_id[:8], words)}.{kind.ending}")
