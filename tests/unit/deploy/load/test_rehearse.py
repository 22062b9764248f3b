"""Made-up devices take turns through the answers that are stated, and are admitted as the task's devices are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.admit.test_mtls import Certified
from unit.shuffler.test_server import analyzer_at, running

from hubbub.cli.commands.rehearse import _answers, _certificates
from hubbub.client import DeviceSettings
from hubbub.deploy.load.coordinator import Deployment, _assignment
from hubbub.deploy.load.rehearse import answers_in_turn, certificates_in, send
from hubbub.deploy.load.schedule import LoadSchedule, LoadStep
from hubbub.deploy.load.worker import _run
from hubbub.planning.simulate.notation import PLAIN
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import save_public
from hubbub.protos.task.task import Task
from hubbub.protos.transparency_log.policy import NotLogged
from support.logged_tasks import demanding, proof_of
from support.samples import Parties, make_tls, sample_task, signed


@pytest.fixture
def task() -> Task:
    return sample_task(Parties.generate())


def test_devices_take_turns_through_each_querys_answers(task: Task) -> None:
    answers = list(answers_in_turn(task, ["carrier=AA", "carrier=UA", "delay=1.5"], 3))
    assert answers == [
        {"carrier": "AA", "delay": 1.5},
        {"carrier": "UA", "delay": 1.5},
        {"carrier": "AA", "delay": 1.5},
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no answer to carrier.*--answer carrier=VALUE"),
        (["carrier"], "is not of the form NAME=VALUE"),
        (["nothing=1"], "nothing"),
        (["carrier=AA", "delay=x"], "delay"),
    ],
)
def test_answers_that_do_not_fit_are_refused_before_anything_is_sent(task: Task, words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        answers_in_turn(task, words, 3)


def test_a_missing_answer_is_bad_use(task: Task) -> None:
    with pytest.raises(UsageError):
        answers_in_turn(task, ["delay=1"], 3)


def test_numbers_of_a_file_that_devices_will_clip_are_counted_before_anything_is_sent(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "flights.csv"
    data.write_text("carrier,delay\nAA,500\nUA,1\nB6,-31\n")
    assert _answers(task, None, [], data, [], PLAIN)[0] == 3
    assert "column 'delay': 2 of 3 numbers are outside of -30 to 180, and are clipped" in capsys.readouterr().err


def test_stated_answers_that_devices_will_clip_are_counted_too(task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["carrier=AA", "delay=500", "delay=1", "delay=-31"]
    assert _answers(task, 4, words, None, [], PLAIN)[0] == 4
    assert capsys.readouterr().err == "delay: 2 of 3 answers are outside of -30 to 180, and are clipped to that range\n"


async def test_devices_with_certificates_come_one_by_one_and_a_second_run_is_refused(tmp_path: Path) -> None:
    deployment, folder = Certified(tmp_path), tmp_path / "certificates"
    folder.mkdir()
    for name in ("a", "b", "c"):
        deployment.issuer.issue(name, [], folder / f"{name}.pem", folder / f"{name}.key")
    (folder / "without a key.pem").write_text("")
    certificates = certificates_in(folder)
    assert [path.stem for path, _key in certificates] == ["a", "b", "c"]
    deployment.parties.shuffler.save_public(tmp_path / "shuffler.pub.pem")
    answers, done = [{"carrier": "AA", "delay": 1.5}] * 3, list[int]()
    async with analyzer_at(deployment) as (name, _), running(deployment.settings(name)) as addresses:
        files = DeviceSettings(
            task=tmp_path / "tasks" / "task.json",
            shuffler=addresses["devices"],
            operator_key=tmp_path / "operator.pub.pem",
            shuffler_key=tmp_path / "shuffler.pub.pem",
            state=tmp_path / "unused.db",
            authority=deployment.settings(name).tls.authority,
        )
        first = await send(files, answers, 0, done.append, certificates=certificates)
        again = await send(files, answers, 0, done.append, certificates=certificates)
    assert (first.accepted, dict(first.refused), done) == (3, {}, [1] * 6)
    assert (again.accepted, dict(again.refused)) == (0, {"id_conflict": 3})


def test_too_few_certificates_are_told_before_anything_is_sent(tmp_path: Path) -> None:
    deployment = Certified(tmp_path)
    with pytest.raises(UsageError, match="there are 0 for 2 devices; have one issued for each"):
        _certificates(deployment.task, None, 2)


async def test_made_up_devices_take_part_in_a_logged_task_with_its_proof_alone(tmp_path: Path) -> None:
    """By `rehearse` and by `load`: the settings' proof reaches what trusts the task."""
    parties = Parties.generate()
    (tmp_path / "task.json").write_bytes(signed(demanding(sample_task(parties)), parties).encode())
    (tmp_path / "another.tlog-proof").write_bytes(proof_of(b"another").encode())
    for role, identity in (("operator", parties.operator), ("shuffler", parties.shuffler)):
        save_public(tmp_path / f"{role}.pem", identity.public)
    tls = make_tls(tmp_path / "tls", "shuffler")["shuffler"]
    assert isinstance(tls.authority, Path)
    keys = {f"{role}_key": tmp_path / f"{role}.pem" for role in ("operator", "shuffler")}
    bare = DeviceSettings(
        tmp_path / "task.json", "127.0.0.1:1", **keys, state=tmp_path / "state.db", authority=tls.authority
    )
    other = replace(bare, log_proof=tmp_path / "another.tlog-proof")
    for files, says in ((bare, "there is no proof of it"), (other, "the document is not entry 1 of the log")):
        with pytest.raises(NotLogged, match=says):
            await send(files, [], 0, lambda _: None)
        loaded = Deployment(
            *(files.task, parties.operator.public.hex(), parties.shuffler.public.hex(), files.shuffler),
            *(tls.authority, 0),
            log_proof=files.log_proof,
        )
        schedule = LoadSchedule((LoadStep(1.0, 1.0),))
        with pytest.raises(NotLogged, match=says):
            _run(_assignment(loaded, schedule, tmp_path, 0, schedule, 1), iter([]))
