"""Services that were taken over answer an operator over TLS with texts that are to steer a terminal, and steer none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from hubbub.deploy.init.folders import initialize
from hubbub.protos import codec
from hubbub.protos.messages import CredentialStatus, Incident, IncidentReport, RoundState, RoundStatus
from hubbub.protos.records.results import (
    AnalysisStage,
    AnalyzerRoundStatus,
    QueryResult,
    QueryState,
    QueryStatus,
    RoundId,
    RoundResults,
)
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.channels import TLS
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.service.rpc import serve_control, serve_results
from hubbub.service.transport import grpc_server
from support.cli import Ran, hubbub
from support.ended_with_test import opened_server
from support.samples import QUERIES

EVIL = "\x1b]0;owned\x07\x1b]8;;http://example.org\x1b\\name\x1b[2J\r\n\u202e[/b][red]\x9b31m"
"""A title, a link, a cleared screen, a forged line, a turned direction, markup."""

TASK_ID = bytes(range(32))
ALLOWED = {"operator"}


class Shuffler:
    """A shuffler that says what it likes."""

    async def close_round(self, _task_id: bytes, _round_number: int) -> RoundStatus:
        raise Refusal(Reason.NOT_READY, EVIL)

    async def get_status(self, _task_id: bytes | None) -> list[RoundStatus]:
        return [RoundStatus(TASK_ID, 0, RoundState.OPEN, 1, 2, {EVIL: 3}, EVIL)]

    async def get_incidents(self) -> IncidentReport:
        return IncidentReport((Incident(EVIL, EVIL, 0.0, 1),), 0)

    async def manage_credentials(self, *_: object) -> CredentialStatus:
        raise Refusal(Reason.NOT_READY, EVIL)


class Analyzer:
    """An analyzer that does."""

    async def get_results(self, *_: object) -> RoundResults:
        tally = Tally(np.array([5, 9, 2], dtype=np.int64), 16)
        honest = QUERIES[0].estimates(tally, 0)
        number = Estimate(1.0, 1.0, -3.5, 2.0)
        rows = (Row(EVIL, number, EVIL), Row("count", number, "=1+1"), Row("count", number, "[/b]"))
        result = QueryResult(EVIL, QueryState.PUBLISHED, 9, 8, {EVIL: 1}, Estimates(EVIL, rows, EVIL, None, (EVIL,)))
        known = QueryResult(QUERIES[0].name, QueryState.PUBLISHED, 16, 16, {}, honest)
        body = b'{"body":{"\xe2\x80\xae":"\xc2\x9b"},"signature":"00"}'
        return RoundResults(RoundId(TASK_ID, EVIL, 0), (result, known), body)

    async def list_results(self, _task_id: bytes | None) -> list[RoundId]:
        return [RoundId(TASK_ID, EVIL, 0)]

    async def get_statuses(self, _task_id: bytes | None) -> list[AnalyzerRoundStatus]:
        queries = (QueryStatus(EVIL, 9, 9, 9, 8, {EVIL: 1}),)
        return [AnalyzerRoundStatus(RoundId(TASK_ID, EVIL, 0), AnalysisStage.DELIVERING, queries, EVIL)]

    async def get_incidents(self) -> IncidentReport:
        return IncidentReport((Incident(EVIL, EVIL, 0.0, 1),), 0)


@contextlib.asynccontextmanager
async def operated(folder: Path) -> AsyncIterator[Path]:
    """The operator's settings, and both services behind them."""
    made = initialize(folder)
    settings = made.of("operator") / "operator.toml"
    text = settings.read_text()
    async with contextlib.AsyncExitStack() as stack:
        for party, key in (("shuffler", "127.0.0.1:7302"), ("analyzer", "127.0.0.1:7402")):
            server, tls = await stack.enter_async_context(opened_server()), made.of(party) / "tls"
            if party == "shuffler":
                serve_control(server, Shuffler(), ALLOWED)
            else:
                serve_results(server, Analyzer(), ALLOWED)
            files = TLS(tls / "authority.pem", tls / f"{party}.pem", tls / f"{party}.key")
            port = grpc_server.listen(server, "127.0.0.1:0", files.server(mutual=True))
            await server.start()
            assert key in text
            text = text.replace(key, f"127.0.0.1:{port}")
        settings.write_text(text)
        yield settings


def steers_nothing(ran: Ran) -> None:
    """Every character that was printed can be seen."""
    for text in (ran.out, ran.err):
        assert [line for line in text.split("\n") if not line.isprintable()] == []


async def test_no_text_of_a_service_steers_the_operators_terminal_or_spreadsheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Their own programs send what they like; the commands run in processes of their own, where this is as it was.
    monkeypatch.setattr(codec, "plain", lambda text: text)
    table = tmp_path / "results.csv"
    async with operated(tmp_path / "deployment") as settings:
        for words in (
            ("status", settings),
            ("status", settings, "--json"),
            ("results", settings, "--csv", table),
            ("keys", "list", settings),
        ):
            ran = await asyncio.to_thread(hubbub, *words)
            assert "Traceback" not in ran.err
            steers_nothing(ran)
            assert "\\x1b]0;owned\\x07" in ran.out + ran.err or "\\\\x1b]0;owned" in ran.out, (words, ran)
    # What no certificate is of is not written at all. How texts are written: tests/unit/cli/terminal/test_output.py.
    assert not table.exists()
