"""A reader's folder, as `hubbub init` makes it: the reader sees the rounds of both services, and closes none."""

from __future__ import annotations

import asyncio
from pathlib import Path

from unit.results.test_service_reader import ROUNDS, Analyzer
from unit.service.rpc.test_caller_access import SIGNED, TASK

from hubbub.deploy.init.folders import initialize
from hubbub.protos.identity.keys import save_public
from hubbub.results import connect
from hubbub.results.published_row import rows_of
from support.both_services import served
from support.cli import hubbub
from support.html_page import Page
from support.messages import NOT_OF_GIVEN_KEY, OTHER_ROLE
from vectors.make_signed import PARTIES


async def test_a_readers_folder_shows_both_services_and_closes_nothing(tmp_path: Path) -> None:
    root = initialize(tmp_path / "deployment").root
    (tmp_path / "task.json").write_bytes(SIGNED.encode())
    async with served(root) as addresses:
        reader = root / "reader" / "reader.toml"
        seen = await asyncio.to_thread(hubbub, "status", reader, "--json")
        assert seen.status == 0, seen.err
        assert TASK.id.hex() in seen.out
        refused = await asyncio.to_thread(hubbub, "close", reader, tmp_path / "task.json", "--round", "0")
        assert refused.status == 1
        assert f"role operator, {OTHER_ROLE} reader" in " ".join(refused.err.split())
        tasks = await asyncio.to_thread(connect(addresses["analyzer"], root / "reader").tasks)
        assert [each.task_id for each in tasks] == [TASK.id]


async def test_a_reader_writes_a_report_whose_signers_are_those_of_the_folder_trust(tmp_path: Path) -> None:
    root = initialize(tmp_path / "deployment").root
    settings, page, known = root / "reader" / "reader.toml", tmp_path / "report.html", tmp_path / "known"
    known.mkdir()
    for name, party in (("operator", PARTIES.operator), ("shuffler", PARTIES.shuffler), ("analyzer", PARTIES.analyzer)):
        save_public(known / f"{name}.pub.pem", party.public)
    async with served(root, analyzer=Analyzer()):
        words = ("report", settings, "--all", "--out", page)
        refused = await asyncio.to_thread(hubbub, *words)
        assert refused.status == 1
        assert f"not of the operator {NOT_OF_GIVEN_KEY}" in " ".join(refused.err.split())
        assert not page.exists()
        ran = await asyncio.to_thread(hubbub, *words, "--keys", known, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["rounds"] == [each.id.round for each in ROUNDS]
    assert (ran.json["verified"], ran.json["unpinned"]) == (True, [])
    assert {row.estimate for each in ROUNDS for row in rows_of(each)} <= set(Page(page.read_text()).numbers)
