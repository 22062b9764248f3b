"""A reader's folder, as `hubbub init` makes it: the reader sees the rounds of both services, and closes none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from unit.results.test_service_reader import ROUNDS, Analyzer
from unit.service.rpc.test_looks import SIGNED, TASK, Everything

from hubbub.deploy.init.folders import initialise
from hubbub.protos.identity.keys import save_public
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.roles import READERS
from hubbub.results import connect
from hubbub.results.published_row import rows_of
from hubbub.service.rpc import serve_control, serve_results
from hubbub.service.transport.grpc_server import listen
from support.cli import hubbub
from support.ended import opened_server
from support.html_page import Page
from vectors.make_signed import PARTIES


@contextlib.asynccontextmanager
async def served(root: Path, analyzer: Any) -> AsyncIterator[dict[str, str]]:
    """Both services of that deployment; the reader's and the operator's settings name their ports."""
    addresses = {}
    async with contextlib.AsyncExitStack() as stack:
        for party, port in (("shuffler", 7302), ("analyzer", 7402)):
            server, tls = await stack.enter_async_context(opened_server()), root / party / "tls"
            if party == "shuffler":
                serve_control(server, Everything())
            else:
                serve_results(server, analyzer, READERS)
            files = TLS(tls / "authority.pem", tls / f"{party}.pem", tls / f"{party}.key")
            addresses[party] = f"127.0.0.1:{listen(server, '127.0.0.1:0', files.server(mutual=True))}"
            await server.start()
            for who in ("reader", "operator"):
                settings = root / who / f"{who}.toml"
                settings.write_text(settings.read_text().replace(f"127.0.0.1:{port}", addresses[party]))
        yield addresses


async def test_a_readers_folder_shows_both_services_and_closes_nothing(tmp_path: Path) -> None:
    root = initialise(tmp_path / "deployment").root
    (tmp_path / "task.json").write_bytes(SIGNED.encode())
    async with served(root, Everything()) as addresses:
        reader = root / "reader" / "reader.toml"
        seen = await asyncio.to_thread(hubbub, "status", reader, "--json")
        assert seen.status == 0, seen.err
        assert TASK.id.hex() in seen.out
        refused = await asyncio.to_thread(hubbub, "close", reader, tmp_path / "task.json", "--round", "0")
        assert refused.status == 1
        assert "role operator, and the one shown is that of reader" in " ".join(refused.err.split())
        tasks = await asyncio.to_thread(connect(addresses["analyzer"], root / "reader").tasks)
        assert [each.task_id for each in tasks] == [TASK.id]


async def test_a_reader_writes_a_report_whose_signers_are_those_of_the_folder_trust(tmp_path: Path) -> None:
    root = initialise(tmp_path / "deployment").root
    settings, page, known = root / "reader" / "reader.toml", tmp_path / "report.html", tmp_path / "known"
    known.mkdir()
    for name, party in (("operator", PARTIES.operator), ("shuffler", PARTIES.shuffler), ("analyzer", PARTIES.analyzer)):
        save_public(known / f"{name}.pub.pem", party.public)
    async with served(root, Analyzer()):
        words = ("report", settings, "--all", "--out", page)
        refused = await asyncio.to_thread(hubbub, *words)
        assert refused.status == 1
        assert "not of the operator whose key was given" in " ".join(refused.err.split())
        assert not page.exists()
        ran = await asyncio.to_thread(hubbub, *words, "--keys", known, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["rounds"] == [each.id.round for each in ROUNDS]
    assert (ran.json["verified"], ran.json["unpinned"]) == (True, [])
    assert {row.estimate for each in ROUNDS for row in rows_of(each)} <= set(Page(page.read_text()).numbers)
