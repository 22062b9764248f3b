"""The pages on metrics and alerts have what the services export, no more and no less."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.analyzer.test_server import Deployment as AnalyzerDeployment
from unit.shuffler.hop.test_server import Deployment as HopDeployment
from unit.shuffler.test_server import Deployment as ShufflerDeployment
from unit.shuffler.test_server import running

from hubbub.protos.refusals import Refusal
from hubbub.protos.task.task import Privacy
from reference.making import alerts
from reference.making.metrics import PROCESS, Described, of_service
from support.metrics_scrape import Scraped, scrape
from support.samples import sample_task, signed
from support.source_tree import ROOT

CAPPED = Privacy(epsilon=10.0, delta=5e-3, epsilon_local=20.0, epsilon_total=40.0)
SERVICES = ("shuffler", "hop", "analyzer")
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()


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


def exported(scraped: Scraped, prefix: str) -> Iterator[Described]:
    """What a port shows, as Prometheus users name it, without units and meanings."""
    for family in scraped.families.values():
        if family.name.startswith(prefix):
            name = {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(family.type, family.name)
            labels = dict.fromkeys(label for sample in family.samples for label in sample.labels)
            assert family.samples, f"{name} shows nothing to compare labels with"
            yield Described(name, family.type, "", tuple(sorted(labels)), "")


def bare(described: Described) -> Described:
    return replace(described, unit="", meaning="", labels=tuple(sorted(described.labels)))


@pytest.mark.parametrize("service", SERVICES)
async def test_metrics_are_those_that_a_running_service_exports(service: str, tmp_path: Path) -> None:
    scraping = {"shuffler": scraped_shuffler, "hop": scraped_hop, "analyzer": scraped_analyzer}
    scraped = await scraping[service](tmp_path)
    shown = sorted(exported(scraped, "hubbub_"), key=lambda each: each.name)
    # An `info` is a gauge in what is scraped.
    known = [
        replace(bare(each), kind=each.kind.replace("info", "gauge"))
        for each in await asyncio.to_thread(of_service, service)
    ]
    assert [replace(each, kind=each.kind.replace("info", "gauge")) for each in shown] == known
    assert {each.name: each.kind for each in exported(scraped, "process_")} == {
        name: kind for name, (kind, _, _) in PROCESS.items()
    }


@pytest.mark.parametrize("service", SERVICES)
def test_every_metric_is_on_the_page_with_a_meaning(service: str) -> None:
    found = of_service(service)
    assert len(found) > 10
    assert [each.name for each in found if len(each.meaning) < 10 or f"| `{each.name}` |" not in PAGE] == []


def test_alerts_name_metrics_that_there_are() -> None:
    known = {each.name for service in SERVICES for each in of_service(service)}
    named = {name for rule in alerts.rules() for name in rule.metrics}
    assert len(named) > 10
    assert named <= known


def test_every_alert_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "alerts.md").read_text()
    assert re.findall(r"(?m)^## (Hubbub\w+)$", page) == [rule.name for rule in alerts.rules()]


def test_an_alert_without_a_remedy_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = tmp_path / "rules.yaml"
    lacking.write_text("groups: [{rules: [{alert: Some, expr: up == 0, for: 1m, labels: {severity: page}}]}]")
    monkeypatch.setattr(alerts, "RULES", lacking)
    with pytest.raises(ValueError, match="Some needs a severity, a summary and a remedy"):
        alerts.rules()
