"""`hubbub demo`: the whole pipeline in one command, what it keeps, and how it ends when it is told to.

Most run in this process: those that are interrupted, and `make demo`, start from nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection
from pyarrow import parquet
from starlette.testclient import TestClient
from starlette.types import ASGIApp
from unit.verification.test_results import results_of

from hubbub.cli import registry
from hubbub.cli.commands import demo
from hubbub.cli.commands.demo import REPORT, AdmissionMode, _report_place, _reported
from hubbub.cli.registry import DASHBOARD, Extra
from hubbub.cli.tables.demo_words import looser_cap_words, noise_words
from hubbub.deploy.errors import NotWritten
from hubbub.deploy.local.cluster import spark_missing
from hubbub.pages.dashboard import server
from hubbub.pages.dashboard.access import TOKEN, Access
from hubbub.protos.task.admission import Mode
from hubbub.results import open_saved
from hubbub.service.observability import logs
from hubbub.service.settings import LogSettings
from support.cli import Ran, hubbub_here
from support.ended_with_test import started_program
from support.html_page import Page
from support.logging_setup import own_logs
from support.patience import PATIENCE
from support.source_tree import ROOT
from support.thoroughness import EXHAUSTIVE

COMMUTE = ROOT / "docs" / "examples" / "commute"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "trips.csv"
    rows = ["city,minutes", *(f"{'ABC'[row % 3]},{row % 50 if row % 5 else ''}" for row in range(800))]
    path.write_text("\n".join(rows))
    return path


def certificates_hold_and_fail_with_one_changed_byte(document: dict[str, Any]) -> None:
    """Every certificate that a demo kept verifies with its signers; with any one byte changed, it does not."""
    for each in document["rounds"]:
        path = Path(each["certificate"])
        assert hubbub_here("verify", path, "--json").json["verified"]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    changed = path.with_suffix(".changed")
    changed.write_bytes(content)
    ran = hubbub_here("verify", changed, "--json")
    assert ran.status == 1
    assert "Traceback" not in ran.err


def test_demo_on_flights_estimates_within_twelve_standard_errors(tmp_path: Path) -> None:
    picture = tmp_path / "flights.svg"
    ran = hubbub_here("demo", "--devices", "1000", "--out", tmp_path / "kept", "--plot", picture, "--json")
    assert ran.status == 0, ran.err
    document = ran.json
    (only,) = document["rounds"]
    assert only["submissions"]["acknowledged"] == only["submissions"]["accepted"] == document["devices"] == 1000
    assert document["minimum_reports"] == 900
    estimates = [row for query in only["queries"] for row in query["estimates"]]
    assert len(estimates) == 16 + 3
    # Nineteen estimates. Noise has the tails of a geometric law: of these, each is beyond twelve standard errors with
    # probability 1e-14, and beyond eight with 1e-8, or 1e-5 of groups.
    assert all(abs(row["error_in_standard_errors"]) < 12 for row in estimates)
    total = only["privacy"]["round_total"]
    # Noise of the shuffler: true even if everybody else lies, for at most 5 % of error.
    assert total["epsilon_upper"] <= total["epsilon_upper_alone"] <= 1
    assert set(document["noise"]) == {"carrier", "departure_delay"}
    for each in document["noise"].values():
        assert 0 < each["expected_standard_error"] <= 1.05 * each["expected_without_noise"]
    looser = document["looser_cap"]
    assert looser["epsilon_local"] == 20
    assert set(looser["expected_standard_errors"]) == set(document["noise"])
    for name, error in looser["expected_standard_errors"].items():
        assert 0 < error < document["noise"][name]["expected_standard_error"]
    assert set(document["seconds"]) == {"start", "submit", "shuffle_and_analyze", "verify", "stop"}
    assert document["plot"] == str(picture)
    assert document["dashboard"] is None
    assert document["report"] == str(tmp_path / "kept" / "report.html")
    page = Page(Path(document["report"]).read_text())
    assert set(parquet.read_table(only["results"]["parquet"])["estimate"].to_pylist()) <= set(page.numbers)
    assert "Verified: signatures, every epsilon" in page.words
    assert ">carrier<" in picture.read_text()
    certificates_hold_and_fail_with_one_changed_byte(document)


def test_a_report_is_left_where_people_look_and_none_for_programs_that_do_not_ask(tmp_path: Path) -> None:
    assert _report_place(None, as_json=False) == Path(REPORT)
    assert _report_place(tmp_path, as_json=True) == tmp_path / "report.html"
    assert _report_place(None, as_json=True) is None
    assert f"/{REPORT}" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_report_that_cannot_be_written_fails_only_if_it_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = [(each, each) for each in results_of("distribution")]
    assert _reported(rounds, None, tmp_path / "none" / "r.html") is None
    assert "warning: no report" in capsys.readouterr().err
    with pytest.raises(NotWritten):
        _reported(rounds, tmp_path / "none" / "r.html", None)
    assert _reported(rounds, tmp_path / "r.html", tmp_path / "other.html") == str(tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


# `make demo-cluster` runs it too; test_init_cluster.py and simulation/test_failover.py kill a leader amid a round.
@pytest.mark.exhaustive
def test_a_cluster_loses_nothing_when_its_leader_is_killed(tmp_path: Path) -> None:
    words = ("--devices", "500", "--rounds", "2", "--out", tmp_path / "kept", "--json")
    ran = hubbub_here("demo", "--cluster", *words)
    assert ran.status == 0, ran.err
    document = ran.json
    assert all(each["submissions"]["acknowledged"] == document["devices"] == 500 for each in document["rounds"])
    certificates_hold_and_fail_with_one_changed_byte(document)
    assert document["cluster"]["postgres"] == "own"
    assert document["cluster"]["leader_killed"]
    assert document["cluster"]["spark"] is None
    assert document["cluster"]["spark_missing"] == spark_missing(500)
    logged = {path.name: path.read_text() for path in Path(document["logs"]).glob("s*.log")}
    assert {"shuffler.log", "standby.log"} <= set(logged)
    # Each followed the other.
    assert all("the keyring was copied" in text for text in logged.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--postgres", "postgresql://nobody@127.0.0.1/none"), "add --cluster"),
        (("--cluster", "--admission", "mtls"), "--cluster does not work with --admission mtls"),
        (("--cluster", "--postgres", "postgresql://nobody@127.0.0.1:1/none"), "give --postgres the address"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = hubbub_here("demo", *words, "--devices", "300", "--out", tmp_path / "kept")
    assert ran.status != 0
    assert said in " ".join(ran.err.split())
    assert not (tmp_path / "kept").exists()


def counts_near_the_truth(rows: list[dict[str, Any]]) -> bool:
    return all(abs(row["error_in_standard_errors"]) < 12 for row in rows)


ROUNDS = 16 if EXHAUSTIVE else 6
"""Of a state that changes six times at most: in fewer rounds it could not."""


# simulation/test_longitudinal.py follows states over rounds of real services.
@pytest.mark.exhaustive
def test_a_state_over_time_is_followed_through_all_rounds_of_one_budget(tmp_path: Path) -> None:
    picture, asked = tmp_path / "late.svg", () if EXHAUSTIVE else ("--rounds", str(ROUNDS))
    words = ("--task", "longitudinal", *asked, "--devices", "300", "--out", tmp_path / "kept")
    ran = hubbub_here("demo", *words, "--plot", picture, "--json")
    assert ran.status == 0, ran.err
    document = ran.json
    rows = [row for each in document["rounds"] for query in each["queries"] for row in query["estimates"]]
    # Sixteen or more estimates, or six.
    assert len({each["round"] for each in document["rounds"]}) == ROUNDS <= len(rows)
    assert counts_near_the_truth(rows)
    assert document["rounds"][-1]["privacy"]["all_rounds"]["epsilon_upper"] <= 1
    assert "95 % interval" in picture.read_text()
    document["rounds"] = document["rounds"][-1:]
    certificates_hold_and_fail_with_one_changed_byte(document)


def test_texts_that_nobody_listed_are_found_among_candidates(tmp_path: Path) -> None:
    ran = hubbub_here("demo", "--task", "text", "--devices", "1500", "--out", tmp_path / "kept", "--json")
    assert ran.status == 0, ran.err
    ((query,),) = (each["queries"] for each in ran.json["rounds"])
    found = [row for row in query["estimates"] if row["category"] is not None]
    # A fifth of the flights go to five airports; 8 to 17 of 1,440 candidates are found, of which a share of 5 % may be
    # chance. One is, in one of a hundred runs; four come together once in 10⁸ or less.
    assert found
    assert sum(row["truth"] == 0 for row in found) <= max(3, len(found) // 4)
    assert counts_near_the_truth([row for row in found if row["truth"] > 0][:3])
    # The saved results have the texts that were looked up, and verify.
    (saved,) = (tmp_path / "kept").glob("results-*.json")
    looked_up = json.loads(saved.read_text())["queries"][0]["counts"]
    assert {row["category"] for row in found} == {row["category"] for row in looked_up}
    assert hubbub_here("verify", saved, "--json").json["verified"]
    trust = open_saved(saved, keys=tmp_path / "kept" / "trust").read().trust
    assert (trust.verified, trust.unpinned) == (True, ())
    certificates_hold_and_fail_with_one_changed_byte(ran.json)


# tests/unit/queries/questions/test_grouped.py and statistical/test_questions.py have groups and totals.
@pytest.mark.exhaustive
def test_groups_agree_with_their_totals(tmp_path: Path) -> None:
    ran = hubbub_here("demo", "--task", "groups", "--devices", "1500", "--out", tmp_path / "kept", "--json")
    assert ran.status == 0, ran.err
    ((query,),) = (each["queries"] for each in ran.json["rounds"])
    sums = {tuple(row.get("group", {}).values()): row for row in query["estimates"] if row["statistic"] == "sum"}
    assert len(sums) == 9 + 3 + 3 + 1
    assert counts_near_the_truth(list(sums.values()))
    for origin in ("EWR", "JFK", "LGA"):
        parts = [row["estimate"] for group, row in sums.items() if len(group) == 2 and group[0] == origin]
        assert sum(parts) == pytest.approx(sums[(origin,)]["estimate"], abs=1e-6 * 1500 * 180)
    assert sum(sums[(origin,)]["estimate"] for origin in ("EWR", "JFK", "LGA")) == pytest.approx(sums[()]["estimate"])
    certificates_hold_and_fail_with_one_changed_byte(ran.json)


@dataclass
class Visit:
    """What somebody saw who opened the dashboard of a demo while its services ran, and then pressed Ctrl-C."""

    address: str = ""
    pages: dict[str, str] = field(default_factory=dict)
    services: list[str] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)

    def look(self) -> None:
        """Look at pages, then press Ctrl-C, whatever went wrong."""
        try:
            self._look()
        except BaseException as error:
            self.failed.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    def _look(self) -> None:
        # The address gives the cookie that the other pages are asked for with.
        with httpx2.Client(follow_redirects=True, timeout=PATIENCE, trust_env=False) as client:
            self.pages["/"] = client.get(self.address).raise_for_status().text
            task = next(link for link in Page(self.pages["/"]).links if link.startswith("/task/"))
            for path in (task, f"{task}/round/1", "/services", f"{task}/file/results?round=1"):
                found = client.get(str(httpx2.URL(self.address).join(path)))
                self.pages[path.replace(task, "TASK")] = found.raise_for_status().text


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory, table: Path) -> tuple[Path, Ran, Visit]:
    """A demo of two rounds on a file, for people, where it kept what it keeps, and a visit to its dashboard."""
    out, scratch, visit = tmp_path_factory.mktemp("trips") / "kept", tmp_path_factory.mktemp("scratch"), Visit()
    serve = server.serve_beside

    async def serve_and_visit(app: ASGIApp, listener: socket.socket, tell: Callable[[], None]) -> None:
        visitor = Thread(target=visit.look)

        def told() -> None:
            tell()
            visitor.start()

        try:
            await serve(app, listener, told)
        finally:
            # Its Ctrl-C must not reach what runs next.
            if visitor.ident is not None:
                visitor.join()

    def address_of(*given: Any) -> str:
        visit.address = address(*given)
        return visit.address

    address = server.address_of
    words = ("--histogram", "city", "--sum", "minutes:0:60", "--rounds", "2", "--post-quantum", "--explain")
    with contextlib.ExitStack() as kept:
        patched = kept.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(server, "serve_beside", serve_and_visit)
        patched.setattr(server, "address_of", address_of)
        patched.setattr(server, "leave", lambda: None)
        patched.setattr("tempfile.tempdir", str(scratch))
        # Whatever set logs up in this process before, the demo says what it says alone.
        kept.enter_context(own_logs())
        logs.configure(LogSettings())
        ran = hubbub_here("demo", "--data", table, *words, "--out", out, "--dashboard", "--port", "0")
    assert visit.failed == []
    assert ran.status == 0, ran.err
    assert not list(scratch.glob("hubbub-demo-*"))
    return out, ran, visit


@pytest.fixture
def trips(visited: tuple[Path, Ran, Visit]) -> tuple[Path, Ran]:
    """That demo without the visit."""
    return visited[:2]


def test_the_dashboard_of_a_demo_shows_its_services_until_ctrl_c(visited: tuple[Path, Ran, Visit]) -> None:
    out, ran, visit = visited
    assert ran.out.splitlines()[-2:] == [f"open {visit.address}", "Ctrl-C ends the dashboard and the services"]
    assert "Results from the analyzer at 127.0.0.1:" in visit.pages["/"]
    page = Page(visit.pages["TASK/round/1"])
    wanted = parquet.read_table(out / "results-trips-1.parquet")["estimate"].to_pylist()
    assert set(wanted) <= set(page.numbers)
    # The keys of the demo's parties are those that a reader knows.
    assert "NOT PINNED" not in page.words
    assert "What follows may be old" not in "".join(visit.pages.values())
    assert "does not answer" not in visit.pages["/services"]
    assert 'name="word"' not in visit.pages["/services"], "a reader closes nothing"
    assert json.loads(visit.pages["TASK/file/results?round=1"]) == json.loads(
        (out / "results-trips-1.json").read_text()
    )
    # Its services ended after it: nobody answers there any more.
    assert ran.err.splitlines()[-1] == "stop the services"
    analyzer = visit.pages["/"].partition("the analyzer at ")[2].partition(".</p>")[0]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((analyzer.partition(":")[0], int(analyzer.partition(":")[2])))


def browser_line(ran: Ran) -> list[str]:
    """The words of the line that a demo says to open its results with, without `hubbub`."""
    (line,) = (each for each in ran.out.splitlines() if each.startswith("To look at the results in a browser: "))
    program, *words = shlex.split(line.partition(": ")[2])
    assert program == "hubbub"
    return words


def test_the_line_that_a_demo_says_opens_what_it_kept(
    visited: tuple[Path, Ran, Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, ran, _ = visited
    seen: list[str] = []
    listening = server.listening

    def serve(app: ASGIApp, listener: socket.socket, tell: Callable[[], None]) -> None:
        tell()
        client = TestClient(app, base_url="http://127.0.0.1")
        site = client.get(f"/?{TOKEN}={seen[0]}")
        task = next(link for link in Page(site.text).links if link.startswith("/task/"))
        seen.extend(client.get(f"{task}/round/{number}").raise_for_status().text for number in range(2))

    def address_of(_listener: socket.socket, _host: str, access: Access) -> str:
        seen.append(access.token)
        return "here"

    # Another dashboard may listen at the usual port.
    monkeypatch.setattr(server, "listening", lambda host, _port: listening(host, 0))
    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setattr(server, "address_of", address_of)
    # A check that still runs would end this process.
    monkeypatch.setattr(server, "leave", lambda: None)
    opened = hubbub_here(*browser_line(ran))
    assert (opened.status, opened.err) == (0, "")
    for number, text in enumerate(seen[1:]):
        wanted = parquet.read_table(out / f"results-trips-{number}.parquet")["estimate"].to_pylist()
        assert set(wanted) <= set(Page(text).numbers)
        assert "NOT PINNED" not in text
    assert len(seen) == 3


def test_an_analyst_reads_what_a_demo_kept_as_a_series_with_bands(trips: tuple[Path, Ran]) -> None:
    out, _ = trips
    table = open_saved(out, keys=out / "trust").read()
    assert (table.trust.verified, table.trust.unpinned) == (True, ())
    counts = table.where(query="city", statistic="count")
    pyplot.switch_backend("agg")
    axes = counts.plot()
    drawn = [list(line.get_ydata()) for line in axes.lines if line.get_linestyle() == "-"]
    assert drawn == [[row.estimate for row in counts.where(category=city)] for city in "ABC"]
    assert sum(isinstance(each, PolyCollection) for each in axes.collections) == 3
    pyplot.close("all")


@pytest.fixture
def not_run(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Demos that only say what to run next; the list has what each would have called with its services."""
    given: list[Any] = []

    def run(*words: Any) -> dict[str, Any]:
        given.append(words[-1])
        return {}

    monkeypatch.setattr(demo, "_run", run)
    monkeypatch.setattr(demo, "_reported", lambda *_: None)
    monkeypatch.setattr(server, "leave", lambda: None)
    monkeypatch.setattr(
        demo,
        "_print",
        lambda document, out, explain, _every, given: print(*demo._next(document, out, explain, given), sep="\n"),
    )
    return given


def test_without_a_folder_the_line_runs_the_demo_with_its_dashboard(
    not_run: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = hubbub_here("demo", "--devices", "300", "--task", "text")
    words = browser_line(ran)
    assert words == ["demo", "--task", "text", "--devices", "300", "--dashboard"]
    assert ran.out.splitlines()[-1].endswith(" --dashboard")
    listening = server.listening
    monkeypatch.setattr(server, "listening", lambda host, _port: listening(host, 0))
    assert hubbub_here(*words).status == 0
    assert [each is not None for each in not_run] == [False, True]
    # Without the extra it would be refused, so nobody is told.
    monkeypatch.setattr(registry, "DASHBOARD", NOT_INSTALLED)
    assert "browser" not in hubbub_here("demo", "--devices", "300", "--task", "text").out


def test_a_program_finds_the_address_in_the_document(not_run: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipeline:
        def reader_settings(self) -> Path:
            return COMMUTE / "results.json"

    async def serve(_app: ASGIApp, listener: socket.socket, tell: Callable[[], None]) -> None:
        tell()
        port.append(listener.getsockname()[1])

    port: list[int] = []

    def run(*given: Any) -> None:
        asyncio.run(given[-1](Pipeline(), {"task": "none"}))
        ended.append("services")

    ended: list[str] = []
    monkeypatch.setattr(server, "serve_beside", serve)
    monkeypatch.setattr(server, "leave", lambda: ended.append("threads"))
    monkeypatch.setattr(demo, "_run", run)
    ran = hubbub_here("demo", "--devices", "300", "--dashboard", "--port", "0", "--json")
    assert (ran.status, ran.err) == (0, "")
    # A check that computes on would abort the process at its end.
    assert ended == ["services", "threads"]
    assert ran.json["dashboard"].startswith(f"http://127.0.0.1:{port[0]}/?token=")
    assert not_run == []


NOT_INSTALLED = Extra(DASHBOARD.name, DASHBOARD.title, ("no_such_module_of_ours",))


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--port", "8737"), 2, "--port is where the dashboard listens; add --dashboard"),
        (
            ("--dashboard",),
            1,
            "--dashboard needs the dashboard (not installed): pip install 'hubbub[dashboard]'",
        ),
    ],
)
def test_a_dashboard_that_cannot_be_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], status: int, said: str
) -> None:
    monkeypatch.setattr(registry, "DASHBOARD", NOT_INSTALLED)
    monkeypatch.setattr(demo, "_dataset", lambda *_: pytest.fail("data were read"))
    ran = hubbub_here("demo", *words)
    assert (ran.status, said in ran.err) == (status, True), ran.err


def test_a_port_that_is_taken_is_said_before_the_demo_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_run", lambda *_: pytest.fail("the demo ran"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = hubbub_here("demo", "--devices", "300", "--dashboard", "--port", str(taken.getsockname()[1]), "--json")
    assert ran.status == 1
    assert "choose another with --port" in ran.json["error"]


def test_demo_keeps_what_it_says_and_nothing_secret(trips: tuple[Path, Ran]) -> None:
    out, _ = trips
    names = {path.name for path in out.iterdir()}
    results = {f"results-trips-{number}.{kind}" for number in (0, 1) for kind in ("csv", "parquet", "json")}
    others = {"certificate-trips-0.json", "certificate-trips-1.json", "task.json", "logs", "trust", "report.html"}
    assert names == results | others
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in out.rglob("*") if path.is_file())
    verified = [hubbub_here("verify", out / f"certificate-trips-{number}.json", "--json").json for number in (0, 1)]
    assert all(each["verified"] for each in verified)
    composed = [each["all_rounds"]["epsilon_upper"] for each in verified]
    assert composed[0] < composed[1] < 2 * composed[0]
    assert parquet.read_table(out / "results-trips-1.parquet").num_rows == 3 + 1 + 3


def test_a_demo_of_several_rounds_ends_with_how_to_verify_them_all(trips: tuple[Path, Ran]) -> None:
    out, ran = trips
    assert f"; next: hubbub verify {out}\n" in ran.out
    # Each round's ladder is printed with it, and what the last ε means once.
    assert ran.out.count("in this round, at δ") == 2
    assert ran.out.count("over all 2 rounds so far, at δ") == 1
    assert ran.out.count(" keeps, at δ") == 0
    assert ran.out.count("means: had one person answered differently") == 1
    shown = hubbub_here("verify", out)
    assert shown.status == 0, shown.err
    assert "one history of 2 rounds" in shown.out


def test_a_looser_cap_is_shown_with_what_is_given_up_for_it() -> None:
    shown = [{"name": "carrier", "kind": "histogram"}, {"name": "delay", "kind": "sum", "unit": "minutes"}]
    assert looser_cap_words(shown, 20.0, {"carrier": 6.491, "delay": 1880.0}) == (
        "With --local-epsilon 20 these standard errors would be 6.49 and 1,880 minutes. Then ε ≤ 20 is all that a "
        "person keeps if everybody else works together."
    )
    noise = {
        "carrier": {"expected_standard_error": 72.0, "expected_without_noise": 71.6},
        "delay": {"expected_standard_error": 7040.0, "expected_without_noise": 9000.0},
    }
    assert noise_words({"rounds": [{"queries": shown}], "noise": noise}) == (
        "At worst, if everybody had one answer, the standard error of a count of carrier would be 72.0 (0.6 % more "
        "than without noise of the shuffler), that of the sum of delay would be 7,040 minutes (22 % less than without "
        "noise of the shuffler)."
    )
    texts = {"texts": noise["carrier"]}
    of_texts = noise_words({"rounds": [{"queries": [{"name": "texts", "kind": "text"}]}], "noise": texts})
    assert of_texts.startswith("At worst, the standard error of a count of texts would be 72.0 ")


@pytest.mark.usefixtures("not_run")
def test_what_to_run_next_has_the_options_that_were_given() -> None:
    """What is asked of whom stays; what only shows or saves it is not repeated."""
    ran = hubbub_here("demo", "--task", "text", "--devices", "300", "--noise", "none", "--post-quantum")
    assert ran.status == 0, ran.err
    again = "--devices 300 --noise none --post-quantum --task text"
    _, _, following = ran.out.partition("Next: hubbub demo ")
    assert sorted(following.partition(" --explain shows")[0].split()) == sorted(again.split())
    saving = following.partition("hubbub demo ")[2].partition(" --out DIR saves")[0]
    assert sorted(saving.split()) == sorted(again.split())


def test_demo_for_people_shows_truth_beside_estimates(trips: tuple[Path, Ran]) -> None:
    _, ran = trips
    assert "sealed with MLKEM768-X25519, 3,416 bytes a submission" in ran.out
    assert (
        " if the shuffler is honest; everybody else may lie and work together, "
        "the analyzer too: the shuffler's noise hides each person" in ran.out
    )
    assert "\nAt worst, if everybody had one answer, the standard error of a count of city would be" in ran.out
    for text in ("truth", "estimate", "standard error", "95 % interval", "raw mean", "ε ≤", "█"):
        assert text in ran.out
    assert "devices encode, randomize, seal, submit" in ran.err


@pytest.mark.sampled("mtls")
@pytest.mark.parametrize(
    ("words", "table_says", "verify_says"),
    [
        (
            ("mtls", "--devices", "60", "--epsilon", "8", "--hops", "2"),
            "admission mtls: Each device with a TLS certificate of the devices' authority submits once a round.",
            "admission: mtls. Each device with a TLS certificate of the devices' authority submits once a round.",
        ),
        (
            ("open", "--devices", "500", "--honest-share", "0.5", "--noise", "none"),
            "admission open: Nobody checked who submitted",
            "admission: open. Nobody checked who submitted",
        ),
    ],
    ids=["mtls", "open"],
)
def test_every_mode_of_admission_runs_whole_and_says_who_must_be_honest(
    tmp_path: Path, table: Path, words: tuple[str, ...], table_says: str, verify_says: str
) -> None:
    asked = ("--data", table, "--histogram", "city", "--out", tmp_path / "kept", "--explain", "--admission", *words)
    ran = hubbub_here("demo", *asked)
    assert ran.status == 0, ran.err
    assert table_says in ran.out
    lines = ran.out.splitlines()
    last = lines[-2]
    assert sum(line.startswith("privacy of each person whose device is honest, in this round") for line in lines) == 1
    rungs = [line for line in lines if line.startswith("  ε ≤ ")]
    assumed = [rung for rung in rungs if "nobody checked who submitted, so that is assumed" in rung]
    assert bool(assumed) is (words[0] == "open")
    assert "next: " in last
    assert last.endswith(f"hubbub verify {tmp_path}/kept/certificate-trips-0.json")
    shown = hubbub_here("verify", tmp_path / "kept" / "certificate-trips-0.json")
    assert shown.status == 0, shown.err
    assert verify_says in shown.out
    # The demo and the check print the same sentences.
    assert all(f"  {rung}" in shown.out.splitlines() for rung in rungs)


def test_an_open_demo_must_say_which_share_is_honest_and_the_modes_are_the_tasks() -> None:
    ran = hubbub_here("demo", "--admission", "open")
    assert (ran.status, "add --honest-share, such as 0.5" in ran.err) == (2, True)
    assert [mode.value for mode in AdmissionMode] == [mode.value for mode in Mode]


# simulation/test_orphans.py: services end with who started them, and unit/shuffler/test_stopping.py has them
# drain at SIGTERM.
@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_demo_that_is_interrupted_stops_everything_and_keeps_logs(tmp_path: Path, number: signal.Signals) -> None:
    out, mark = tmp_path / "kept", f"HUBBUB_DEMO_TEST={tmp_path}"
    # Tests that nohup started ignore SIGHUP, and so would the demo.
    program = ["env", "--default-signal=HUP", mark, sys.executable, "-m", "hubbub.cli.main"]
    command = [*program, "demo", "--devices", "15000", "--out", str(out)]
    with started_program(command, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        while "seal" not in demo.stderr.readline():
            assert demo.poll() is None
        demo.send_signal(number)
        demo.stderr.read()
        assert demo.wait(timeout=PATIENCE) == 130
    assert {"shuffler.log", "analyzer.log"} <= {path.name for path in (out / "logs").iterdir()}
    assert _processes_with(mark) == []


def _processes_with(mark: str) -> list[str]:
    """Processes that have `mark` in their environment: what the demo started and did not end."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environment.read_bytes().split(b"\0"):
                found.append(environment.parent.name)
        except OSError:  # it ended while we looked, or is not ours
            continue
    return found


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--devices", "many"), "--devices"),
        (("--task", "trains"), "--list"),
        (("--task", "flights", "--data", "nothing.csv"), "--data"),
        (("--plot", "flights.gif"), "--plot flights.gif"),
        (("--devices", "400000"), "336776"),
        (("--histogram", "city"), "--data"),
        (("--data", "nothing.csv", "--histogram", "city"), "nothing.csv"),
        (("--data", "nothing.txt", "--histogram", "city"), "No such file"),
        (("--devices", "100", "--epsilon", "0"), "--epsilon is 0.0"),
        (("--devices", "100", "--delta", "0"), "--delta is 0.0"),
        (("--devices", "100", "--local-epsilon", "0"), "--local-epsilon is 0.0"),
        (("--devices", "100", "--dummies", "99999999"), "--dummies is 99999999"),
    ],
)
def test_bad_use_of_the_demo_says_what_to_do(words: tuple[str, ...], says: str) -> None:
    ran = hubbub_here("demo", *words)
    assert ran.status == (1 if says in ("nothing.csv", "No such file") else 2)
    assert says in ran.err
    assert "Traceback" not in ran.err
    assert "start shuffler" not in ran.err


def test_a_sum_with_ends_in_the_wrong_order_is_bad_use(table: Path) -> None:
    ran = hubbub_here("demo", "--data", table, "--sum", "minutes:5:1")
    assert ran.status == 2
    assert "--sum 'minutes:5:1' is not COLUMN:LOWER:UPPER, such as delay:-30:180 (LOWER 5 must be below" in ran.err


def test_data_without_the_column_is_refused_with_the_columns_there_are(table: Path) -> None:
    ran = hubbub_here("demo", "--data", table, "--histogram", "town")
    assert ran.status == 1
    assert "city, minutes" in ran.err


def test_a_folder_that_holds_something_is_not_written_to(table: Path) -> None:
    ran = hubbub_here("demo", "--data", table, "--histogram", "city", "--out", table.parent)
    assert ran.status == 1
    assert "empty" in ran.err


def test_tasks_are_listed_with_what_they_are_about() -> None:
    listed = hubbub_here("demo", "--list", "--json").json["tasks"]
    assert [each["task"] for each in listed] == ["flights", "longitudinal", "text", "groups"]
    shown = hubbub_here("demo", "--list").out
    assert all(f"{each['task']}: {each['about']}" in shown for each in listed)


@pytest.mark.parametrize("words", [("--devices", "x"), ("--sum", "delay"), ("--histogram", "carrier")])
def test_words_that_cannot_be_read_are_bad_use(words: tuple[str, ...]) -> None:
    ran = hubbub_here("demo", *words)
    assert ran.status == 2
    assert words[0] in ran.err
