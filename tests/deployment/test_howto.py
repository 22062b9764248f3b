"""What the pages of docs/howto show is there: commands and options, settings, names in backticks."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hubbub.analyzer import settings as analyzer_settings
from hubbub.cli.main import COMMANDS
from hubbub.client import read_settings
from hubbub.client.settings import SETTINGS as CLIENT_SETTINGS
from hubbub.deploy.init.cluster import Cluster
from hubbub.deploy.init.folders import Folder, Placement, initialize
from hubbub.deploy.init.hops import Hops
from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import RoundState
from hubbub.protos.records.results import AnalysisStage
from hubbub.protos.task.draft import read_draft
from hubbub.service.observability.incidents import IncidentKind
from hubbub.service.settings import load, setting_names
from hubbub.shuffler import settings as shuffler_settings
from hubbub.shuffler.hop import settings as hop_settings
from support.commands import misunderstood
from support.deployment_files import commands_of_line
from support.howto_pages import HOWTO, Part, blocks, code, lines, pages
from support.source_tree import FOLDERS, ROOT

PAGES = pages()
NAMES = [page.name for page in PAGES]

KINDS = (
    shuffler_settings.ShufflerSettings,
    shuffler_settings.FrontendSettings,
    hop_settings.HopSettings,
    analyzer_settings.AnalyzerSettings,
    OperatorSettings,
)
SETTINGS = {name for kind in KINDS for name in setting_names(kind)} | CLIENT_SETTINGS.keys()
TABLES = {name.partition(".")[0] for name in SETTINGS if "." in name}
TASK_KEYS = set(re.findall(r"(?m)^(?:# )?(\w+) = ", (ROOT / "deploy" / "samples" / "task.toml").read_text()))


def wrong(found: list[tuple[Part, str]]) -> str:
    """What is wrong, a line each, with page and line."""
    return "".join(f"\n{part}: {message}" for part, message in found)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_with_its_options_is_one_that_there_is(page: Path) -> None:
    shown = [(line, words) for block in blocks(page, "sh") for line in lines(block) for words in taken(line)]
    assert not (found := [(line, reason) for line, words in shown if (reason := misunderstood(words))]), wrong(found)


def taken(line: Part) -> list[list[str]]:
    """The commands of hubbub in a line of shell; of a here-document and the like, none."""
    try:
        return list(commands_of_line(line.text))
    except ValueError:  # a quotation over several lines
        return []


# Settings


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return initialize(tmp_path_factory.mktemp("made") / "deployment", Placement(hops=Hops(2)))


@pytest.fixture(scope="module")
def readers(deployment: Folder, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Path, Any]]:
    """The file that each reader reads, with the reader."""
    cluster = initialize(tmp_path_factory.mktemp("made") / "cluster", Placement(cluster=Cluster(1)))
    return {
        "shuffler": (deployment.of("shuffler") / "shuffler.toml", shuffler_settings.load),
        "leader": (cluster.of("shuffler") / "shuffler.toml", shuffler_settings.load),
        "front end": (cluster.of("frontend-1") / "frontend.toml", shuffler_settings.load_frontend),
        "hop": (deployment.of("hop-2") / "hop.toml", hop_settings.load),
        "analyzer": (deployment.of("analyzer") / "analyzer.toml", analyzer_settings.load),
        "operator": (
            deployment.of("operator") / "operator.toml",
            lambda path: load(path, OperatorSettings, "operator"),
        ),
        "client": (deployment.of("client") / "client.toml", lambda path: read_settings(path, {})),
        "task": (deployment.of("operator") / "task.toml", lambda path: read_draft(path.read_text())),
    }


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_table_of_settings_is_taken_by_a_reader(
    page: Path, readers: Mapping[str, tuple[Path, Callable[[Path], object]]]
) -> None:
    found = []
    for block in blocks(page, "toml"):
        against = [refused(block.text, path, reader) for path, reader in readers.values()]
        if all(against):
            found.append(
                (block, "no reader takes it: " + "; ".join(map(": ".join, zip(readers, against, strict=True))))
            )
    assert not found, wrong(found)


def test_the_check_itself_sees_a_setting_that_there_is_not(
    readers: Mapping[str, tuple[Path, Callable[[Path], object]]],
) -> None:
    for text in ("worker = 2\n", 'workers = "two"\n', "[spark]\nmasters = 1\n", "workers = \n"):
        assert all(refused(text, path, reader) for path, reader in readers.values())
    path, reader = readers["shuffler"]
    assert refused("workers = 2\n", path, reader) == ""


def refused(text: str, path: Path, reader: Callable[[Path], object]) -> str:
    """What a reader has against a file with the keys of a text in the place of its own; empty if it takes it."""
    try:
        content = merged(tomllib.loads(path.read_text()), tomllib.loads(text))
        changed = path.with_name("changed.toml")
        changed.write_text(as_toml(content))
        reader(changed)
    except (tomllib.TOMLDecodeError, HubbubError) as error:
        return str(error)
    return ""


def merged(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    tables = {
        name: merged(content[name], value)
        for name, value in changes.items()
        if isinstance(value, dict) and isinstance(content.get(name), dict)
    }
    return {**content, **changes, **tables}


def as_toml(content: Mapping[str, Any], prefix: str = "") -> str:
    """Values first, then tables, as TOML wants them."""
    values, tables = [], []
    for name, value in content.items():
        if isinstance(value, dict):
            tables.append(f"[{prefix}{name}]\n{as_toml(value, f'{prefix}{name}.')}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables += [f"[[{prefix}{name}]]\n{as_toml(each, f'{prefix}{name}.')}" for each in value]
        elif isinstance(value, datetime.datetime):
            values.append(f"{name} = {value.isoformat()}\n")
        else:
            # TOML writes infinity as Python does, and the rest as JSON does.
            written = repr(value) if isinstance(value, float) else json.dumps(value)
            values.append(f"{name} = {written}\n")
    return "".join([*values, *tables])


# Names


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_setting_in_backticks_is_one_that_there_is(page: Path) -> None:
    found = []
    for part in code(page):
        named = re.match(r"([a-z_]+(?:\.[a-z_]+)*) = \S", part.text) or re.fullmatch(r"([a-z_]+\.[a-z_]+)", part.text)
        if named is None or ("=" not in part.text and named[1].partition(".")[0] not in TABLES):
            continue
        last = {name.rpartition(".")[2] for name in SETTINGS}
        if named[1] not in SETTINGS | last | TASK_KEYS:
            found.append((part, f"there is no setting or key of a task {named[1]}"))
    assert not found, wrong(found)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_path_in_backticks_is_in_the_tree(page: Path) -> None:
    tops = {*FOLDERS, "docs", "tests"}
    found = [
        (part, f"there is no {part.text}")
        for part in code(page)
        if re.fullmatch(r"[\w./*@-]+", part.text)
        and part.text.partition("/")[0] in tops
        and "/" in part.text
        # NAME is one that the reader chooses.
        and not list(ROOT.glob(part.text.replace("NAME", "*").rstrip("/")))
    ]
    assert not found, wrong(found)


METRIC = re.compile(r"\bhubbub_(?:shuffler|hop|analyzer)_[a-z_]+[a-z]\b")
ALERT = re.compile(r"\bHubbub[A-Z]\w+\b(?<!Error)")


def known_metrics() -> set[str]:
    return set(METRIC.findall((ROOT / "docs" / "reference" / "metrics.md").read_text()))


def known_alerts() -> set[str]:
    return set(re.findall(r"(?m)^ *- alert: (\w+)$", (ROOT / "deploy" / "alerts" / "hubbub.yaml").read_text()))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_metric_and_alert_is_one_that_there_is(page: Path) -> None:
    """The pages of reference that list them are made from the code."""
    known = known_metrics() | known_alerts()
    assert len(known) > 40
    found = [
        (part, f"there is no metric or alert {name}")
        for part in code(page)
        for name in (*METRIC.findall(part.text), *ALERT.findall(part.text))
        if name not in known
    ]
    assert not found, wrong(found)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_in_the_text_begins_with_one_that_there_is(page: Path) -> None:
    found = [
        (part, f"there is no command {named[1]}")
        for part in code(page)
        if (named := re.match(r"hubbub ([a-z]+)", part.text)) and named[1] not in COMMANDS
    ]
    assert not found, wrong(found)


# What operators look at


def test_every_state_and_kind_of_incident_is_on_the_page_on_watching() -> None:
    text = (HOWTO / "watch-and-alert.md").read_text()
    states = ["prepared", *(state.shown for state in RoundState), *(stage.value for stage in AnalysisStage)]
    assert {state.upper() for state in states} <= set(re.findall(r"\b[A-Z]{3,}\b", text))
    # An operator looks up what `hubbub status` shows; the steps of a trace are on the page too.
    looked_up = text.partition("## Traces")[0]
    assert re.findall(r"(?m)^\| `(\w+)` \|", looked_up) == [*states, *(kind.value for kind in IncidentKind)]
    assert {f"hubbub.{kind.value}" for kind in IncidentKind} <= {
        part.text for part in code(HOWTO / "watch-and-alert.md")
    }


def test_every_alert_has_a_section_among_the_incidents() -> None:
    headings = re.findall(r"(?m)^## (.+)$", (HOWTO / "respond-to-incidents.md").read_text())
    named = re.findall(r"(?m)^ *incident: (.+)$", (ROOT / "deploy" / "alerts" / "hubbub.yaml").read_text())
    assert len(named) > 10
    assert sorted(set(named) - set(headings)) == []
    assert len(headings) == len(set(headings))
