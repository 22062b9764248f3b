"""`hubbub report`: from saved results, of the latest round, of one, or of all; with a PDF, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from unit.results.test_saved import COMMUTE, OVER_TIME, saved

from hubbub.deploy.init.folders import initialize
from support.cli import hubbub_here
from support.html_page import Page
from support.patience import PATIENCE


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("rounds") / "saved", OVER_TIME, False)


@pytest.mark.parametrize(
    ("words", "reported"),
    [((), [3]), (("--round", "1"), [1]), (("--all",), [0, 1, 2, 3])],
    ids=["latest", "one", "all"],
)
def test_the_rounds_that_are_asked_for_are_reported(
    rounds: Path, tmp_path: Path, words: tuple[str, ...], reported: list[int]
) -> None:
    ran = hubbub_here("report", rounds, *words, "--out", tmp_path / "r.html", "--json")
    assert ran.status == 0, ran.err
    assert ran.json == {
        "verified": True,
        "unpinned": ["operator", "shuffler", "analyzer"],
        "not_recomputed": {},
        "rounds": reported,
        "files": [str(tmp_path / "r.html")],
    }
    page = Page((tmp_path / "r.html").read_text())
    assert len(page.of("a")) == len(reported)
    assert "Who signed is not known" in page.words


def test_known_keys_pin_and_the_page_is_named_and_written_over(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<!doctype html>an earlier one")
    ran = hubbub_here("report", COMMUTE / "results.json", "--keys", COMMUTE, folder=tmp_path)
    assert (ran.status, ran.out, ran.err) == (0, "wrote the report of round 0: report.html\n", "")
    assert "Who signed is not known" not in Page(page.read_text()).words
    warned = hubbub_here("report", COMMUTE / "results.json", folder=tmp_path)
    assert "warning: Verified" in warned.err
    assert "NOT PINNED: the keys of operator, shuffler, analyzer" in warned.err


def test_a_pdf_is_beside_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("report", COMMUTE, "--out", tmp_path / "a.html", "--pdf", "--json")
    monkeypatch.setattr("hubbub.pages.report.rendering.BROWSERS", ("no-such-browser",))
    refused = hubbub_here(*words)
    assert refused.status == 1
    assert "none of no-such-browser is on the PATH" in refused.json["error"]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("hubbub.pages.report.rendering.browser", lambda: "printer")
    monkeypatch.setattr("hubbub.pages.report.rendering.pdf_of", lambda page, program: f"{program} {page}".encode())
    assert hubbub_here(*words).json["files"] == [str(tmp_path / "a.html"), str(tmp_path / "a.pdf")]
    assert (tmp_path / "a.pdf").read_text() == f"printer {(tmp_path / 'a.html').read_text()}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((COMMUTE, "--all", "--round", "0"), "leave one of the two out"),
        ((COMMUTE, "--pdf", "--out", "a.pdf"), "give a name such as a.html"),
        (("reader.toml", COMMUTE), "reader.toml names services; give it alone"),
        ((COMMUTE, "--round", "7"), "rounds 7 of task commute are not there"),
        ((COMMUTE, "--task", "other"), "there is no task"),
        (("none.json",), "cannot read none.json"),
        (("none.toml",), "none.toml"),
    ],
)
def test_what_cannot_be_reported_is_refused(tmp_path: Path, words: tuple[str | Path, ...], said: str) -> None:
    ran = hubbub_here("report", *words, folder=tmp_path)
    assert ran.status in (1, 2)
    assert said in " ".join(ran.err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_narrow_terminal_breaks_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    page = tmp_path / "a name that is longer than the terminal.html"
    assert hubbub_here("report", COMMUTE, "--out", page).out == f"wrote the report of round 0: {page}\n"


def test_a_reader_that_leaves_before_the_page_ends_it_quietly() -> None:
    words = [sys.executable, "-m", "hubbub.cli.main", "report", str(COMMUTE), "--keys", str(COMMUTE)]
    script = 'set -o pipefail; "$@" --out /dev/stdout | true'
    done = subprocess.run(["bash", "-c", script, "-", *words], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_results_that_were_changed_are_not_reported(tmp_path: Path) -> None:
    content = (COMMUTE / "results.json").read_text()
    (tmp_path / "results.json").write_text(content.replace('"epsilon_local": 5.77628', '"epsilon_local": 5.77627', 1))
    ran = hubbub_here("report", tmp_path / "results.json", "--out", tmp_path / "r.html")
    assert ran.status == 1
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("folder", [True, False])
def test_results_are_never_written_over_by_their_report(tmp_path: Path, folder: bool) -> None:
    results = tmp_path / "results.json"
    results.write_bytes(content := (COMMUTE / "results.json").read_bytes())
    ran = hubbub_here("report", tmp_path if folder else results, "--out", results)
    assert ran.status == 2
    assert "the report is read from it" in " ".join(ran.err.split())
    assert results.read_bytes() == content


def test_a_file_that_is_no_page_is_not_written_over(tmp_path: Path) -> None:
    data = tmp_path / "answers.csv"
    data.write_text("theme\nlight\n")
    ran = hubbub_here("report", COMMUTE / "results.json", "--out", data)
    assert (ran.status, data.read_text()) == (2, "theme\nlight\n")
    assert "is there already and is no page or PDF, so it is not written over; name another file" in ran.err
    again = hubbub_here("demo", "--data", data, "--histogram", "theme", "--report", data)
    assert (again.status, again.err, data.read_text()) == (2, ran.err, "theme\nlight\n")


def test_one_file_for_two_options_is_refused(tmp_path: Path) -> None:
    initialize(tmp_path / "d")
    settings, both = tmp_path / "d/operator/operator.toml", tmp_path / "both"
    for first, second in (("--csv", "--parquet"), ("--csv", "--certificate"), ("--parquet", "--certificate")):
        ran = hubbub_here("results", settings, first, both, second, both)
        assert (ran.status, ran.err) == (
            2,
            f"error: {first} and {second} both name {both}; give each a file of its own\n",
        )


@pytest.mark.parametrize("option", ["--csv", "--parquet", "--certificate", "--candidates"])
def test_a_link_to_itself_is_no_fault(tmp_path: Path, option: str) -> None:
    """`Path.resolve` has an error for it that is none of the system's."""
    initialize(tmp_path / "d")
    (tmp_path / "loop").symlink_to("loop")
    ran = hubbub_here("results", tmp_path / "d/operator/operator.toml", option, tmp_path / "loop")
    assert (ran.status, "a fault in hubbub" in ran.err) == (1, False), ran.err
    page = hubbub_here("report", COMMUTE / "results.json", "--out", tmp_path / "loop")
    assert page.status == 1
    assert page.err.startswith(f"error: {tmp_path / 'loop'} cannot be written: Too many levels of symbolic links")
