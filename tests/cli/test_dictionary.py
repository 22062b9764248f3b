"""`hubbub dictionary`: pages say what the signed task says, load nothing, and show hostile words as text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hubbub.cli.app import build
from hubbub.protos.task.about import About
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from support.cli import Ran
from support.html_page import Page
from support.messages import HAS_NOT_SIGNED_TASK
from support.samples import Parties, sample_task, signed

HOSTILE = "<script>alert('1')</script> & \"more\""
ABOUT = About(HOSTILE, "To <b>choose</b>", "https://example.org/results", (("carrier", "Which <i>airline</i>"),))


@pytest.fixture(scope="module")
def parties() -> Parties:
    return Parties.generate()


@pytest.fixture(scope="module")
def task(parties: Parties) -> Task:
    return replace(sample_task(parties), about=ABOUT)


def run(*words: str | Path) -> Ran:
    done = CliRunner().invoke(build(["dictionary"]), ["dictionary", *map(str, words)])
    return Ran(done.exit_code, done.stdout, done.stderr)


def save(path: Path, content: SignedTask) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode())
    return path


def test_a_page_says_what_the_task_says(tmp_path: Path, task: Task, parties: Parties) -> None:
    file = save(tmp_path / "tasks" / "task.json", signed(task, parties))
    ran = run(file, "--out", tmp_path / "pages", "--json")
    index, page, published, entry = map(Path, ran.json["files"])
    assert published.read_bytes() == file.read_bytes()
    text = Page(page.read_text())
    for said in (HOSTILE, "To <b>choose</b>", "https://example.org/results", "Which <i>airline</i>", task.id.hex()):
        assert said in text.words
    assert all(query.name in text.words for query in task.asked)
    assert "ε if all services work together" in text.words
    assert "a device sends its answer, or by chance any of the answers (k-ary randomized response" in text.words
    assert "by krr" not in text.words
    assert "not signed by both" not in text.words
    assert text.elements.isdisjoint({"script", "b", "i"})
    assert page.name in Page(index.read_text()).links
    read = json.loads(entry.read_text())
    assert (read["data_curator"], read["intended_use"], read["task_id"]) == (HOSTILE, "To <b>choose</b>", task.id.hex())
    promise = read["privacy_loss"]
    assert (promise["epsilon"], promise["delta"]) == (task.privacy.epsilon, task.privacy.delta)
    assert set(read["implementation"]["mechanisms"]) == {query.name for query in task.queries}


def test_pages_load_nothing_and_their_links_lead_to_files(tmp_path: Path, task: Task, parties: Parties) -> None:
    save(tmp_path / "tasks" / "a.json", signed(task, parties))
    save(tmp_path / "tasks" / "b.json", signed(replace(task, minimum_reports=task.minimum_reports + 1), parties))
    ran = run(tmp_path / "tasks", "--out", tmp_path / "pages")
    assert "wrote the pages of 2 tasks" in ran.out
    found = list((tmp_path / "pages").glob("*.html"))
    assert len(found) == 3
    for page in found:
        text = page.read_text()
        assert "default-src 'none'" in Page(text).policy
        assert not re.search(r"url\(|@import|<script|<img|<link", text)
        assert all((page.parent / link).exists() for link in Page(text).links)


def test_a_task_that_one_party_has_not_signed_has_a_warning(tmp_path: Path, task: Task, parties: Parties) -> None:
    half = SignedTask(task).signed_by(parties.operator)
    ran = run(save(tmp_path / "tasks" / "half.json", half), "--out", tmp_path / "pages")
    assert ran.status == 0
    assert f"not signed by both parties: the shuffler {HAS_NOT_SIGNED_TASK}" in ran.err
    (page,) = (tmp_path / "pages").glob("*-????????.html")
    assert "not signed by both parties" in Page(page.read_text()).words


def test_what_is_no_task_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = run(tmp_path / "empty", "--out", tmp_path / "pages")
    assert "empty has no file *.json; name signed tasks" in ran.err
    (tmp_path / "x.json").write_text("{}")
    ran = run(tmp_path / "x.json", "--out", tmp_path / "pages")
    assert ran.status != 0
    assert "x.json: not a signed task" in ran.err
    assert not (tmp_path / "pages").exists()


def test_an_index_of_something_else_is_not_written_over(tmp_path: Path, task: Task, parties: Parties) -> None:
    content = save(tmp_path / "task.json", signed(task, parties))
    (pages := tmp_path / "pages").mkdir()
    (pages / "index.html").write_text("<!doctype html><title>Another site</title>")
    ran = run(content, "--out", pages)
    assert (ran.status, [each.name for each in pages.iterdir()]) == (2, ["index.html"])
    assert "index.html is there already and is no index of tasks" in " ".join(ran.err.split())
    (pages / "index.html").unlink()
    for _ in range(2):
        assert run(content, "--out", pages).status == 0
