"""Pages of an analyst show the numbers of `hubbub.results`, what is withheld and why, and what is spent."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from markupsafe import Markup, escape

from hubbub.pages.dashboard import checked_results as checked_module
from hubbub.pages.dashboard import shown_task
from hubbub.pages.dashboard.checked_results import CheckedResults
from hubbub.pages.dashboard.shown_task import ShownTask
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.signed_task import SignedTask
from hubbub.results import ResultsTable, Trust, open_saved
from hubbub.verification.certificate import stated
from hubbub.verification.pins import Pins
from support.cli import hubbub_here
from support.dashboard import HOSTILE, KEYS, PARTIES, TASK, Browser, StubReader, at_once, made_rounds, site_of, stub
from support.dashboard import without_pictures as plain_text
from support.messages import HAS_NOT_SIGNED_TASK

HERE = f"/task/{TASK.id.hex()}"
TABLE = ResultsTable(made_rounds(), Trust(True))
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC by hubbub")
"""When a report was written."""


@pytest.fixture
def reader() -> StubReader:
    return stub()


@pytest.fixture
def browser(reader: StubReader) -> Browser:
    return Browser(site_of(reader))


def test_the_first_page_lists_tasks_with_purpose_owner_and_signatures(browser: Browser) -> None:
    seen = browser.get("/")
    assert seen.status == 200
    assert all(word in seen.page.words for word in (TASK.name, "What to buy & when", "the <b>kitchen</b>", "both hold"))
    assert HERE in seen.page.links


def test_a_task_shows_fingerprints_budget_and_rounds(browser: Browser, reader: StubReader) -> None:
    seen = browser.get(HERE)
    words = " ".join(seen.page.words.split())
    shown = browser.site.results.task(TASK.id.hex())
    assert all(digits in words for _, digits, _ in shown.parties)
    assert "The operator and the shuffler signed this task." in words
    spent = stated(made_rounds()[-1].certificate)["all_rounds"]
    charged = spent.get("epsilon_upper_at_minimum") or spent["epsilon_upper"]
    assert charged in seen.page.numbers
    assert 30.0 - charged in seen.page.numbers
    assert "1 round can still come after round 2" in words
    assert "spent in all rounds up to round 2:" in words, "a later one may not be verified"
    assert "withheld: milk" in words
    assert sorted(reader.asked) == [0, 1, 2]


def test_a_spent_budget_says_that_no_further_round_is_counted() -> None:
    charged = stated(made_rounds()[-1].certificate)["all_rounds"]["epsilon_upper_at_minimum"]
    charged = charged or stated(made_rounds()[-1].certificate)["all_rounds"]["epsilon_upper"]
    task = replace(TASK, privacy=replace(TASK.privacy, epsilon_total=charged))
    site = site_of(stub())
    site.results._tasks[TASK.id.hex()] = replace(site.results.task(TASK.id.hex()), signed=SignedTask(task))
    words = " ".join(Browser(site).get(HERE).page.words.split())
    assert "no further round is counted" in words
    assert "left: 0." in words
    within = site.results.task(TASK.id.hex()).budget.within
    assert within < 4
    assert f"{within} of 4 rounds fit" in words


@pytest.mark.parametrize("number", range(3))
def test_a_round_shows_exactly_the_numbers_of_the_results(browser: Browser, number: int) -> None:
    seen = browser.get(f"{HERE}/round/{number}")
    assert seen.status == 200
    rows = [row for row in TABLE if row.round == number and not row.withheld]
    wanted = [value for row in rows for value in (row.estimate, row.standard_error, row.lower, row.upper)]
    found = seen.page.numbers
    assert sorted(value for value in wanted if value is not None) == sorted(found[: len(wanted)])
    ladder = stated(made_rounds()[number].certificate)["round_total"]["epsilon_upper"]
    assert ladder in found[len(wanted) :]


def test_a_withheld_query_says_why_and_has_no_number(browser: Browser) -> None:
    words = " ".join(browser.get(f"{HERE}/round/1").page.words.split())
    assert "Withheld: 60 of 120 reports are valid, fewer than the task's minimum_reports = 100" in words
    assert "60 valid reports of 120; left out: unopenable 60" in words


def test_hostile_names_are_shown_as_they_are_and_run_nothing(browser: Browser) -> None:
    for path in (f"{HERE}/round/0", f"{HERE}/series", f"{HERE}/compare"):
        page = browser.get(path).page
        assert all(name in page.words for name in HOSTILE)
        assert not page.elements & {"script", "b", "img", "iframe"}
        assert not [name for _, found in page.tags for name in found if name.startswith("on") or name == "style"]


def test_no_page_has_a_script_or_leads_elsewhere(browser: Browser) -> None:
    for path in ("/", HERE, f"{HERE}/round/0", f"{HERE}/series", f"{HERE}/compare", "/certificate", "/plan", "/x"):
        page = browser.get(path).page
        assert not page.elements & {"script", "img", "iframe", "object", "embed"}
        assert all(link.startswith(("/", "#")) for link in page.links), path
        assert {"http-equiv"}.isdisjoint(name for _, found in page.tags for name in found)
        assert [each["href"] for each in page.of("a", "skip")] == ["#content"]
        assert [each["id"] for each in page.of("main")] == ["content"]


def test_a_comparison_of_rounds_that_were_read_reads_nothing_again(
    browser: Browser, reader: StubReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_module, "MOST_TABLES", 1)
    browser.get(HERE)
    for name in ("read", "look"):
        monkeypatch.setattr(reader, name, None)
    assert browser.get(f"{HERE}/compare?a=0&b=1").page.numbers


def test_no_template_is_compiled_at_a_look(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser.site.templates, "compile", None)
    for path in ("/", HERE, f"{HERE}/round/0", f"{HERE}/series", f"{HERE}/compare", "/certificate", "/plan", "/x"):
        assert browser.get(path).status in (200, 404)


def test_a_series_has_every_round_and_its_gap(browser: Browser) -> None:
    page = browser.get(f"{HERE}/series?query=milk").page
    rows = [row for row in TABLE if row.query == "milk" and not row.withheld]
    wanted = [value for row in rows for value in (row.estimate, row.standard_error, row.lower, row.upper)]
    assert sorted(page.numbers) == sorted(value for value in wanted if value is not None)
    assert "withheld: 60 of 120 reports are valid" in page.words
    assert page.of("path", "cross")


def test_an_unknown_query_shows_the_first(browser: Browser) -> None:
    assert "drink over rounds" in browser.get(f"{HERE}/series?query=nothing").page.words


def test_a_comparison_is_that_of_the_results(browser: Browser) -> None:
    page = browser.get(f"{HERE}/compare?a=0&b=2").page
    wanted = TABLE.compare_all(TABLE.where(round=2).rows, TABLE.where(round=0).rows)
    assert page.numbers == [each.value for each in wanted]
    assert [each.standard_error for each in wanted if each.value == 0] == [0], "who answered a query is known"
    assert page.words.count("noise may be all of it") == sum(not each.significant for each in wanted) - 1
    newest = browser.get(f"{HERE}/compare").page
    assert "Round 2 less round 1" in newest.words


@pytest.mark.parametrize(("asked", "why"), [("a=0&b=9", "round 9"), ("a=x&b=0", "whole number"), ("a=0&b=0", "itself")])
def test_a_comparison_that_cannot_be_made_says_why(browser: Browser, asked: str, why: str) -> None:
    seen = browser.get(f"{HERE}/compare?{asked}")
    assert seen.status in (400, 404)
    assert why in seen.page.words


def test_files_have_what_the_results_have(browser: Browser, tmp_path: Path) -> None:
    table = pyarrow.csv.read_csv(io.BytesIO(browser.get(f"{HERE}/file/csv").content))
    again = pyarrow.parquet.read_table(io.BytesIO(browser.get(f"{HERE}/file/parquet").content))
    assert table.num_rows == again.num_rows == len(TABLE)
    assert again["estimate"].to_pylist() == [row.estimate for row in TABLE]
    one = browser.get(f"{HERE}/file/certificate?round=1")
    assert one.content == made_rounds()[1].certificate
    assert one.headers["content-disposition"].startswith("attachment; filename=")
    (tmp_path / "all.json").write_bytes(browser.get(f"{HERE}/file/results").content)
    saved = open_saved(tmp_path / "all.json", keys=KEYS).read()
    assert [row.estimate for row in saved] == [row.estimate for row in TABLE]
    (tmp_path / "all.json").write_bytes(browser.get(f"{HERE}/file/results?round=0").content)
    assert open_saved(tmp_path / "all.json", keys=KEYS).read().rounds == (0,)


def test_files_that_are_not_there_are_refused(browser: Browser) -> None:
    assert browser.get(f"{HERE}/file/pdf").status == 400
    assert browser.get(f"{HERE}/file/certificate").status == 400
    assert browser.get(f"{HERE}/file/csv?round=7").status == 404


def test_a_task_or_a_round_that_is_not_there_is_said_so(browser: Browser) -> None:
    beyond = (f"{HERE}/round/{digits}" for digits in ("9", "9" * 5000, "x", "-1", "²"))
    for path in ("/task/00", "/task/x/round/0", *beyond, "/task/%3Cscript%3E", "/nothing"):
        seen = browser.get(path)
        assert seen.status == 404
        assert "script" not in seen.page.elements


def test_a_round_is_verified_once_and_only_new_ones_later(reader: StubReader) -> None:
    browser = Browser(site_of(reader))
    last = reader.held.pop(2)
    for _ in range(2):
        browser.get(HERE)
        browser.get(f"{HERE}/round/0")
    assert sorted(reader.asked) == [0, 1]
    reader.held[2] = last
    assert "left: " in browser.get(HERE).page.words
    assert sorted(reader.asked) == [0, 1, 2]


def test_while_rounds_are_checked_pages_show_what_is_there(reader: StubReader) -> None:
    waiting = []
    browser = Browser(site_of(reader, start=waiting.append))
    words = browser.get(HERE).page.words
    assert "0 of 3 rounds are verified so far. Not checked yet: round 2." in words
    assert "2 rounds are not read yet" in words
    assert "what round 2 states of ε is shown as it came" in words
    assert words.count("not checked yet") == 3, "the list of rounds says so of each"
    assert reader.asked == [], "the page waits for no check"
    assert browser.get(f"{HERE}/file/csv").status == 502
    browser.get(f"{HERE}/series")
    assert len(waiting) == 1, "one thread checks a task's rounds"
    waiting.pop()()
    words = browser.get(HERE).page.words
    assert "rounds are verified so far" not in words
    assert "checked yet" not in words
    assert "states of ε is shown as it came" not in words


@pytest.mark.parametrize(
    ("held", "says"),
    [(2, "0 of 2 rounds are verified so far. Not checked yet: round 2. "), (1, "0 of 1 round is verified so far. ")],
)
def test_one_round_is_one(reader: StubReader, held: int, says: str) -> None:
    for number in range(3 - held):
        del reader.held[number]
    words = Browser(site_of(reader, start=lambda _: None)).get(HERE).page.words
    assert says in words
    assert ("1 round is not read yet" in words) is (held == 2)


@pytest.mark.parametrize("path", ["/round/0", "/round/1", "/series", "/series?query=milk", "/compare?a=0&b=2"])
def test_a_page_of_rounds_that_are_not_checked_says_so_until_they_are(reader: StubReader, path: str) -> None:
    waiting: list[Callable[[], None]] = []
    browser = Browser(site_of(reader, start=waiting.append))
    browser.get(f"{HERE}/round/0")
    browser.get(f"{HERE}/round/1")
    before = browser.get(HERE + path)
    assert "Not checked yet:" in before.page.words
    assert "Verified" not in before.page.words
    assert reader.asked == []
    waiting.pop()()
    after = browser.get(HERE + path)
    assert "Not checked yet" not in after.page.words
    assert set(before.page.numbers) <= set(after.page.numbers)
    assert before.page.numbers or "milk" in path


def test_a_page_waits_for_no_forecast_of_the_budget(reader: StubReader) -> None:
    waiting: list[Callable[[], None]] = []
    browser = Browser(site_of(reader, start=waiting.append))
    assert "How many rounds fit the budget is being computed" in browser.get(HERE).page.words
    waiting.pop()()
    words = browser.get(HERE).page.words
    assert "is being computed" not in words
    assert "of 4 rounds fit the budget" in words


def test_what_somebody_looks_at_is_checked_first(reader: StubReader) -> None:
    waiting: list[Callable[[], None]] = []
    browser = Browser(site_of(reader, start=waiting.append))
    for number in (1, 2, 0):
        browser.get(f"{HERE}/round/{number}")
    assert len(waiting) == 1
    waiting.pop()()
    assert reader.asked == [0, 2, 1]


def test_a_round_that_was_shown_and_turns_out_wrong_is_shown_no_more(reader: StubReader) -> None:
    waiting: list[Callable[[], None]] = []
    browser = Browser(site_of(reader, start=waiting.append))
    tell_a_lie(reader)
    seen = browser.get(f"{HERE}/round/0")
    assert (seen.status, "Not checked yet" in seen.page.words, 77777.0 in seen.page.numbers) == (200, True, True)
    waiting.pop()()
    for path in ("", "/series", "/round/0"):
        after = browser.get(HERE + path)
        assert "its results differ from its certificate" in after.page.words, path
        assert 77777.0 not in after.page.numbers
    assert browser.get(f"{HERE}/compare?a=0&b=2").status == 502


def test_a_saved_file_has_verified_rounds_alone(reader: StubReader) -> None:
    browser = Browser(site_of(reader, start=lambda _work: None))
    browser.get(f"{HERE}/round/1")
    assert reader.asked == []
    assert browser.get(f"{HERE}/file/certificate?round=1").content == made_rounds()[1].certificate
    assert reader.asked == [1], "who saves a round waits for its check"


def test_a_round_that_is_read_again_must_be_the_one_that_was_verified(
    reader: StubReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_module, "MOST_TABLES", 1)
    browser = Browser(site_of(reader))
    browser.get(HERE)
    assert browser.get(f"{HERE}/file/certificate?round=2").content == made_rounds()[2].certificate
    reader.held[2] = reader.held[1]
    assert browser.get(f"{HERE}/file/certificate?round=2").status == 200, "it is the last that was kept"
    browser.get(f"{HERE}/file/certificate?round=0")
    seen = browser.get(f"{HERE}/file/certificate?round=2")
    assert seen.status == 502
    assert "has another certificate than before" in seen.page.words


def test_few_parts_of_pages_and_few_whole_rounds_are_kept(reader: StubReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_task, "MOST_PARTS", 2)
    monkeypatch.setattr(checked_module, "MOST_TABLES", 2)
    browser = Browser(site_of(reader))
    for path in ("", "/round/0", "/round/1", "/round/2", "/series", "/compare?a=0&b=1", "/compare?a=0&b=2"):
        assert browser.get(HERE + path).status == 200
    assert len(browser.site.results.of(TASK.id.hex())._parts) == 2
    assert len(browser.site.results._tables) == 2


def tell_a_lie(reader: StubReader) -> None:
    """Have the reader answer with a false estimate of round 0."""
    (first, *others) = reader.held[0].queries
    assert first.estimates is not None
    row = first.estimates.rows[0]
    assert row.estimate is not None
    false = replace(row, estimate=replace(row.estimate, value=77777.0))
    lied = replace(first, estimates=replace(first.estimates, rows=(false, *first.estimates.rows[1:])))
    reader.held[0] = RoundResults(reader.held[0].id, (lied, *others), reader.held[0].certificate)


def test_a_round_that_differs_from_its_certificate_is_not_shown(reader: StubReader) -> None:
    tell_a_lie(reader)
    browser = Browser(site_of(reader))
    assert "its results differ from its certificate" in browser.get(HERE).page.words
    shown = browser.get(f"{HERE}/round/0")
    assert shown.status == 502
    series = browser.get(f"{HERE}/series")
    assert "77,777" not in series.text
    assert "round 0: " in series.page.words, "a gap without a word would be taken for a round that is not there"
    assert "2 of 3 rounds:" in browser.get(HERE).page.words
    assert "2-of-3-rounds.csv" in browser.get(f"{HERE}/file/csv").headers["content-disposition"]


def test_the_list_of_rounds_is_that_of_now(reader: StubReader) -> None:
    waiting, last = [], reader.held.pop(2)
    browser = Browser(site_of(reader, start=waiting.append))
    assert browser.get(HERE).page.words.count("not checked yet") == 2
    reader.held[2] = last
    browser.get(f"{HERE}/series")
    assert f"{HERE}/round/2" in browser.get(HERE).page.links
    reader.down = HubbubError("round 0 is gone")
    waiting.pop(0)()
    reader.down = None
    words = browser.get(HERE).page.words
    assert "round 0: round 0 is gone" in words
    assert words.count("not checked yet") == 0
    assert words.count("not shown") == 4, "in the list, and why"


def test_while_the_services_are_down_what_is_known_is_shown(browser: Browser, reader: StubReader) -> None:
    before = browser.get(f"{HERE}/round/0")
    browser.get(HERE)
    reader.down = Unreachable("the analyzer at 127.0.0.1:1 does not answer <b>")
    for path in ("/", HERE, f"{HERE}/series", f"{HERE}/compare"):
        seen = browser.get(path)
        assert seen.status == 200
        assert "What follows may be old. the analyzer at 127.0.0.1:1 does not answer <b>" in " ".join(
            seen.page.words.split()
        )
    assert plain_text(browser.get(f"{HERE}/round/0").text) == plain_text(before.text)


def test_services_that_were_never_reached_are_said_so(browser: Browser, reader: StubReader) -> None:
    reader.down = Unreachable("the analyzer does not answer")
    assert "No task is known." in browser.get("/").page.words
    assert browser.get(HERE).status == 503


def test_signatures_that_do_not_hold_are_said_so(reader: StubReader) -> None:
    reader.signed = SignedTask(TASK).signed_by(PARTIES.operator)
    browser = Browser(site_of(reader))
    assert "do not hold" in browser.get("/").page.words
    assert f"the shuffler {HAS_NOT_SIGNED_TASK}" in browser.get(HERE).page.words


def test_without_known_keys_pages_say_so(reader: StubReader) -> None:
    assert "no: compare it" in Browser(site_of(reader, Pins())).get(HERE).page.words
    assert "no: compare it" not in Browser(site_of(reader)).get(HERE).page.words


@pytest.mark.parametrize("name", ["operator", "shuffler", "analyzer", "hop-2"])
def test_a_key_that_is_not_the_known_one_is_never_called_known(name: str) -> None:
    known = Pins(KEYS.operator, KEYS.shuffler, KEYS.analyzer, (bytes(32),))
    other = PARTIES.operator.public if name != "operator" else PARTIES.analyzer.public
    pins = replace(known, hops=(other,)) if name == "hop-2" else replace(known, **{name: other})
    task = replace(TASK, identities=replace(TASK.identities, hops=(bytes(32),)))
    signed_task = SignedTask(task).signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)
    assert ShownTask.of(signed_task, known).strangers == []
    shown = ShownTask.of(signed_task, pins)
    assert (shown.strangers, shown.unsigned) == ([name], None)
    assert [same for party, _, same in shown.parties if party == name] == [False]


def test_a_task_by_other_keys_is_said_so_on_every_page_about_it(reader: StubReader) -> None:
    browser = Browser(site_of(reader, replace(KEYS, operator=PARTIES.analyzer.public)))
    assert "by other keys than are known here" in browser.get("/").page.words
    words = browser.get(HERE).page.words
    assert "Other keys are known here of operator." in words
    assert words.count("no: another key is known here") == 1


def test_rounds_whose_signers_are_not_known_are_said_so_on_every_page_about_them(reader: StubReader) -> None:
    browser = Browser(site_of(reader, Pins()))
    browser.get(HERE)
    unknown, of_task = Trust(True, ("operator",)), browser.site.results.of(TASK.id.hex())
    of_task.rounds = {number: replace(each, trust=unknown) for number, each in of_task.rounds.items()}
    for table in browser.site.results._tables.values():
        table.trust = unknown
    for path in (HERE, f"{HERE}/round/0", f"{HERE}/series", f"{HERE}/compare"):
        assert "NOT PINNED: the keys of operator" in browser.get(path).page.words, path
    assert "by keys that are not known here" in browser.get("/").page.words


@pytest.mark.parametrize(
    "down", [Unreachable("the analyzer does not answer"), Refusal(Reason.NOT_READY, "its database is away", 1.0)]
)
def test_rounds_that_could_not_be_asked_for_are_checked_later(reader: StubReader, down: HubbubError) -> None:
    """A service that starts again says nothing about its rounds."""
    waiting: list[Callable[[], None]] = []
    browser = Browser(site_of(reader, start=waiting.append))
    browser.get(HERE)
    reader.down = down
    assert browser.get(f"{HERE}/round/1").status == 503
    waiting.pop()()
    reader.down = None
    assert "0 of 3 rounds are verified so far" in browser.get(HERE).page.words
    waiting.pop()()
    assert "not shown" not in browser.get(HERE).page.words
    assert sorted(reader.asked) == [0, 1, 2]


def test_a_round_beyond_the_task_is_refused(reader: StubReader) -> None:
    beyond = RoundId(TASK.id, TASK.name, 10**15)
    reader.rounds = lambda _task=None: (beyond,)  # type: ignore[method-assign,assignment]
    seen = Browser(site_of(reader)).get(HERE)
    assert seen.status == 200
    assert "but the task ends with round 3" in seen.page.words


def test_tasks_of_one_name_are_told_apart(reader: StubReader) -> None:
    browser, twin = Browser(site_of(reader)), "ab" * 32
    digits = TASK.id.hex()[:12]
    assert digits not in browser.get("/").page.words
    browser.site.results._tasks[twin] = browser.site.results.task(TASK.id.hex())
    reader.down = Unreachable("down")
    words = browser.get("/").page.words
    assert digits in words
    assert twin[:12] in words


def test_a_part_that_a_new_round_overtook_is_not_kept(reader: StubReader) -> None:
    last, whole = reader.held.pop(2), CheckedResults(reader, KEYS, at_once)
    of_task = whole.check_all(TASK.id.hex())

    def overtaken() -> Markup:
        seen = len(of_task.rounds)
        reader.held[2] = last
        whole.check_all(TASK.id.hex())
        return escape(seen)

    assert of_task.part("key", overtaken) == Markup("2")
    assert of_task.part("key", lambda: escape(len(of_task.rounds))) == Markup("3")


def test_a_desk_keeps_parts_of_pages_until_a_round_is_new(reader: StubReader) -> None:
    last, whole = reader.held.pop(2), CheckedResults(reader, KEYS, at_once)
    made = []

    def make() -> Markup:
        made.append(1)
        return Markup("")

    for _ in range(2):
        whole.check_all(TASK.id.hex()).part("key", make)
    reader.held[2] = last
    whole.check_all(TASK.id.hex()).part("key", make)
    assert len(made) == 2


@pytest.mark.parametrize(("asked", "words"), [("", ("--all",)), ("?round=1", ("--round", "1"))])
def test_the_report_is_that_of_the_command_but_for_the_time(
    browser: Browser, tmp_path: Path, asked: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "all.json").write_bytes(browser.get(f"{HERE}/file/results").content)
    for role in ("operator", "shuffler", "analyzer"):
        getattr(PARTIES, role).save_public(tmp_path / f"{role}.pub.pem")
    out = tmp_path / "report.html"
    ran = hubbub_here("report", tmp_path / "all.json", "--keys", tmp_path, *words, "--out", out)
    assert (ran.status, ran.err) == (0, "")
    link = f"{HERE}/file/report{asked}"
    assert link in browser.get(f"{HERE}/round/1" if asked else HERE).page.links
    seen = browser.get(link)
    assert re.search(r'^attachment; filename="drinks-.*\.report\.html"$', seen.headers["content-disposition"])
    assert TIME.sub("", seen.text) == TIME.sub("", out.read_text())
    assert "Verified: signatures" in seen.page.words


@pytest.mark.parametrize(
    ("path", "marked"),
    [
        ("/", ("Tasks", "page")),
        ("TASK", ("Tasks", "true")),
        ("TASK/round/0", ("Tasks", "true")),
        ("TASK/series", ("Tasks", "true")),
        ("TASK/compare", ("Tasks", "true")),
        ("/services", ("Services", "page")),
        ("/certificate", ("Check a certificate", "page")),
        ("/plan", ("Plan", "page")),
        ("/nothing", None),
    ],
)
def test_the_navigation_marks_the_page_or_the_part_that_it_is_in(
    browser: Browser, path: str, marked: tuple[str, str] | None
) -> None:
    text = browser.get(path.replace("TASK", HERE)).text
    found = re.findall(r'<a href="[^"]*" aria-current="(\w+)">([^<]*)</a>', text)
    assert found == ([] if marked is None else [marked[::-1]])
