"""Devices of the TypeScript client before real services, which are killed meanwhile: everyone counts once."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

from web.conftest import ORIGIN, Pages
from web.test_conformance import OPENED

from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.task import Draft, Privacy, Schedule
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.verification.certificate import Pins, verify
from support.patience import PATIENCE, pause
from support.thoroughness import usually
from support.web_client import keys_of, play

IN_NODE, IN_PAGES = usually(24, 950), usually(6, 50)


def draft(people: int) -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=600, rounds=1, close="operator")
    questions = (Histogram("theme", ("light", "dark")), Number("session", 0.0, 120.0, "minutes", optional=True))
    return Draft("pages", schedule, people, Privacy(30.0, 1e-3, 40.0), questions)


def answers(place: int) -> dict[str, Any]:
    return {"theme": ("light", "dark")[place % 2], "session": None if place % 3 == 0 else 1.5 * place}


def options_of(pipeline: LocalPipeline) -> dict[str, Any]:
    return {**keys_of(pipeline.operator_key, pipeline.shuffler_key), "shuffler": pipeline.shuffler}


async def in_node(pipeline: LocalPipeline, folder: Path) -> None:
    """Play devices in Node: their program is killed in the middle of one, and the shuffler while it runs again."""
    devices = [
        {
            "state": str(folder / str(place)),
            "ticket": pipeline.ticket(f"node {place}").decode(),
            "answers": answers(place),
        }
        for place in range(IN_NODE)
    ]
    task = folder / "task.json"
    task.write_bytes(pipeline.task.encode())
    common = {**options_of(pipeline), "task": str(task), "authority": str(pipeline.authority)}
    killed = [{**each, "killAt": 12} if place == IN_NODE // 2 else each for place, each in enumerate(devices)]
    assert await play({**common, "devices": killed}, folder) == (-signal.SIGKILL, [])
    before = (await pipeline.status())[0].submissions
    going = asyncio.ensure_future(play({**common, "devices": devices}, folder))
    while not going.done() and (await pipeline.status())[0].submissions == before:
        await pause()
    await pipeline.kill(Role.SHUFFLER)
    await pipeline.start(Role.SHUFFLER)
    status, results = await going
    assert (status, [each for each in results if each.get("round") != 0]) == (0, [])


class WithOrigin(LocalPipeline):
    """Pages of another origin may call its HTTPS port."""

    def _set(self, party: str, key: str, value: str | int) -> None:
        super()._set(party, key, value)
        if key == "https_listen":
            change(self._settings(party), "https_origins", [ORIGIN])


async def in_pages(pipeline: LocalPipeline, pages: Pages) -> None:
    """Play devices in pages of another origin, each of which answers, is left, and answers again."""
    # A page of the network may call this machine only if it is allowed to.
    async with pages(permissions=["local-network-access"]) as tab:
        for place in range(IN_PAGES):
            ticket = pipeline.ticket(f"page {place}").decode()
            options = {**options_of(pipeline), "task": pipeline.task.encode().decode(), "ticket": ticket}
            for used in (True, False):
                await tab.open("/")
                words = [options, {"name": f"device {place}"}, answers(place)]
                assert (await tab.page.evaluate(OPENED, words))["used"] is used
        assert tab.said == []


async def test_devices_in_node_and_in_pages_count_once_each_whatever_is_killed(
    pages: Pages, started: Any, tmp_path: Path
) -> None:
    people = IN_NODE + IN_PAGES
    async with asyncio.timeout(PATIENCE), WithOrigin(draft(people), tmp_path / "pipeline", https=True) as pipeline:
        await in_node(pipeline, tmp_path)
        await in_pages(pipeline, pages)
        assert (await pipeline.close_round()).submissions == people
        results = await pipeline.results()
        named = pipeline.task.task.identities
    verified = verify(results.certificate, Pins(named.operator, named.shuffler, named.analyzer))
    assert [(each.reports, each.refusals) for each in verified.records] == [(people, {})] * 2
