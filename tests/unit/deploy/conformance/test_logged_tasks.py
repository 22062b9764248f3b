"""Tasks of a trial that demand a log: the good proof is taken, each wrong one is refused, and using it is named."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.deploy.test_conformance import about, content

from hubbub.client.session.trust import trusted_task
from hubbub.deploy.conformance.default_draft import beginning_now, default_draft
from hubbub.deploy.conformance.judge import CHECKS
from hubbub.deploy.conformance.logged_tasks import LOG_CHECKS, LogKeys
from hubbub.deploy.conformance.trial import REFUSED, Trial, trial
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.messages import Redemption, Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transparency_log.policy import NotLogged
from hubbub.protos.transport.channels import TLS, open_channel
from support.patience import CALL_SECONDS

WORDS = {
    "log_missing": "there is no proof of it",
    "log_form": "not a proof",
    "log_bytes": "is not entry",
    "log_root": "is not entry",
    "log_few": "[0-9] of the known witnesses have signed",
    "log_twice": "signed the checkpoint twice",
    "log_key": "the signature of log conformance.example/log is wrong",
    "log_witness": "the signature of witness witness-[01].example is wrong",
}
"""What this package's device says of each."""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Trial]:
    async with trial(default_draft(), tmp_path / "client", "127.0.0.1:0", lambda _: None, logged=True) as found:
        yield found


async def test_the_good_proof_is_taken_and_each_other_refused_for_its_own_reason(running: Trial) -> None:
    keys = content(running, "operator_key"), content(running, "shuffler_key")
    trusted_task(content(running, "task"), *keys, content(running, "log_proof"))
    assert [each.check for each in running.refused] == list(LOG_CHECKS) == list(WORDS)
    for each in running.refused:
        folder = running.folder / REFUSED / each.check
        assert (folder / "task.json").read_bytes() == each.signed.encode()
        proof = folder / "task.tlog-proof"
        assert proof.exists() is (each.log_proof is not None)
        with pytest.raises(NotLogged, match=WORDS[each.check]):
            trusted_task(each.signed.encode(), *keys, proof.read_bytes() if each.log_proof is not None else None)


@pytest.mark.parametrize(("many", "threshold"), [(1, 1), (2, 2), (5, 3)])
async def test_a_draft_says_how_many_witnesses_there_are(tmp_path: Path, many: int, threshold: int) -> None:
    made = LogKeys.like(None)
    keys = replace(made, witnesses=tuple(made.witnesses * 2)[:many], threshold=threshold)
    if many > len(made.witnesses):
        keys = replace(keys, witnesses=(*made.witnesses, *LogKeys.like(None).witnesses[: many - 3]))
    draft = replace(default_draft(), log=keys.policy)
    async with trial(draft, tmp_path / "client", "127.0.0.1:0", lambda _: None) as found:
        policy = SignedTask.decode(content(found, "task")).task.log
        assert policy is not None
        assert (len(policy.witnesses), policy.threshold) == (many, threshold)
        assert not {each.public for each in policy.witnesses} & {each.public for each in keys.policy.witnesses}
        parties = content(found, "operator_key"), content(found, "shuffler_key")
        trusted_task(content(found, "task"), *parties, content(found, "log_proof"))
        for each in found.refused:
            with pytest.raises(NotLogged):
                trusted_task(each.signed.encode(), *parties, each.log_proof)


async def test_whatever_a_client_does_for_a_task_to_refuse_is_named(running: Trial) -> None:
    keys, redeemed, submitted, *_ = running.refused
    async with open_channel(about(running)["grpc"], TLS(Path(about(running)["authority"]))) as channel:
        caller = SubmissionCaller(channel)
        with pytest.raises(Refusal, match="no client may take part"):
            await caller.get_round(keys.signed.task.id, 0, CALL_SECONDS)
        assert redeemed.ticket is not None
        (answer,) = await caller.enroll([Redemption(redeemed.ticket, bytes(32))], CALL_SECONDS)
        assert isinstance(answer, Refusal)
        to = Destination(submitted.signed.task.id, 0, bytes(32))
        (answer,) = await caller.submit_batch(to, [Submission(bytes(16), bytes(200))], CALL_SECONDS)
        assert isinstance(answer, Refusal)
    assert running.verdict.problems == {
        each.check: f"it {did} of task {each.signed.task.name}, and must do nothing for it: {each.fault}"
        for each, did in ((keys, "asked for the round's keys"), (redeemed, "redeemed the ticket"))
    } | {
        submitted.check: f"it submitted answers of task {submitted.signed.task.name}, and must do nothing for it: "
        f"{submitted.fault}"
    }
    assert set(running.verdict.problems) <= {each["check"] for each in running.verdict.as_json()["checks"]}


CARELESS = """
import json, os
from pathlib import Path
from hubbub.client import Device
from hubbub.protos.transparency_log.policy import LogPolicy
of = json.loads(Path(os.environ["CONFORMANCE"]).read_text())
LogPolicy.check_task = lambda *_: None
Device(Path(of["task"]).read_bytes(), operator_key=Path(of["operator_key"]).read_bytes(),
       shuffler_key=Path(of["shuffler_key"]).read_bytes(), state=Path(of["task"]).with_name("state.db"),
       shuffler=of["https"], authority=Path(of["authority"]), ticket=Path(of["ticket"])
       ).submit_blocking({"theme": "dark", "session": 12.5})
"""


async def test_a_client_that_looks_at_no_proof_does_not_conform(running: Trial) -> None:
    some = replace(running, refused=running.refused[:2])
    await some.run([sys.executable, "-c", CARELESS])
    assert set(running.verdict.problems) == set(LOG_CHECKS[:2])
    assert not running.verdict.unseen


CALL_WITHOUT_A_TASK = """
import json, os, ssl, urllib.error, urllib.request
from pathlib import Path
of = json.loads(Path(os.environ["CONFORMANCE"]).read_text())
trusted = ssl.create_default_context(cafile=of["authority"])
call = urllib.request.Request(of["https"] + PATH, data=b"", headers={"Content-Type": "application/proto"})
try:
    urllib.request.urlopen(call, context=trusted)
except urllib.error.HTTPError:
    pass
"""


@pytest.mark.parametrize("path", ["/hubbub.v1.SubmissionService/GetRound", "/hubbub.v1.SubmissionService/GetFeed", "/"])
async def test_a_call_that_names_no_task_is_one_too_many(running: Trial, path: str) -> None:
    some = replace(running, refused=running.refused[:1])
    await some.run([sys.executable, "-c", CALL_WITHOUT_A_TASK.replace("PATH", repr(path))])
    (task,) = some.refused
    told = f"it made a call, and must make none for task {task.signed.task.name}: {task.fault}"
    assert running.verdict.problems[task.check] == told


async def test_a_client_that_does_not_end_is_ended_and_told(running: Trial) -> None:
    some = replace(running, refused=running.refused[:1], patience=0.2)
    waiting = "import os, threading\nif 'refused' in os.environ['CONFORMANCE']:\n    threading.Event().wait()"
    await some.run([sys.executable, "-c", waiting])
    (task,) = some.refused
    assert running.verdict.problems[task.check].startswith("it had not ended 0.2 s after it was given task")


async def test_a_client_that_does_nothing_refuses_and_does_not_conform(running: Trial) -> None:
    await running.run([sys.executable, "-c", ""])
    assert running.verdict.problems == {}
    assert set(running.verdict.unseen) == set(CHECKS) - {*LOG_CHECKS, "hop"}


async def test_an_open_task_has_no_tickets_for_them(tmp_path: Path) -> None:
    draft = default_draft()
    draft = beginning_now(replace(draft, admission=OPEN, privacy=replace(draft.privacy, honest_share=0.9)))
    async with trial(draft, tmp_path / "client", "127.0.0.1:0", lambda _: None, logged=True) as found:
        assert {each.ticket for each in found.refused} == {None}
        assert "ticket" not in about(found)


async def test_each_ticket_is_for_one_task(running: Trial) -> None:
    given = [each for each in content(running, "tickets").splitlines() if each]
    given += [each.ticket for each in running.refused if each.ticket is not None]
    assert len({Ticket.decode(each).device for each in given}) == len(given) == 108
