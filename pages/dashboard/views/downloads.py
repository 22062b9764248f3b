"""Files to save: the estimates as CSV and Parquet, results and certificates as `hubbub verify` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hubbub.pages.dashboard.site import Site, download, file_name, whole_number
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.records.results import RoundResults
from hubbub.protos.records.results_document import results_document, series_document

Rounds = Sequence[RoundResults]
Write = Callable[[Rounds], bytes]


@dataclass(frozen=True)
class FileKind:
    """A kind of file: what it is, its ending, its type, and how it is written of rounds."""

    words: str
    ending: str
    kind: str
    write: Write


def _csv(rounds: Rounds) -> bytes:
    # Loaded when it is needed, because pyarrow takes a moment and 60 MB.
    from hubbub.deploy.operator.export import csv_bytes

    return csv_bytes(*rounds)


def _parquet(rounds: Rounds) -> bytes:
    from hubbub.deploy.operator.export import parquet_bytes

    return parquet_bytes(*rounds)


def _results(rounds: Rounds) -> bytes:
    return _json(results_document(rounds[0]) if len(rounds) == 1 else series_document(rounds))


def _certificate(rounds: Rounds) -> bytes:
    if len(rounds) != 1:
        raise UsageError("a certificate is of one round; choose the round first")
    return rounds[0].certificate


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


KINDS: Mapping[str, FileKind] = {
    "csv": FileKind("CSV, for a spreadsheet", "csv", "text/csv; charset=utf-8", _csv),
    "parquet": FileKind("Parquet", "parquet", "application/vnd.apache.parquet", _parquet),
    "results": FileKind("results, for `hubbub verify`", "json", "application/json", _results),
    "certificate": FileKind("the certificate", "certificate.json", "application/json", _certificate),
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
    kind, task = KINDS[what], site.desk.task(task_id).task
    if number is not None:
        rounds, words = [site.desk.round(task_id, number).results], f"round-{number}"
    else:
        desk = site.desk.check_all(task_id)
        if desk.unchecked:
            raise HubbubError(f"{len(desk.unchecked)} rounds are still being checked; reload this page a little later")
        rounds = [desk.rounds[each].results for each in sorted(desk.rounds)]
        # A name that says so if rounds are not as their certificates state, and so not in the file.
        words = f"{len(rounds)}-of-{len(desk.listed)}-rounds" if desk.wrong else "all-rounds"
    if not rounds:
        raise UsageError("no round is certified yet; there is nothing to save")
    return download(kind.write(rounds), kind.kind, f"{file_name(task.name, task_id[:8], words)}.{kind.ending}")
