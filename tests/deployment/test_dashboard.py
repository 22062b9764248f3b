"""Grafana's dashboard shows what is exported, and every alert; promtool and Grafana's own types read it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard

from reference import generate
from reference.making import dashboard, pages
from reference.making.alerts import rules
from reference.making.dashboard import FILE, LEFT_OUT, OF_OTHERS, exported, names

SHOWN: dict[str, Any] = json.loads(FILE.read_text())
PANELS = [panel for panel in SHOWN["panels"] if panel["type"] != "row"]
LABELS_OF_ALL = {"instance", "job"}
"""Labels that Prometheus gives every series."""

SELECTOR = re.compile(r"\b((?:hubbub|process|haproxy)_\w+|up)\{([^}]*)\}")
VARIABLES = {"$__rate_interval": "5m", "$instance": ".*", "$task": ".*"}
"""What Grafana puts in place of each variable."""

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def expressions(panel: dict[str, Any]) -> Iterator[str]:
    """What a panel asks Prometheus, with values in place of variables."""
    for target in panel["targets"]:
        expression = target["expr"]
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        yield expression


def series(metric: str) -> str:
    return re.sub("_(bucket|sum|count)$", "", metric)


def labels_of(metric: str) -> set[str]:
    return {*(exported() | OF_OTHERS)[metric], *LABELS_OF_ALL}


def test_the_file_is_what_the_code_gives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert dashboard.stale() == [], "run make reference"
    copied = tmp_path / "dashboard.json"
    copied.write_text(FILE.read_text().replace("Is it alive?", "Is it well?"))
    monkeypatch.setattr(dashboard, "FILE", copied)
    monkeypatch.setattr(pages, "stale", list)
    with pytest.raises(SystemExit, match=r"dashboard\.json are not what the code says; run make reference"):
        generate.main(["--check"])
    dashboard.write()
    assert copied.read_text() == FILE.read_text()


def test_grafanas_own_types_know_every_field() -> None:
    # They drop what they do not know.
    assert lacking(SHOWN, json.loads(json.dumps(Dashboard.from_json(SHOWN), default=lambda each: each.to_json()))) == []


def lacking(given: object, read: object, place: str = "") -> list[str]:
    """Where one document has what the other has not."""
    if isinstance(given, dict) and isinstance(read, dict):
        return [at for key, value in given.items() for at in lacking(value, read.get(key), f"{place}.{key}")]
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        return [
            at
            for index, (mine, theirs) in enumerate(zip(given, read, strict=True))
            for at in lacking(mine, theirs, f"{place}[{index}]")
        ]
    return [] if given == read else [place]


def test_a_field_that_grafana_does_not_know_is_noticed() -> None:
    changed = json.loads(FILE.read_text().replace('"gridPos"', '"gridPlace"'))
    read = json.loads(json.dumps(Dashboard.from_json(changed), default=lambda each: each.to_json()))
    assert lacking(changed, read)


def test_ids_are_unique_and_panels_do_not_overlap() -> None:
    ids = Counter(panel["id"] for panel in SHOWN["panels"])
    assert max(ids.values()) == 1
    cells: Counter[tuple[int, int]] = Counter()
    for panel in SHOWN["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= dashboard.COLUMNS
        across, down = range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])
        cells.update((x, y) for x in across for y in down)
    assert max(cells.values()) == 1
    assert all(Counter(target["refId"] for target in panel["targets"]).most_common(1)[0][1] == 1 for panel in PANELS)


def test_the_data_source_and_what_is_shown_are_the_readers_choice() -> None:
    assert [each["name"] for each in SHOWN["templating"]["list"]] == ["datasource", "instance", "task"]
    sources = re.findall(r'"uid": "([^"]*)"', FILE.read_text())
    assert set(sources) == {"hubbub", "${datasource}"}
    unchosen = [
        expression["expr"]
        for panel in PANELS
        for expression in panel["targets"]
        if '=~"$instance"' not in expression["expr"] and "haproxy" not in expression["expr"]
    ]
    assert unchosen == []


def test_every_metric_is_shown_or_left_out_with_why() -> None:
    shown = {series(name) for panel in PANELS for expression in expressions(panel) for name in names(expression)}
    assert len(shown) > 50
    assert {series(name) for name in exported()} - shown == set(LEFT_OUT)
    assert shown - {series(name) for name in exported()} == set(OF_OTHERS)
    assert all(LEFT_OUT.values())


def test_every_alert_has_a_panel_with_what_it_compares() -> None:
    for rule in rules():
        panels = [panel for panel in PANELS if f"{rule.name}: " in panel["description"]]
        shown = {name for panel in panels for expression in expressions(panel) for name in names(expression)}
        assert names(rule.expression) <= shown, rule.name
        assert all(rule.remedy in panel["description"] for panel in panels)


def test_limits_of_alerts_are_drawn() -> None:
    drawn = {
        panel["title"]: [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        for panel in PANELS
    }
    assert drawn["Age of the oldest round"] == [None, 3600.0]
    assert drawn["Free on the store's disk"] == [None, 4e9]
    assert drawn["TLS certificates"] == [None, 30 * 86400.0]


def test_selectors_groups_and_legends_name_labels_that_there_are() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            expression = target["expr"]
            known = [labels_of(name) for name in names(expression)]
            for metric, selected in SELECTOR.findall(expression):
                assert set(re.findall(r"(\w+)=~?\"", selected)) <= labels_of(metric), expression
            grouped = {each for group in re.findall(r"by \(([^)]*)\)", expression) for each in group.split(", ")}
            assert all(grouped <= labels for labels in known), expression
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert all(named <= (grouped or labels) for labels in known), (expression, named)


def test_a_panel_that_names_nothing_that_exists_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = dashboard.Panel("Gone", "Gone.", (("hubbub_SERVICE_gone", "x"),))
    monkeypatch.setattr(dashboard, "ROWS", (("Is it?", (panel,)),))
    with pytest.raises(ValueError, match="panel Gone names a metric that no service exports"):
        dashboard.text()
    monkeypatch.setattr(dashboard, "ROWS", (("Is it?", (dashboard.Panel("No", "No.", (), alerts=("HubbubNo",)),)),))
    with pytest.raises(ValueError, match="panel No names alerts that do not exist: HubbubNo"):
        dashboard.text()


@needs_promtool
def test_promtool_reads_every_expression(tmp_path: Path) -> None:
    asked = [
        {"record": f"panel:p{panel['id']}:q{index}", "expr": expression}
        for panel in PANELS
        for index, expression in enumerate(expressions(panel))
    ]
    file = tmp_path / "panels.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": asked}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
    assert (done.returncode, f"{len(asked)} rules found" in done.stdout) == (0, True), done.stdout + done.stderr


@needs_promtool
def test_every_panel_shows_something_where_every_metric_has_a_value(tmp_path: Path) -> None:
    tests = [
        {
            "expr": f"clamp_max(count({expression}), 1)",
            "eval_time": "60m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for panel in PANELS
        for expression in expressions(panel)
    ]
    given = [
        {"series": f"{name}{{{_sample(labels)}}}", "values": "0+1x60"}
        for name, labels in (exported() | OF_OTHERS).items()
    ]
    file = tmp_path / "test.json"
    case = {"interval": "1m", "input_series": given, "promql_expr_test": tests}
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _sample(labels: tuple[str, ...]) -> str:
    values = {"le": "+Inf", "result": "refused", "proxy": "shuffler"}
    own = [f'{label}="{values.get(label, "x")}"' for label in labels]
    return ", ".join([*own, 'instance="i"', 'job="hubbub-x"'])
