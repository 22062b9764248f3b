"""docs/howto/operate.md says what there is: every setting, metric, reason and command, no more and no fewer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticUndefined
from unit.analyzer.test_server import Deployment as AnalyzerDeployment
from unit.shuffler.hop.test_server import Deployment as HopDeployment
from unit.shuffler.test_server import Deployment as ShufflerDeployment
from unit.shuffler.test_server import running

from hubbub.analyzer import settings as analyzer_settings
from hubbub.analyzer.opening import LeftOut
from hubbub.cli.main import COMMANDS
from hubbub.deploy.settings import ClientSettings, OperatorSettings
from hubbub.protos.messages import RoundState
from hubbub.protos.records.results import AnalysisStage
from hubbub.protos.refusals import TRANSIENT, Reason, Refusal
from hubbub.protos.task.task import Privacy
from hubbub.service.settings import SettingsTable, setting_names
from hubbub.shuffler import settings as shuffler_settings
from hubbub.shuffler.hop import settings as hop_settings
from support.metrics_scrape import Scraped, scrape
from support.samples import sample_task, signed

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "howto" / "operate.md").read_text()
SETTINGS: dict[str, type[SettingsTable]] = {
    "shuffler": shuffler_settings.ShufflerSettings,
    "hop": hop_settings.HopSettings,
    "analyzer": analyzer_settings.AnalyzerSettings,
    "operator": OperatorSettings,
    "client": ClientSettings,
}
CAPPED = Privacy(epsilon=10.0, delta=5e-3, epsilon_local=20.0, epsilon_total=40.0)


def section(heading: str) -> str:
    """The text under a heading, up to the next one of its level or above."""
    match = re.search(rf"(?m)^(#+) {re.escape(heading)}$", TEXT)
    assert match, heading
    rest = TEXT[match.end() :]
    following = re.search(rf"(?m)^#{{1,{len(match[1])}}} ", rest)
    return rest[: following.start()] if following else rest


def rows(text: str) -> Iterator[list[str]]:
    """The rows of a text's tables whose first cell is code, as cells."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and re.fullmatch(r"`[^`]+`", cells[0]):
            yield [cells[0].strip("`"), *cells[1:]]


def default_of(kind: type[SettingsTable], name: str) -> str:
    """A setting's default as the page has it."""
    place, _, last = name.rpartition(".")
    if place:
        inner: Any = kind.model_fields[place].annotation
        return default_of(inner, last)
    default = kind.model_fields[last].default
    if default is PydanticUndefined:
        return "required"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_and_their_defaults_are_those_of_the_code(name: str) -> None:
    documented = list(rows(section(f"Settings of the {name}")))
    assert [cells[0] for cells in documented] == list(dict.fromkeys(cells[0] for cells in documented))
    assert {cells[0] for cells in documented} == set(setting_names(SETTINGS[name]))
    assert {cells[0]: cells[1] for cells in documented} == {
        cells[0]: default_of(SETTINGS[name], cells[0]) for cells in documented
    }
    assert all(cells[2] for cells in documented)


def test_every_reason_is_documented_with_what_to_do() -> None:
    documented = {cells[0]: cells[1:] for cells in rows(section("Refusals")) if len(cells) == 5}
    assert set(documented) == {reason.value for reason in Reason}
    assert all(all(cells) for cells in documented.values())
    retried = {name for name, cells in documented.items() if cells[2] == "yes"}
    assert retried == {reason.value for reason in TRANSIENT}
    left_out = {cells[0] for cells in rows(section("Refusals")) if len(cells) == 2}
    assert left_out == {reason.value for reason in LeftOut}


def documented_metrics(heading: str) -> dict[str, set[str]]:
    found = {cells[0]: {label.strip() for label in cells[1].split(",")} - {""} for cells in rows(section(heading))}
    assert found
    return found


def shown_metrics(scraped: Scraped, prefix: str) -> dict[str, set[str]]:
    """What a port shows: each metric as Prometheus users name it, with its labels."""
    found: dict[str, set[str]] = {}
    for family in scraped.families.values():
        if not family.name.startswith(prefix):
            continue
        name = {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(family.type, family.name)
        found[name] = {label for sample in family.samples for label in sample.labels}
        assert family.samples, f"{name} shows nothing to compare labels with"
    return found


async def scraped_shuffler(folder: Path) -> Scraped:
    deployment = ShufflerDeployment(folder)
    deployment.write(signed(replace(deployment.task, privacy=CAPPED), deployment.parties))
    settings = deployment.settings("127.0.0.1:1").model_copy(update={"metrics_listen": "127.0.0.1:0"})
    async with running(settings) as addresses:
        while (scraped := await scrape(addresses["metrics"])).total("hubbub_shuffler_rounds") == 0:
            pass
        return scraped


async def scraped_analyzer(folder: Path) -> Scraped:
    deployment = AnalyzerDeployment.make(folder)
    task = sample_task(deployment.parties, minimum_reports=20, privacy=CAPPED)
    (folder / "tasks" / "flights.json").write_bytes(signed(task, deployment.parties).encode())
    deployment.settings = deployment.settings.model_copy(update={"metrics_listen": "127.0.0.1:0"})
    async with deployment.running() as addresses:
        return await scrape(addresses["metrics"])


async def scraped_hop(folder: Path) -> Scraped:
    deployment = HopDeployment(folder)
    async with deployment.running() as addresses:
        with pytest.raises(Refusal, match="no task"):
            await deployment.get_key(addresses["delivery"], bytes(32))
        return await scrape(addresses["metrics"])


@pytest.mark.parametrize("name", ["shuffler", "hop", "analyzer"])
async def test_metrics_and_their_labels_are_those_that_are_exported(name: str, tmp_path: Path) -> None:
    scraping = {"shuffler": scraped_shuffler, "hop": scraped_hop, "analyzer": scraped_analyzer}
    scraped = await scraping[name](tmp_path)
    assert shown_metrics(scraped, "hubbub_") == documented_metrics(f"Metrics of the {name}")
    assert shown_metrics(scraped, "process_") == documented_metrics("Metrics of every process")
    assert len(scraped.families) == len(shown_metrics(scraped, ""))


def test_every_metric_that_is_named_anywhere_is_documented() -> None:
    services = ("shuffler", "hop", "analyzer")
    known = {name for each in services for name in documented_metrics(f"Metrics of the {each}")}
    named = set(re.findall(r"hubbub_(?:shuffler|hop|analyzer)_[a-z_]+", TEXT))
    assert named == known


def test_every_state_is_named() -> None:
    named = set(re.findall(r"\b[A-Z]{3,}\b", section("Looking")))
    assert {state.value.upper() for state in (*RoundState, *AnalysisStage)} <= named


def test_every_event_that_is_documented_is_logged() -> None:
    folders = ("shuffler", "analyzer", "protos", "service")
    source = "".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    firsts = re.findall(r"(?m)^\| (`.*?) \|", section("What is logged"))
    events = [event for cell in firsts for event in re.findall("`([^`]+)`", cell)]
    assert len(events) > 10
    assert [event for event in events if f'"{event}' not in source] == []


def test_every_command_and_file_on_the_page_exists() -> None:
    assert set(re.findall(r"`hubbub ([a-z]+)", TEXT)) <= set(COMMANDS)
    for target in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (ROOT / "docs" / "howto" / target).is_file(), target


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings make."""
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_place_that_is_pointed_to_exists() -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", TEXT):
        page = (ROOT / "docs" / "howto" / target).read_text() if target else TEXT
        assert anchor in anchors(page), anchor


def events_logged() -> Iterator[str]:
    """The events that services log: the text that a line begins with, or what an incident is logged as."""
    for path in (each for folder in ("analyzer", "shuffler", "service") for each in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            place = {"info": 0, "warning": 0, "error": 0, "meet": 2}.get(node.func.attr)
            if place is not None and len(node.args) > place:
                # An event may be one of two, by a condition.
                given = node.args[place]
                either = (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,)
                yield from (each.value for each in either if isinstance(each, ast.Constant))


def test_every_event_that_is_logged_is_explained() -> None:
    explained = set(re.findall("`([^`]+)`", section("What is logged")))
    assert {event.removesuffix(": %s") for event in events_logged()} <= explained
