"""Every number that a page shows in a real browser is one of `hubbub.results`, a certificate or a control port."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pytest

from browser.addresses import CERTIFICATE, HERE, PLACES
from browser.conftest import Entered, Lying
from hubbub.accountant.certificate.ladder import ladders
from hubbub.deploy.operator.client import fetch_overview
from hubbub.deploy.pki.expiry import expiries
from hubbub.deploy.settings import OperatorSettings
from hubbub.pages.dashboard.views.planner import LATER, SIZES, PlannedQuestion
from hubbub.planning.by_error import USUAL_EPSILONS
from hubbub.planning.plan import plan
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.task.delta_warnings import delta_warning
from hubbub.protos.task.draft import read_draft
from hubbub.results import PublishedRow, ResultsTable, Trust
from hubbub.service.settings import load
from hubbub.verification.certificate import stated
from support.chromium import Tab
from support.dashboard import TASK, made_rounds
from support.shown_sites import charged

TABLE = ResultsTable(made_rounds(), Trust(True))

# What people see, without the scales of pictures and what is not chosen; the exact value behind each number with its
# words; and the digits of keys, ids and digests.
SHOWN = """() => {
  const found = [], nodes = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const node = nodes.currentNode, range = document.createRange();
    range.selectNodeContents(node);
    const unseen = node.parentElement.closest("title, desc, code, svg text.quiet, option:not(:checked)");
    if (!unseen && (node.parentElement.closest("option") || range.getClientRects().length)) found.push(node.data);
  }
  const behind = [...document.querySelectorAll("data")].map(each => [Number(each.value), each.innerText]);
  const codes = [...document.querySelectorAll("main code")].map(each => each.innerText);
  return [found.join(" "), behind, codes];
}"""

NUMBER = re.compile(r"(?<![\w.,])[-−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w]|\.\d)")
TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\dZ)?)?")


def agrees(text: str, exact: float) -> bool:
    """Whether a number as people read it is the exact one, to its last digit."""
    digits, _, power = text.replace(",", "").replace("−", "-").partition("e")
    whole, _, decimals = digits.partition(".")
    least = 10.0 ** (int(power or 0) - len(decimals))
    if not decimals and not power:
        least *= 10 ** (len(whole) - len(whole.rstrip("0"))) if whole.strip("-0") else 1
    return abs(float(f"{digits}e{power or 0}") - exact) <= least * 0.5000001


@dataclass
class Known:
    """What a page may say: numbers with an exact value behind them, others, and texts that have numbers."""

    exact: Sequence[float] = ()
    others: Sequence[float] = ()
    texts: Sequence[str] = ()
    times: set[str] = field(default_factory=set)
    codes: Sequence[str] = ()


def numbers_of(rows: Iterable[PublishedRow]) -> list[float]:
    every = (value for row in rows for value in (row.estimate, row.standard_error, row.lower, row.upper))
    return [value for value in every if value is not None]


def rungs(certificate: bytes) -> list[float]:
    return [rung.epsilon for each in ladders(stated(certificate)) if each.query is None for rung in each.rungs]


def at(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def span(number: int) -> set[str]:
    return {at(TASK.schedule.opens(number)), at(TASK.schedule.ends(number))}


LABELS = [row.label for row in TABLE if not row.withheld]
REASONS = sorted({row.reason for row in TABLE if row.withheld}, key=len, reverse=True)
COUNTED = [float(each) for row in TABLE for each in (row.valid, row.reports) if each is not None]
LEFT_OUT = [60.0, 10.0]
FINGERPRINTS = [fingerprint(key) for key in TASK.identities.named.values()]
PERCENT = (95.0, 20.0)
"""Of 95 % intervals, of which one in 20 misses the truth."""


def a_round(number: int) -> Known:
    rows = [row for row in TABLE if row.round == number and not row.withheld]
    certificate = made_rounds()[number].certificate
    delta = stated(certificate)["delta"]
    others = [*PERCENT, number, number - 1, number + 1, delta, *COUNTED, *LEFT_OUT, *numbers_of(rows)]
    texts = [*LABELS, *REASONS, "SHA-256"]
    return Known(
        [*numbers_of(rows), *rungs(certificate)], others, texts, span(number), [sha256(certificate).hexdigest()]
    )


def a_series(query: str) -> Known:
    rows = [row for row in TABLE if row.query == query]
    times = {f"{row.round_begins:%Y-%m-%d %H:%M}" for row in rows}
    return Known(numbers_of(rows), [0, 1, 2, 3, 95], [*LABELS, *REASONS], times)


def a_comparison() -> Known:
    found = TABLE.compare_all(TABLE.where(round=2).rows, TABLE.where(round=0).rows)
    ends = [end for each in found for end in (each.simultaneous_lower, each.simultaneous_upper)]
    errors = [each.standard_error for each in found if each.standard_error is not None]
    return Known([each.value for each in found], [0, 2, 95, *ends, *errors], LABELS)


def a_task(whole: float | None = None) -> Known:
    # The budget of the task, unless it is a smaller one; what is spent is said before and after the whole.
    whole = whole or 30.0
    left = max(whole - charged(), 0.0)
    times = {time for number in range(4) for time in span(number)}
    task = replace(TASK, privacy=replace(TASK.privacy, epsilon_total=whole))
    return Known([charged(), whole, left], [100, *range(5)], LABELS, times, [*FINGERPRINTS, task.id.hex()])


def a_certificate() -> Known:
    content = stated(CERTIFICATE)
    keys = " ".join(f"--{role}-key {role}.pub.pem" for role in ("operator", "shuffler", "analyzer"))
    codes = ["certificate.json", *FINGERPRINTS, TASK.id.hex(), f"hubbub verify certificate.json {keys}"]
    codes += ["npm ci && npm run build", "clients/typescript", "dist/verify/index.html", "--verifier"]
    warning = delta_warning(TASK)
    assert warning is not None
    return Known(rungs(CERTIFICATE), [1, 16, content["delta"], 120, 60], [warning], codes=codes)


def a_plan() -> Known:
    asked = PlannedQuestion(categories=3, people=1000, noise="none")

    def planned(**changes: Any) -> Any:
        other = PlannedQuestion(**{**vars(asked), **changes})
        return plan(read_draft(other.draft(LATER))).queries[0]

    own = planned()
    sizes = [round(1000 * each) for each in SIZES]
    curves = [planned(epsilon=each) for each in USUAL_EPSILONS] + [planned(people=each) for each in sizes]
    exact = [own.expected_error, own.half_width, *(each.expected_error for each in curves)]
    others = [*USUAL_EPSILONS, *sizes, own.epsilon_upper, own.epsilon_local, 95, 100]
    return Known(exact, others, codes=["hubbub plan"])


EXPECTED: dict[str, Callable[[], Known]] = {
    "tasks": Known,
    "task": a_task,
    "round": lambda: a_round(0),
    "withheld": lambda: a_round(1),
    "series": lambda: a_series("drink"),
    "series with a gap": lambda: a_series("milk"),
    "compare": a_comparison,
    "spent": lambda: a_task(charged()),
    "down task": a_task,
    "valid": a_certificate,
    "planned": a_plan,
}


async def assert_known(tab: Tab, known: Known) -> str:
    """Fail unless every number of a page is known, and every number that has to be there is; return its words."""
    words, behind, codes = await tab.page.evaluate(SHOWN)
    assert Counter(value for value, _ in behind) == Counter(map(float, known.exact))
    assert [(value, text) for value, text in behind if not agrees(text, value)] == []
    assert codes == list(known.codes)
    left, times = words, set(TIME.findall(words))
    assert {each for each in times if not any(wanted.startswith(each) for wanted in known.times)} == set()
    for text in sorted(known.texts, key=len, reverse=True):
        left = left.replace(text, " ")
    left = TIME.sub(" ", left)
    every = [*known.exact, *known.others]
    assert [each for each in NUMBER.findall(left) if not any(agrees(each, number) for number in every)] == []
    return words


@pytest.mark.parametrize("name", EXPECTED)
async def test_every_number_is_that_of_the_api(started: Any, entered: Entered, name: str) -> None:
    async with entered(PLACES[name].site) as tab:
        await PLACES[name].reach(tab)
        words = await assert_known(tab, EXPECTED[name]())
        if name == "withheld":
            assert "Withheld: 60 of 120 reports are valid" in words
        if name == "spent":
            assert "no further round is counted" in words
        if name == "down task":
            assert "What follows may be old." in words


@pytest.mark.parametrize("who", ["reader", "operator"])
async def test_the_services_page_has_what_both_control_ports_answer(
    started: Any, entered: Entered, answers: Lying, deployment: Any, who: str
) -> None:
    settings = load(deployment / who / f"{who}.toml", OperatorSettings, "operator")
    seen = await fetch_overview(settings)
    assert not seen.errors
    assert seen.shuffler
    assert seen.analyzer
    task, now = (await answers.get_task()).task, time.time()
    others: list[float] = [1234, 56, task.maximum_reports]
    for each in seen.shuffler:
        others += [each.round, each.submissions, each.minimum_reports, *each.refusals.values()]
    for status in seen.analyzer:
        others += [status.id.round, *(n for q in status.queries for n in (q.valid, q.reports, *q.left_out.values()))]
    for report in seen.incidents.values():
        others += [report.log_lines_lost, *(incident.count for incident in report.incidents)]
    certificates = expiries(settings.tls.paths(), {}, now)
    others += [round(each.days_left(now)) for each in certificates]
    since = {at(incident.since) for report in seen.incidents.values() for incident in report.incidents}
    today = {at(now)[:11], at(now + 86400)[:11]}
    async with entered(who) as tab:
        await tab.open("/services")
        words, _, _ = await tab.page.evaluate(SHOWN)
        texts = [settings.shuffler_control, settings.analyzer_results, *(each.where for each in certificates)]
        asked = re.findall(r"As of (\S+);", words)
        assert len(asked) == 1
        until = set(re.findall(r"\d{4}-\d\d-\d\d(?= +\d+)", " ".join(words.split())))
        assert {f"{each.not_after:%Y-%m-%d}" for each in certificates} <= until
        assert any(asked[0].startswith(day[:10]) for day in today)
        await assert_known(tab, Known([], others, texts, {*since, asked[0], *until}))
        rows = await tab.page.locator("[aria-label='Rounds at the shuffler'] tbody tr").all_inner_texts()
        cells = rows[0].split("\t")
        assert cells[1:5] == ["0", "open", "41", "20"]
        assert cells[6] == "<i> 1, too_late 7"


ROUND_PICTURE = """chart => {
  const middle = each => { const box = each.getBoundingClientRect(); return box.left + box.width / 2; };
  return {
    marks: [...chart.querySelectorAll("path.axis, path.zero")].map(middle),
    scale: [...chart.querySelectorAll("text.quiet")].map(each => Number(each.textContent.replaceAll(",", ""))),
    dots: [...chart.querySelectorAll("circle")].map(middle),
    bars: [...chart.querySelectorAll("path.error")].map(each => each.getBoundingClientRect())
      .map(box => [box.left, box.right]),
  };
}"""


async def test_a_picture_has_its_dots_and_bars_where_the_numbers_are(started: Any, entered: Entered) -> None:
    rows = [row for row in TABLE.where(round=0, query="drink") if row.statistic == "count"]
    async with entered("drinks") as tab:
        await tab.open(f"{HERE}/round/0")
        drawn = await tab.page.locator("svg.chart").first.evaluate(ROUND_PICTURE)
    (first, *_, last), (low, *_, high) = drawn["marks"], drawn["scale"]
    pixel = (high - low) / (last - first)

    def value(place: float) -> float:
        return low + (place - first) * pixel

    assert [value(each) for each in drawn["dots"]] == pytest.approx([row.estimate for row in rows], abs=pixel)
    ends = [value(end) for bar in drawn["bars"] for end in bar]
    assert ends == pytest.approx([end for row in rows for end in (row.lower, row.upper)], abs=3 * pixel)


@pytest.mark.parametrize(
    ("text", "exact", "same"),
    [
        *(("25.4", 25.44, True), ("25.4", 25.46, False), ("1,234", 1234.4, True), ("1,234", 1235.0, False)),
        *(("−3", -3.2, True), ("3", -3.2, False), ("1e-06", 1e-6, True), ("12,300", 12345.0, True)),
        *(("0", 0.4, True), ("0", 7.0, False), ("7.57", 7.574, True), ("7.57", 7.58, False)),
    ],
)
def test_a_number_that_people_read_is_compared_to_its_last_digit(text: str, exact: float, same: bool) -> None:
    assert agrees(text, exact) == same
