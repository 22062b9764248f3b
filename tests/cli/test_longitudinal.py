"""A longitudinal question on the command line, with real services: limits, a certificate that is added, and Parquet."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pyarrow import csv, parquet
from typer.testing import CliRunner

from hubbub.cli.app import build
from hubbub.client import Fleet
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.records.results_document import COLUMNS
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.question import Value
from hubbub.queries.questions.top import Top
from support.cli import Ran
from support.patience import PATIENCE
from support.samples import FEW

DEVICES = 110
GROUPED = Grouped("session", (Histogram("region", ("north", "south")),), Distribution("session", (0.0, 5.0, 60.0)))
ANSWERS = b"active=no\nsite=a\nsession=north,3\n"


def draft() -> Draft:
    over_time = Longitudinal("active", 1, "direct", epsilon_local=20.0)
    # Both rounds began before now and are cut long after it, so that they can be answered one after the other at once.
    schedule = Schedule(int(time.time()) - 7200, 3600, 30 * 86_400, 2, "operator")
    privacy = Privacy(epsilon=8.0, delta=1e-2, epsilon_local=20.0, epsilon_total=30.0, large_delta=FEW)
    return Draft("fleet", schedule, 100, privacy, (over_time, Top("site", ("a", "b", "c")), GROUPED))


def answers() -> Iterator[tuple[str, dict[str, Value]]]:
    for device in range(DEVICES):
        session = {"region": GROUPED.by[0].categories[device % 2], "session": float(device % 50)}
        yield str(device), {"active": False, "site": "ab"[device % 2], "session": session}


def put(settings: Path, values: Mapping[str, str]) -> None:
    """Write values into a settings file, each in the one line of its key."""
    text = settings.read_text()
    for key, value in values.items():
        text, changed = re.subn(rf"(?m)^{key} += \S+", f"{key} = {value}", text)
        assert changed == 1, key
    settings.write_text(text)


async def run(*words: str | Path, stdin: bytes | None = None) -> Ran:
    command, given = build([str(words[0])]), [str(word) for word in words]
    done = await asyncio.to_thread(CliRunner().invoke, command, given, stdin)
    return Ran(done.exit_code, done.stdout, done.stderr)


async def answer_round_0(pipeline: LocalPipeline, client: Path) -> None:
    submitted = await run("submit", client / "client.toml", "--round", "0", stdin=ANSWERS)
    assert submitted.status == 0, submitted.err
    fleet = Fleet(
        pipeline.task.encode(),
        operator_key=pipeline.operator_key,
        shuffler_key=pipeline.shuffler_key,
        state=client / "fleet.db",
        shuffler=pipeline.shuffler,
        authority=pipeline.authority,
        tickets=pipeline.ticket,
    )
    async with fleet:
        assert (await fleet.submit_many(answers(), 0)).accepted == DEVICES
    await pipeline.close_round(0)


async def test_a_learned_certificate_makes_room_under_a_limit_and_results_are_exported(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), LocalPipeline(draft(), tmp_path / "pipeline") as pipeline:
        client, operator = pipeline.folder.of("client"), pipeline.folder.of("operator")
        (client / "task.json").write_bytes(pipeline.task.encode())
        (client / "ticket.json").write_bytes(pipeline.ticket("client"))
        put(client / "client.toml", {"shuffler": f'"{pipeline.shuffler}"'})
        addresses = pipeline.services[Role.ANALYZER].addresses
        put(operator / "operator.toml", {"analyzer_results": f'"{addresses["results"]}"'})
        await answer_round_0(pipeline, client)
        certificate = (await pipeline.results(0)).certificate
        await learned_in_time(pipeline, client, certificate)
        await exported(operator, tmp_path)


async def learned_in_time(pipeline: LocalPipeline, client: Path, certificate: bytes) -> None:
    """A limit that refuses round 1 while the promise counts, and not when what is certified does."""
    settings = client / "client.toml"
    promised = (await run("device", "budget", settings, "--json")).json["tasks"][0]["total"]["epsilon"]
    certified = json.loads(certificate)["body"]["all_rounds"]["epsilon_upper_at_minimum"]
    assert certified < promised
    task = pipeline.task.task
    again = min(2 * task.privacy.epsilon, promised + sum(query.local_cost(1) for query in task.queries))
    put(settings, {"epsilon_per_task": f"{(certified + task.privacy.epsilon + again) / 2}"})
    refused = await run("submit", settings, "--round", "1", stdin=ANSWERS)
    assert refused.status == 1
    assert "epsilon_per_task" in refused.err
    (client / "certificate.json").write_bytes(certificate)
    learned = await run("device", "add-certificate", settings, client / "certificate.json", "--json")
    assert learned.json["epsilon_all_rounds"] == certified
    assert (await run("device", "budget", settings, "--json")).json["tasks"][0]["total"]["epsilon"] == certified
    submitted = await run("submit", settings, "--round", "1", stdin=ANSWERS)
    assert submitted.status == 0, submitted.err


async def exported(operator: Path, folder: Path) -> None:
    """What a Parquet file holds is what CSV holds, with a value in every column that these questions fill."""
    files = ("--parquet", folder / "results.parquet", "--csv", folder / "results.csv")
    ran = await run("results", operator / "operator.toml", *files, "--json")
    assert ran.status == 0, ran.err
    table = parquet.read_table(folder / "results.parquet")
    assert table.column_names == list(COLUMNS)
    # As texts: a reader takes the times of rounds for times.
    as_texts = csv.ConvertOptions(column_types={"round_begins": "string", "round_ends": "string"})
    written = csv.read_csv(folder / "results.csv", convert_options=as_texts).to_pydict()
    for column, values in table.to_pydict().items():
        assert [value or None for value in values] == [value or None for value in written[column]], column
    of_one_attribute = {"attribute_2", "group_2"}
    empty = {name for name in table.column_names if table.column(name).null_count == len(table)}
    assert empty == of_one_attribute | {"unit"}
    await every_round(operator, ran.json)


async def every_round(operator: Path, alone: dict[str, Any]) -> None:
    """All rounds are one document and one table; each has when it began and ended."""
    ran = await run("results", operator / "operator.toml", "--all", "--json")
    assert ran.status == 0, ran.err
    (each,) = ran.json["rounds"]
    times = [datetime.fromisoformat(each.pop(name)) for name in ("round_begins", "round_ends")]
    assert (times[1] - times[0]).total_seconds() == 3600
    assert each == alone
    shown = await run("results", operator / "operator.toml", "--all")
    assert "Each person" in shown.out or "ε" in shown.out
    assert f"{times[0]:%Y-%m-%dT%H:%M:%SZ}" in shown.out
    refused = await run("results", operator / "operator.toml", "--all", "--round", "0")
    assert (refused.status, "--round is for one round" in refused.err) == (2, True)
