"""Pages in one file, in a real browser: reports and the dictionary are accessible, load nothing, and fit a phone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from unit.results.test_saved import COMMUTE

from browser.visits import faults_of, look
from hubbub.pages.dictionary.entry import Entry
from hubbub.pages.dictionary.pages import written
from hubbub.pages.report.rendering import page_of
from hubbub.pages.report.report import Report
from hubbub.protos.task.signed_task import SignedTask
from hubbub.results import ResultsTable, Trust, open_saved
from support.chromium import tab_of
from support.dashboard import PARTIES
from support.samples import signed
from support.shown_sites import ATTACKED, attacked_rounds

NOW = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of the example, one of names that attack it, and a dictionary of both tasks."""
    made = tmp_path_factory.mktemp("files")
    example = open_saved(COMMUTE / "results.json", keys=COMMUTE).read()
    for name, table in {"report": example, "attacked": ResultsTable(attacked_rounds(), Trust(False))}.items():
        (made / f"{name}.html").write_text(page_of(Report(table, NOW)))
    tasks = [Report(example, NOW).entry.signed, signed(ATTACKED, PARTIES), SignedTask(ATTACKED)]
    for number, task in enumerate(tasks):
        index, page, *_ = written([Entry.of(task)], made / f"dictionary-{number}")
        page.rename(index.with_name("task.html"))
    return made


@pytest.mark.sampled("report", "attacked", "0/index", "2/task")
@pytest.mark.parametrize(
    "name", ["report", "attacked", "dictionary-0/index", "dictionary-0/task", "dictionary-1/index", "dictionary-2/task"]
)
async def test_a_page_in_a_file_is_accessible_quiet_and_asks_for_nothing(started: Any, folder: Path, name: str) -> None:
    address = (folder / f"{name}.html").as_uri()
    async with tab_of(started) as tab:
        await tab.open(address)
        visit = await look(tab)
    assert faults_of(visit) == []
    assert (visit.said, visit.asked, visit.title == "run") == ([], [address], False)
