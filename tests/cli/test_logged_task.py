"""A task that demands a log, from its draft to a verified certificate: real services, and every command on the way."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hubbub.cli.app import build
from hubbub.client import Fleet, NotLogged
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role, save_public
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transparency_log.policy import LogPolicy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.question import Value
from support.cli import Ran, hubbub_here
from support.logged_tasks import POLICY, demanding, proof_of
from support.messages import DEMANDS_LOG, NOT_SHOWN_TO_BE_IN_LOG, TOO_FEW_WITNESSES
from support.patience import PATIENCE
from support.samples import FEW, Parties, make_tls, sample_task, signed
from support.transparency_logs import LOG, LOG_KEY, NAME, WITNESS_KEYS, WITNESSES, saved

DEVICES = 60


@dataclass(frozen=True)
class Log:
    """A log's folder, with the keys of the log and of its witnesses beside it."""

    around: Path

    @property
    def folder(self) -> Path:
        return self.around / "log"

    @classmethod
    def made(cls, around: Path) -> Log:
        around.mkdir()
        saved(LOG, around / "log.pem")
        for number, each in enumerate(WITNESSES):
            saved(each, around / f"w{number}.pem")
        made = cls(around)
        made.run("init", made.folder, "--name", NAME, "--key", around / "log.pem")
        return made

    def run(self, *words: str | Path) -> Ran:
        # Not in another process: each of a dozen would import all of it again.
        done = CliRunner().invoke(build(["log"]), ["log", *map(str, words)])
        assert done.exit_code == 0, done.stderr
        return Ran(done.exit_code, done.stdout, done.stderr)

    def add(self, document: Path) -> None:
        self.run("add", self.folder, document, "--key", self.around / "log.pem")

    def witness(self, number: int) -> None:
        """Let a witness sign the newest checkpoint, and the operator add the signature."""
        state, out = self.around / f"w{number}.state", self.around / f"w{number}.out"
        key = ("--log-key", LOG_KEY.encode(), "--key", self.around / f"w{number}.pem")
        first = () if state.exists() else ("--first",)
        self.run(
            *("witness", self.folder, *key, "--name", f"w{number}.example", "--state", state, "--out", out), *first
        )
        self.run("add", self.folder, out, "--witness", WITNESS_KEYS[number].encode())

    def prove(self, document: Path, out: Path) -> bytes:
        self.run("prove", self.folder, document, "--out", out)
        return out.read_bytes()


def draft() -> Draft:
    privacy = Privacy(epsilon=8.0, delta=1e-2, epsilon_local=20.0, large_delta=FEW)
    schedule = Schedule(int(time.time()) - 60, 3600, 86_400, 1, "operator")
    return Draft("themes", schedule, 50, privacy, (Histogram("theme", ("dark", "light")),), OPEN, log=POLICY)


def answers() -> Iterator[tuple[str, dict[str, Value]]]:
    return ((str(device), {"theme": ("dark", "light")[device % 2]}) for device in range(DEVICES))


async def test_devices_take_part_once_it_is_logged_and_its_certificate_is_valid_once_that_is(tmp_path: Path) -> None:
    log = Log.made(tmp_path / "around")
    async with asyncio.timeout(PATIENCE), LocalPipeline(draft(), tmp_path / "pipeline") as pipeline:
        task = tmp_path / "task.json"
        task.write_bytes(pipeline.task.encode())
        proof = await _logged(pipeline, log, task)
        await _answered(pipeline, proof)
        certificate = (await pipeline.results(0)).certificate
        document = tmp_path / "kept" / "certificate.json"
        document.parent.mkdir()
        document.write_bytes(certificate)
        saved_results = await _printed_results(pipeline)
    _verified(log, document, task.with_suffix(".tlog-proof"))
    _reported(document.parent, saved_results)


async def _logged(pipeline: LocalPipeline, log: Log, task: Path) -> bytes:
    """Log the task; until there is a proof with two witnesses, no device takes part in it."""
    with pytest.raises(NotLogged, match="there is no proof of it"):
        pipeline.device()
    log.add(task)
    log.witness(0)
    weak = log.prove(task, task.with_suffix(".weak"))
    with pytest.raises(NotLogged, match=f"1 {TOO_FEW_WITNESSES} the checkpoint of 1 entries, but 2 must"):
        pipeline.device(log_proof=weak)
    (status,) = await pipeline.status()
    assert status.submissions == 0
    log.witness(1)
    return log.prove(task, task.with_suffix(".tlog-proof"))


async def _answered(pipeline: LocalPipeline, proof: bytes) -> None:
    async with pipeline.device(log_proof=proof) as device:
        await device.submit({"theme": "dark"})
    async with Fleet(
        pipeline.task.encode(),
        operator_key=pipeline.operator_key,
        shuffler_key=pipeline.shuffler_key,
        state=pipeline.folder.of("client") / "fleet.db",
        shuffler=pipeline.shuffler,
        authority=pipeline.authority,
        log_proof=proof,
    ) as fleet:
        assert (await fleet.submit_many(answers())).accepted == DEVICES
    await pipeline.close_round(0)


async def _printed_results(pipeline: LocalPipeline) -> Any:
    """What `hubbub results` prints: it says that the log is still to be checked."""
    settings = pipeline.folder.of("operator") / "operator.toml"
    address = pipeline.services[Role.ANALYZER].addresses["results"]
    lines = settings.read_text().splitlines(keepends=True)
    (place,) = (number for number, line in enumerate(lines) if line.startswith("analyzer_results ="))
    lines[place] = f'analyzer_results = "{address}"\n'
    settings.write_text("".join(lines))
    said = await asyncio.to_thread(CliRunner().invoke, build(["results"]), ["results", str(settings)])
    assert "not checked here: that this certificate is in log stats.example/log, signed by 2 of its 3" in said.stdout
    printed = await asyncio.to_thread(CliRunner().invoke, build(["results"]), ["results", str(settings), "--json"])
    assert printed.exit_code == 0, printed.stderr
    return json.loads(printed.stdout)


def _verified(log: Log, certificate: Path, proof_of_task: Path) -> None:
    refused = hubbub_here("verify", certificate)
    assert refused.status == 1
    assert f"the certificate is right in itself, but it is {NOT_SHOWN_TO_BE_IN_LOG} stats.example/log" in refused.err
    log.add(certificate)
    for number in (1, 2):
        log.witness(number)
    log.prove(certificate, certificate.with_suffix(".tlog-proof"))
    half = hubbub_here("verify", certificate)
    assert (half.status, f"but its task is {NOT_SHOWN_TO_BE_IN_LOG}" in half.err) == (1, True)
    whole = hubbub_here("verify", certificate, "--log-proof", proof_of_task)
    assert whole.status == 0, whole.err
    assert (
        "  in log stats.example/log, as its task demands with 2 of 3 witnesses: the certificate is entry 1 of 2, "
        "signed by w1.example, w2.example; the task is entry 0 of 1, signed by w0.example, w1.example\n"
    ) in whole.out
    found = hubbub_here("verify", certificate, "--log-proof", proof_of_task, "--json").json["log"]
    assert (found["log"], found["threshold"]) == (NAME, 2)
    assert (found["certificate"]["index"], set(found["certificate"]["witnesses"])) == (1, {"w1.example", "w2.example"})
    history = hubbub_here("verify", certificate.parent, "--log-proof", proof_of_task)
    assert (history.status, "each is logged; the last is in log stats.example/log" in history.out) == (0, True)


def _reported(folder: Path, results: Any) -> None:
    """A report is made of saved results beside which the proofs are, and refused without the task's."""
    (folder / "results.json").write_text(json.dumps(results))
    out = folder.parent / "report.html"
    refused = hubbub_here("report", folder / "results.json", "--out", out)
    assert (refused.status, f"but its task is {NOT_SHOWN_TO_BE_IN_LOG}" in refused.err) == (1, True)
    assert not out.exists()
    (folder / "task.tlog-proof").write_bytes((folder.parent / "task.tlog-proof").read_bytes())
    made = hubbub_here("report", folder / "results.json", "--out", out)
    assert (made.status, out.exists()) == (0, True), made.err


def test_a_task_is_published_with_its_proof_alone(tmp_path: Path) -> None:
    log, parties = Log.made(tmp_path / "around"), Parties.generate()
    saved(parties.operator, tmp_path / "operator.pem")
    saved(parties.shuffler, tmp_path / "shuffler.pem")
    task = tmp_path / "task.json"
    task.write_bytes(signed(demanding(sample_task(parties)), parties).encode())
    publish = ("tasks", "publish", tmp_path / "feed", task, "--key", tmp_path / "operator.pem")
    refused = hubbub_here(*publish)
    assert (refused.status, (tmp_path / "feed").exists()) == (1, False)
    assert f"task flights {DEMANDS_LOG} stats.example/log, signed by 2 of its 3 witnesses" in refused.err
    log.add(task)
    log.witness(0)
    log.witness(2)
    log.prove(task, tmp_path / "task.tlog-proof")
    done = hubbub_here(*publish, "--log-proof", tmp_path / "task.tlog-proof", "--key", tmp_path / "shuffler.pem")
    assert (done.status, done.err) == (0, "")
    keys = []
    for role, identity in (("operator", parties.operator), ("shuffler", parties.shuffler)):
        save_public(tmp_path / f"{role}.pub.pem", identity.public)
        keys += [f"--{role}-key", tmp_path / f"{role}.pub.pem"]
    assert hubbub_here("tasks", "list", tmp_path / "feed", *keys).status == 0
    plain = tmp_path / "plain.json"
    plain.write_bytes(signed(sample_task(parties, name="trains"), parties).encode())
    other = hubbub_here(
        *("tasks", "publish", tmp_path / "feed", plain, "--key", tmp_path / "operator.pem"),
        *("--log-proof", tmp_path / "task.tlog-proof"),
    )
    assert (other.status, "task trains demands no log; leave --log-proof out" in other.err) == (2, True)


def test_a_device_s_commands_refuse_it_without_its_proof_and_preview_it_with_it(tmp_path: Path) -> None:
    parties = Parties.generate()
    schedule = Schedule(int(time.time()) - 60, 365 * 86_400, 60, 1)
    document = signed(demanding(sample_task(parties, schedule=schedule)), parties).encode()
    (tmp_path / "task.json").write_bytes(document)
    (tmp_path / "task.tlog-proof").write_bytes(proof_of(document).encode())
    make_tls(tmp_path / "tls", "shuffler")
    for role, identity in (("operator", parties.operator), ("shuffler", parties.shuffler)):
        save_public(tmp_path / f"{role}.pem", identity.public)
    lines = {"task": "task.json", "shuffler": "127.0.0.1:1", "state": "state.db", "authority": "tls/authority.pem"}
    lines |= {"operator_key": "operator.pem", "shuffler_key": "shuffler.pem"}
    settings = tmp_path / "client.toml"
    settings.write_text("".join(f'{key} = "{value}"\n' for key, value in lines.items()))
    for words in (("submit",), ("device", "preview"), ("device", "status")):
        done = CliRunner().invoke(build([words[0]]), [*words, str(settings)], b"carrier=AA\n")
        assert (done.exit_code, done.stdout) == (1, ""), words
        assert f"error: task flights {DEMANDS_LOG} stats.example/log" in done.stderr
    assert not (tmp_path / "state.db").exists()
    settings.write_text(settings.read_text() + 'log_proof = "task.tlog-proof"\n')
    done = CliRunner().invoke(build(["device"]), ["device", "preview", str(settings)], b"carrier=AA\n")
    assert (done.exit_code, "carrier" in done.stdout) == (0, True), done.stderr


def test_whoever_signs_a_task_is_shown_its_log_and_a_proof_that_is_not_there_is_named(tmp_path: Path) -> None:
    parties = Parties.generate()
    saved(parties.operator, tmp_path / "operator.pem")
    task = tmp_path / "task.json"
    task.write_bytes(SignedTask(demanding(sample_task(parties), LogPolicy(LOG_KEY, WITNESS_KEYS[:1], 1))).encode())
    told = hubbub_here("sign", task, "--key", tmp_path / "operator.pem")
    assert "the task and its certificates must be in stats.example/log, signed by its witness w0.example" in " ".join(
        told.out.split()
    )
    gone = hubbub_here("verify", task, "--log-proof", tmp_path / "gone")
    assert (gone.status, f"there is no {tmp_path / 'gone'}; give --log-proof a file" in gone.err) == (2, True)
