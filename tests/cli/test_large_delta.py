"""A δ at which an ε says little: `plan` refuses it, `verify` warns of it, `account` says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from hubbub.client.state.rounds import SubmissionHistory
from hubbub.client.status import Memory, status_of
from hubbub.deploy.init.folders import sample
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy, task_content
from hubbub.queries.questions.histogram import Histogram
from hubbub.shuffler.tasks import load_signed
from support.certificates import content_of, counts, encode
from support.cli import hubbub_here
from support.krr_queries import krr_query
from support.samples import FEW, HALF, START, Parties, sample_task, signed

PARTIES = Parties.generate()
LARGE = Privacy(epsilon=10.0, delta=0.9, epsilon_local=20.0)
ZERO = "on with 100000 reports states epsilon <= 0: δ = 0.005 alone allows all of it"
RELY = "warning: rely on no ε of round 0 but that of the device alone, as this δ allows publishing somebody's answers"
KRR = ("--mechanism", "krr", "--categories", "4", "--local-epsilon", "1", "--reports", "1000")


def drafted(folder: Path, delta: str) -> Path:
    path = folder / "task.toml"
    text = sample("task.toml").replace("@START@", "2096-01-01T00:00:00Z")
    # One question is planned in no time.
    text = text[: text.index('[[query]]\nname = "session"')]
    path.write_text(text.replace("delta = 1e-6 ", f"delta = {delta} "))
    return path


def test_plan_refuses_a_large_delta_and_says_why(tmp_path: Path) -> None:
    ran = hubbub_here("plan", drafted(tmp_path, "0.9"))
    assert ran.status == 1
    assert "privacy.delta is 0.9, but at most 0.0001 for minimum_reports = 1000" in ran.err
    assert "would allow publishing one person's answers" in ran.err
    assert 'large_delta = "…"' in ran.err


@pytest.mark.parametrize(
    ("delta", "says"),
    [
        (
            "1e-6",
            "δ = 1e-06 is within the limit of 0.1 / minimum_reports = 0.0001: the promise of ε fails with",
        ),
        ('1e-3\nlarge_delta = "kiosks, and no people"', "the reason given: kiosks, and no people"),
    ],
    ids=["usual", "large"],
)
def test_plan_tells_what_delta_means_and_the_most_of_a_round(tmp_path: Path, delta: str, says: str) -> None:
    path = drafted(tmp_path, delta)
    ran = hubbub_here("plan", path, "--explain")
    assert says in ran.out
    assert (says in hubbub_here("plan", path).out) is ("large" in delta), "a usual δ needs no words"
    assert "a round takes at most 1,000,000 submissions, which need 0.084 GB of the shuffler's disk" in ran.out
    document = hubbub_here("plan", path, "--json").json
    assert (document["maximum_reports"], document["largest_delta"]) == (1_000_000, 1e-4)
    assert document["maximum_disk_bytes"] == 84_000_000


TASK = sample_task(PARTIES, privacy=LARGE)


def test_verify_warns_of_a_large_delta(tmp_path: Path) -> None:
    """A certificate of δ = 0.9 held as ε ≤ 0 without a word."""
    path = tmp_path / "certificate.json"
    path.write_bytes(encode(content_of(TASK, PARTIES, [counts(TASK, 0, 25)]), PARTIES))
    why = f"the task gives as its reason: {FEW}"
    warning = "δ = 0.9 is above 0.005 = 0.1 / minimum_reports, so every ε here promises little, "
    warning += f"but that of the device alone; {why}"
    ran = hubbub_here("verify", path)
    assert ran.status == 0
    assert f"warning: {warning}" in ran.out
    assert "ε ≤ 0.0 (" in ran.out
    assert hubbub_here("verify", path, "--json").json["delta_warning"] == f"warning: {warning}"
    of_all = hubbub_here("verify", tmp_path, "--json").json["histories"][0]
    assert of_all["delta_warning"] == f"warning: {warning}"
    assert f"warning: {warning}" in hubbub_here("verify", tmp_path).out


def test_signing_warns_of_a_large_delta(tmp_path: Path) -> None:
    key, path = tmp_path / "key.pem", tmp_path / "task.json"
    PARTIES.operator.save(key)
    path.write_bytes(SignedTask(TASK).encode())
    ran = hubbub_here("sign", path, "--key", key)
    assert ran.status == 0
    assert "warning: δ = 0.9 is above 0.005 = 0.1 / minimum_reports, so every ε here promises little" in ran.err
    assert ran.out.splitlines()[-1] == "still to sign: shuffler"


def test_who_signs_sees_the_whole_task(tmp_path: Path) -> None:
    key, path = tmp_path / "key.pem", tmp_path / "task.json"
    PARTIES.shuffler.save(key)
    path.write_bytes(SignedTask(TASK).signed_by(PARTIES.operator).encode())
    *shown, signed_line, last = hubbub_here("sign", path, "--key", key, "--explain").out.splitlines()
    assert (signed_line, last) == (f"signed task {TASK.name} ({TASK.id.hex()})", "all have signed")
    assert shown[0].startswith(f"task {TASK.name}: everyone keeps ε ≤ 10 at δ = 0.9")
    lines = dict(line.split(" = ", 1) for line in shown if " = " in line and not line.startswith("task "))
    assert lines["privacy.delta"] == "0.9"
    assert lines["identities.shuffler"] == fingerprint(PARTIES.shuffler.public)
    assert lines["queries.0.name"] == f'"{TASK.queries[0].name}"'
    assert {name.partition(".")[0] for name in lines} == set(task_content(TASK))


def test_the_shuffler_warns_at_start_of_a_large_delta(tmp_path: Path) -> None:
    usual = sample_task(PARTIES, name="usual", privacy=replace(LARGE, delta=5e-3))
    for each in (TASK, usual):
        (tmp_path / f"{each.name}.json").write_bytes(signed(each, PARTIES).encode())
    with structlog.testing.capture_logs() as logs:
        load_signed([tmp_path], PARTIES.operator.public, PARTIES.shuffler.public)
    assert [(line["event"], line["task"]) for line in logs] == [("a task promises little", TASK.name)]
    assert "δ = 0.9 is above 0.005 = 0.1 / minimum_reports" in logs[0]["why"]


FEW_REPORTS = """
[task]
name = "few"
start = 2096-01-01T00:00:00Z
length = "1h"
grace = "1m"
minimum_reports = 3
maximum_reports = {most}
[privacy]
epsilon = 3.0
delta = 0.033
[[query]]
name = "on"
kind = "histogram"
categories = ["no", "yes"]
"""


@pytest.mark.parametrize(("most", "too_weak"), [(100_000, ["on"]), (100, [])])
def test_plan_says_where_a_full_round_is_promised_nothing(tmp_path: Path, most: int, too_weak: list[str]) -> None:
    """A δ that is held against the minimum alone allows whatever is told in a large round: ε <= 0, without a word."""
    path = tmp_path / "task.toml"
    path.write_text(FEW_REPORTS.format(most=most))
    assert hubbub_here("plan", path, "--json").json["too_weak_when_full"] == too_weak
    says = "in a round of maximum_reports = 100,000 the certificate would state epsilon <= 0 for on: δ = 0.033 alone"
    assert (says in hubbub_here("plan", path).out) is bool(too_weak)


def test_verify_warns_of_an_epsilon_that_is_nothing_in_its_batch(tmp_path: Path) -> None:
    """At 20 reports its ε says something, at these it does not."""
    krr = krr_query(Histogram("on", ("no", "yes")), HALF)
    task = sample_task(PARTIES, queries=(krr,), privacy=replace(LARGE, delta=5e-3))
    path = tmp_path / "certificate.json"
    for reports, warning in ((20, None), (400, "on has 400 reports, and δ = 0.005 is above 1 / 400"), (100_000, ZERO)):
        path.write_bytes(encode(content_of(task, PARTIES, [counts(task, 0, reports)]), PARTIES))
        whole = warning and f"{RELY}: {warning}"
        document = hubbub_here("verify", path, "--json").json
        assert (document["epsilon_warning"], document["delta_warning"]) == (whole, None)
        of_all = hubbub_here("verify", tmp_path, "--json").json["histories"][0]["rounds"][0]
        assert of_all["epsilon_warning"] == whole
        for given in (path, tmp_path):
            out = hubbub_here("verify", given).out
            assert (whole in out) if whole else ("warning" not in out)


def test_a_device_is_told_of_a_large_delta() -> None:
    memory = Memory({}, SubmissionHistory(0, 0, 0), -1, opted_out=False)
    for task, warned in ((TASK, True), (sample_task(PARTIES, privacy=replace(LARGE, delta=5e-3)), False)):
        assert (status_of(task, memory, START).delta_warning is not None) is warned


def test_verify_says_nothing_of_a_delta_that_is_usual(tmp_path: Path) -> None:
    task = sample_task(PARTIES, privacy=replace(LARGE, delta=5e-3))
    path = tmp_path / "certificate.json"
    path.write_bytes(encode(content_of(task, PARTIES, [counts(task, 0, 25)]), PARTIES))
    assert hubbub_here("verify", path, "--json").json["delta_warning"] is None
    assert "warning" not in hubbub_here("verify", path).out


def test_account_computes_at_any_delta_and_says_when_it_is_large() -> None:
    usual, large = (hubbub_here("account", "epsilon", *KRR, "--delta", delta, "--json") for delta in ("1e-4", "2e-4"))
    assert (usual.status, usual.err) == (0, "")
    assert large.json["epsilon_upper"] < usual.json["epsilon_upper"]
    assert "δ = 0.0002 is above 0.0001 = 0.1 / 1000 reports, so this ε promises little" in large.err


@pytest.mark.parametrize(("delta", "says"), [("0.9", "so epsilon is 0 and promises nothing"), ("1", "below 1")])
def test_account_refuses_a_delta_at_which_epsilon_is_nothing(delta: str, says: str) -> None:
    ran = hubbub_here("account", "epsilon", *KRR, "--delta", delta)
    assert (ran.status != 0, ran.out) == (True, "")
    assert says in ran.err
