"""Dashboards to look at in a real browser: usual rounds, names that attack pages, a spent budget, services that act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from hubbub.pages.dashboard.access import Access
from hubbub.pages.dashboard.checked_results import CheckedResults
from hubbub.pages.dashboard.site import Site
from hubbub.pages.dashboard.sources import opened
from hubbub.protos.errors import Unreachable
from hubbub.protos.records.results import RoundResults
from hubbub.protos.task.about import About
from hubbub.protos.task.signed_task import SignedTask
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import stated
from support.dashboard import PARTIES, TASK, MadeUp, StubReader, at_once, made_rounds, site_of, stub
from support.krr_queries import krr_query
from support.samples import changed, signed

DIRECTED = "\u202egnp.exe\u2066<b>"
"""A text that turns the direction of what follows; only a service that lies can have it shown."""

NAMES = (
    "</title><script>document.title = 'run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "שלום 123 עולם",
    "👩‍👩‍👧 می‌خواهم",
    "W" * 200,
)
"""Categories that a task may have: markup, right to left, joiners, and as long as a name can be."""

ATTACKED = changed(
    replace(
        TASK,
        name="n" * 63,
        queries=(
            krr_query(Histogram("<b>'\"&", NAMES), 2**29),
            krr_query(Histogram("Ω" * 63, ("yes", "no")), 2**29),
        ),
    ),
    about=About("o" * 500, "https://example.org/" + "p" * 480, "r" * 500, ()),
)


@cache
def attacked_rounds() -> tuple[RoundResults, ...]:
    """Two rounds of the task with such names."""
    return MadeUp(ATTACKED, ((120, 120), (120, 60))).rounds()


def charged() -> float:
    """ε that the rounds of `TASK` cost, as the budget charges them."""
    content = stated(made_rounds()[-1].certificate)["all_rounds"]
    return float(content["epsilon_upper_at_minimum"] or content["epsilon_upper"])


def attacked() -> Site:
    """Return the dashboard of names that attack pages."""
    return site_of(StubReader(attacked_rounds(), signed(ATTACKED, PARTIES)))


def spent() -> Site:
    """Return the dashboard of a task whose budget is spent."""
    site = site_of(stub())
    task = replace(TASK, privacy=replace(TASK.privacy, epsilon_total=charged()))
    known = site.results.task(TASK.id.hex())
    site.results._tasks[TASK.id.hex()] = replace(known, signed=SignedTask(task))
    return site


def down() -> Site:
    """Return the dashboard of services that answered before, and do not any more."""
    reader = stub()
    site = site_of(reader)
    site.results.check_all(TASK.id.hex())
    reader.down = Unreachable(f"the analyzer at 127.0.0.1:1 does not answer {DIRECTED}")
    return site


def of_services(root: Path, who: str) -> Site:
    """Return the dashboard of the services of a deployment's settings, a reader's or the operator's."""
    found = opened([root / who / f"{who}.toml"], None)
    results = CheckedResults(found.reader, found.pins, at_once)
    return Site(results, Access.at("127.0.0.1", 8737), found.source, found.services, found.acts)


MADE: Mapping[str, Callable[[], Site]] = {
    "drinks": lambda: site_of(stub()),
    "attacked": attacked,
    "spent": spent,
    "down": down,
}
"""The dashboards that ask no service, by name."""
