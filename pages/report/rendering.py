"""Makes the report's page, and from that a PDF by a browser that the machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hubbub.pages.environment import environment
from hubbub.pages.report.report import Report
from hubbub.pages.shown_rows import plain
from hubbub.protos.errors import HubbubError
from hubbub.results.table import ResultsTable

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
"""Programs that print a page without a window, the first that is there."""

PRINT_SECONDS = 300
"""Most seconds that a browser may take: a machine under load takes a minute."""


class NotPrinted(HubbubError):
    """No PDF was made; the message has the reason and the remedy."""


def page_of(report: Report) -> str:
    """Return the report as one HTML page, which loads nothing."""
    templates = environment("hubbub.pages.report")
    templates.filters["plain"] = plain
    return templates.get_template("report.html").render(report=report)


def written_now(table: ResultsTable) -> str:
    """Return the page of the report on these rows, written now: the same for whoever asks for it, but for the time."""
    return page_of(Report(table, datetime.now(UTC)))


def browser() -> str:
    """Return the path of a browser that can print.

    Raises:
        NotPrinted: if there is none.
    """
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    raise NotPrinted(
        f"a PDF is printed by a browser, and none of {', '.join(BROWSERS)} is on the PATH; install one, such as the "
        "package chromium, or leave --pdf out and print the page from your own browser"
    )


def pdf_of(page: str, program: str) -> bytes:
    """Return a page as a PDF, printed by the browser `program`, in a profile that is removed.

    Raises:
        NotPrinted: with the end of what the browser said.
    """
    with tempfile.TemporaryDirectory(prefix="hubbub-print-", ignore_cleanup_errors=True) as scratch:
        source, printed = Path(scratch) / "report.html", Path(scratch) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        # As root, Chromium's own sandbox cannot be set up. The page is ours, and has no script.
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
        words = ["--headless", *as_root, "--disable-gpu", "--no-first-run", "--disable-extensions"]
        words += [f"--user-data-dir={scratch}/profile", "--no-pdf-header-footer", f"--print-to-pdf={printed}"]
        try:
            done = subprocess.run(
                [program, *words, source.as_uri()], capture_output=True, timeout=PRINT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotPrinted(f"{program} did not print the page: {error}; print it from your own browser") from error
        if done.returncode != 0 or not printed.is_file():
            said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300]
            raise NotPrinted(
                f"{program} ended with {done.returncode} and no PDF: {said or 'it said nothing'}; print the page from "
                "your own browser"
            )
        return printed.read_bytes()
