"""The TypeScript client reads, refuses, encodes, draws and seals as the vectors say: in Node, and in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from web.conftest import Pages

from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener
from hubbub.protos.sealing.suites import SUITES
from support.web_client import run_program, vector, vector_folders

SEALED = json.loads(vector("sealed.json").read_text())
FEWEST = 670
"""Fewest results: each vector is one."""
GROUPS = {
    "rfc8785",
    "hpke",
    "sealed",
    "enrollment",
    "refused",
    "logged",
    "feeds",
    "signatures",
    "answers",
    "signed",
    "kinds",
    "hops",
    "calls",
    "session",
}


def failed(results: list[tuple[str, str | None]]) -> dict[str, str]:
    """What is wrong, by the vector."""
    return {name: problem for name, problem in results if problem is not None}


def check_all(results: list[tuple[str, str | None]]) -> None:
    assert failed(results) == {}
    assert len(results) >= FEWEST
    assert {name.partition(":")[0].split()[0] for name, _ in results} == GROUPS


@pytest.fixture(scope="session")
def in_node(built: None) -> list[tuple[str, str | None]]:
    results: list[tuple[str, str | None]] = run_program("vectors.js", vector_folders())
    return results


def test_every_vector_holds_in_node(in_node: list[tuple[str, str | None]]) -> None:
    check_all(in_node)


def test_a_vector_that_says_something_else_is_noticed(built: None, tmp_path: Path) -> None:
    cases = json.loads(vector("answers.json").read_text())
    one = cases[0]["vectors"][0]
    one["reports"] = ["00000000" if one["reports"] == ["00000001"] else "00000001"]
    (tmp_path / "answers.json").write_text(json.dumps(cases))
    assert failed(run_program("vectors.js", vector_folders(tmp_path))).keys() == {"answers 0: histogram, krr, 0"}


async def test_every_vector_holds_in_a_real_browser(
    pages: Pages, in_node: list[tuple[str, str | None]], started: Any
) -> None:
    async with pages() as tab:
        await tab.open("/")
        results = await tab.page.evaluate("hubbub.vectors()")
        assert tab.said == []
    check_all(results)
    assert [name for name, _ in results] == [name for name, _ in in_node]


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_sealed_in_node_is_opened(built: None, suite: str) -> None:
    check_opens(suite, run_program("vectors.js", vector_folders(), suite))


async def test_what_is_sealed_in_a_real_browser_is_opened(pages: Pages, started: Any) -> None:
    async with pages() as tab:
        await tab.open("/")
        for suite in SUITES:
            check_opens(suite, await tab.page.evaluate("suite => hubbub.sealed(suite)", suite))


def check_opens(name: str, sealed: str) -> None:
    """Open an envelope of the reports of sealed.json, as shuffler and analyzer do."""
    (keys,) = (each for each in SEALED["sealed"] if each["suite"] == name)
    to, suite = SEALED["destination"], SUITES[name]
    destination = Destination(bytes.fromhex(to["task_id"]), to["round"], bytes.fromhex(to["key_set_hash"]))
    reports = [bytes.fromhex(each) for each in SEALED["reports"]]
    lengths = [len(each) + suite.overhead_bytes for each in reports]
    private = {role: bytes.fromhex(keys[role]["private"]) for role in ("shuffler", "analyzer")}
    outer = OuterOpener(destination, private["shuffler"], lengths, suite)
    inners = outer.open(bytes.fromhex(sealed), bytes.fromhex(SEALED["submission_id"]))
    opened = [
        InnerOpener(destination, private["analyzer"], query, suite).open(inner) for query, inner in enumerate(inners)
    ]
    assert opened == reports
