"""A PDF is printed by a browser that is there; one that is not, or fails, is named with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.pages.report.rendering import NotPrinted, browser, pdf_of


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


PRINTS = (
    'for word; do case "$word" in --print-to-pdf=*) out="${word#*=}";; file://*) page="${word#file://}";; esac; done'
)


def test_the_first_browser_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPrinted, match=r"none of chromium, .* is on the PATH; install one"):
        browser()
    second = program(tmp_path, "google-chrome", "exit 0")
    assert browser() == second
    assert browser() != program(tmp_path, "chromium", "exit 0")


def test_the_page_is_printed_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fake = program(tmp_path, "chromium", f'{PRINTS}; {{ echo "$@"; cat "$page"; }} > "$out"')
    printed = pdf_of("<p>ε</p>", fake).decode()
    assert printed.endswith("<p>ε</p>")
    assert "--headless" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["chromium"]


@pytest.mark.parametrize(("account", "sandboxed"), [(0, False), (1000, True)])
def test_only_root_prints_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: int, sandboxed: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: account)
    printed = pdf_of("", program(tmp_path, "chromium", f'{PRINTS}; echo "$@" > "$out"'))
    assert (b"--no-sandbox" not in printed) == sandboxed


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first >&2; echo no display >&2; exit 3", "ended with 3 and no PDF: no display; print the page"),
        ("exit 0", "ended with 0 and no PDF: it said nothing"),
    ],
)
def test_a_browser_that_prints_nothing_is_named(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(NotPrinted, match=said):
        pdf_of("", program(tmp_path, "chromium", script))


def test_a_browser_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotPrinted, match="did not print the page"):
        pdf_of("", str(tmp_path / "none"))
