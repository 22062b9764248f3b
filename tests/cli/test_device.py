"""`hubbub submit` and `hubbub device`: what is given offline is kept, what stands is said, and people may opt out."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hubbub.cli.app import build
from hubbub.cli.commands.submit import lines_in
from hubbub.cli.options.device import RetryProgress, naming_ticket
from hubbub.client import Answer, RecorderCounts, Refusal, Retry, Spending, Unreachable
from hubbub.deploy.init.folders import sample
from hubbub.protos.identity.keys import save_public
from hubbub.protos.refusals import Reason
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Task
from hubbub.service.rpc import serve_submissions
from hubbub.service.transport import grpc_server
from support.certificates import content_of, counts, encode
from support.cli import Ran
from support.ended_with_test import opened_server
from support.fake_shuffler import Clock, FakeShuffler
from support.messages import ANSWERS_KEPT, NO_READABLE_CERTIFICATE
from support.patience import PATIENCE
from support.samples import Parties, make_tls, sample_task, signed

FILES = {"answers.txt": "carrier=UA\ndelay=12.5\n", "others.txt": "carrier=AA\n"}
"""Files of answers in the client's folder."""

ANSWERS = ("--answers", "answers.txt")
OTHERS = ("--answers", "others.txt")


class Client:
    """A client's folder, and a shuffler that can be reached from it or not."""

    def __init__(self, folder: Path, shuffler: FakeShuffler, task: Task, parties: Parties) -> None:
        self.folder, self.task, self.parties = folder, task, parties
        self.shuffler = shuffler
        self.settings = folder / "client.toml"
        for name, content in FILES.items():
            (folder / name).write_text(content)
        self.is_reached(True)

    def is_reached(self, reached: bool) -> None:
        self.settings.write_text(
            f"""
            task = "task.json"
            shuffler = "{self.shuffler.address if reached else "127.0.0.1:1"}"
            operator_key = "operator.pub.pem"
            shuffler_key = "shuffler.pub.pem"
            state = "state.db"
            authority = "tls/authority.pem"
            """
        )

    async def run(self, *words: str, stdin: bytes | None = None) -> Ran:
        place = 2 if words[0] == "device" else 1
        named = [str(self.folder / word) if word in FILES else word for word in words]
        return await asyncio.to_thread(self._run, [*named[:place], str(self.settings), *named[place:]], stdin)

    def _run(self, words: list[str], stdin: bytes | None) -> Ran:
        done = CliRunner().invoke(build(["submit", "device"]), words, input=stdin)
        return Ran(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    parties = Parties.generate()
    schedule = Schedule(int(time.time()) - 100, length=86_400, grace=60, rounds=3)
    task = sample_task(parties, schedule=schedule)
    (tmp_path / "task.json").write_bytes(signed(task, parties).encode())
    save_public(tmp_path / "operator.pub.pem", parties.operator.public)
    save_public(tmp_path / "shuffler.pub.pem", parties.shuffler.public)
    tls = make_tls(tmp_path / "tls", "shuffler")["shuffler"]
    fake = FakeShuffler(task, parties)
    async with opened_server() as server:
        serve_submissions(server, fake)
        fake.address = f"127.0.0.1:{grpc_server.listen(server, '127.0.0.1:0', tls.server(mutual=False))}"
        await server.start()
        yield Client(tmp_path, fake, task, parties)


async def test_answers_given_offline_are_kept_and_resent(client: Client) -> None:
    client.is_reached(False)
    ran = await client.run("submit", *ANSWERS, "--timeout", "0.5", "--json")
    assert ran.status == 1
    assert f"the answers to round 0 {ANSWERS_KEPT}" in ran.json["error"]
    assert re.search(r"tried (once|\d+ times) in \d+\.\d s", ran.json["error"])
    status = (await client.run("device", "status", "--json")).json
    assert (status["current"]["answer"], status["waiting"]) == ("kept", [0])
    assert (status["rounds_unsent"], status["rounds_expired"]) == (1, 0)
    assert (status["rounds_sent"], status["epsilon_local_spent"]) == (0, 0.0)
    client.is_reached(True)
    assert (await client.run("device", "resend", "--json")).json["acknowledged"] == [0]
    assert (await client.run("device", "resend")).out == "nothing is due to be sent\n"
    status = (await client.run("device", "status", "--json")).json
    assert (status["current"]["answer"], status["waiting"], status["rounds_sent"]) == ("acknowledged", [], 1)
    assert status["epsilon_local_spent"] == status["epsilon_local_round"] > 0
    assert len(client.shuffler.held) == 1


async def test_a_preview_shows_what_would_be_sent_and_changes_nothing(client: Client) -> None:
    before = (await client.run("device", "budget", "--json")).json
    ran = await client.run("device", "preview", *ANSWERS, "--json")
    assert ran.json["not_sent"] is None
    carrier, delay = ran.json["queries"]
    assert (carrier["name"], carrier["encoded"], delay["name"]) == ("carrier", "UA", "delay")
    assert 0 < carrier["other"] < carrier["own"] < 1
    shown = (await client.run("device", "preview", *ANSWERS)).out
    assert "nothing was sent" in shown
    assert f"{carrier['own']:.4g}" in shown
    assert f"{ran.json['submission_bytes']} bytes with its id;" in shown
    assert (await client.run("device", "budget", "--json")).json == before
    assert client.shuffler.seen == []
    bad = await client.run("device", "preview", "--answers", "-", stdin=b"carrier=Zeppelin\n")
    assert bad.status != 0
    assert "Zeppelin" not in bad.err


async def test_answers_wait_for_a_moment_that_a_restart_does_not_change(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as ended:
        ended.setattr("hubbub.client.session.submissions.wait_until", interrupted)
        assert (await client.run("submit", *ANSWERS, "--spread")).status != 0
    send_time = (await client.run("device", "status", "--json")).json["current"]["send_time"]
    assert f"not before {send_time}" in (await client.run("device", "status")).out
    assert (await client.run("device", "resend")).out == "nothing is due to be sent\n"
    assert client.shuffler.fetched == []
    waited = []

    async def at_once(until: float, *_: Any) -> bool:
        waited.append(until)
        return True

    monkeypatch.setattr("hubbub.client.session.submissions.wait_until", at_once)
    assert (await client.run("submit", *ANSWERS, "--spread", "--json")).json["answers_used"] is False
    assert [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until)) for until in waited] == [send_time]
    assert len(client.shuffler.held) == 1


async def test_what_waits_for_a_moment_is_sent_early_where_it_is_said(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("hubbub.client.session.submissions.wait_until", interrupted)
    assert (await client.run("submit", *ANSWERS, "--spread")).status != 0
    assert (await client.run("device", "resend", "--early", "--json")).json["acknowledged"] == [0]


async def test_a_second_submit_says_that_the_first_answers_stand(client: Client) -> None:
    client.is_reached(False)
    assert (await client.run("submit", *ANSWERS, "--timeout", "0.5")).status == 1
    client.is_reached(True)
    # What is kept is sent now, with the round that it was kept for.
    ran = await client.run("submit", *OTHERS)
    assert ran.status == 0
    assert "the first answers stay, the new ones were not used" in ran.out
    ran = await client.run("submit", *OTHERS, "--json")
    assert (ran.status, ran.json["answers_used"], ran.json["round"]) == (1, False, 0)
    assert "was answered before: the first answers stay" in ran.json["error"]
    assert ran.err == f"error: {ran.json['error']}\n"
    assert len(client.shuffler.seen) == 1


async def test_answers_to_a_named_round_are_never_those_to_a_later_one(client: Client) -> None:
    """A script may call again with `--round`: once that round is over, nothing is drawn, stored or sent."""
    schedule = client.task.schedule
    # A device forgets a round two graces after its end.
    earlier = replace(schedule, start=schedule.start - schedule.length - 2 * schedule.grace)
    later = signed(replace(client.task, schedule=earlier), client.parties)
    (client.folder / "task.json").write_bytes(later.encode())
    ran = await client.run("submit", *ANSWERS, "--round", "0")
    assert ran.status == 1
    assert "round 0 of task flights is over" in ran.err
    status = (await client.run("device", "status", "--json")).json
    assert (status["current"]["round"], status["current"]["answer"], status["waiting"]) == (1, "none", [])
    assert (await client.run("device", "resend")).status == 0
    assert (client.shuffler.fetched, client.shuffler.seen) == ([], [])


async def test_the_first_submit_says_that_its_answers_were_used(client: Client) -> None:
    ran = await client.run("submit", *ANSWERS, "--json")
    assert (ran.status, ran.err) == (0, "")
    assert {name: ran.json[name] for name in ("task", "round", "answers_used")} == {
        "task": "flights",
        "round": 0,
        "answers_used": True,
    }


async def test_answers_are_read_from_a_file_or_from_stdin(client: Client, tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("carrier=UA\n\ndelay=12.5\n")
    ran = await client.run("submit", "--answers", str(tmp_path / "answers.txt"), "--json")
    assert ran.json["answers_used"] is True
    again = await client.run("submit", "--answers", "-", stdin=b"carrier=UA\n")
    assert (again.status, "the first answers stay" in again.err) == (1, True)


async def test_no_word_of_the_command_holds_an_answer_unless_one_is_put_there(client: Client) -> None:
    ran = await client.run("submit", "--json", stdin=b"carrier=UA\ndelay=12.5\n")
    assert (ran.status, ran.json["answers_used"], ran.err) == (0, True, "")
    shown = await client.run("submit", "--answer", "carrier=AA", stdin=b"not read")
    assert "warning: every account of this machine can see --answer" in " ".join(shown.err.split())
    assert "carrier" not in shown.err
    assert "the first answers stay" in shown.err


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        (b"planted", "answer 1 of 1 has no =; give it as NAME=VALUE"),
        (b"carrier=AA\ncarrier=planted", "answer 2 of 2 names a query that was answered before; answer it once"),
        (b"carrier=planted", "not one of its categories"),
        (b"delay=planted", "must be a number"),
        (b"delay=planted\xff", "not UTF-8"),
    ],
)
async def test_an_error_never_repeats_an_answer(client: Client, stdin: bytes, says: str) -> None:
    ran = await client.run("submit", "--answers", "-", "--json", stdin=stdin)
    assert ran.status == 2
    assert says in ran.err
    assert "planted" not in ran.out + ran.err


async def test_a_file_of_answers_that_is_not_there_is_bad_use(client: Client) -> None:
    ran = await client.run("submit", "--answers", "nothing.txt")
    assert (ran.status, ran.out) == (2, "")
    assert "cannot read nothing.txt: No such file or directory" in ran.err


@pytest.mark.parametrize(
    ("answer", "says"),
    [("nope=1", "has no query 'nope'"), ("carrier=XX", "categories"), ("delay=x", "must be a number")],
)
async def test_an_answer_that_does_not_fit_is_bad_use(client: Client, answer: str, says: str) -> None:
    ran = await client.run("submit", stdin=answer.encode())
    assert (ran.status, ran.out) == (2, "")
    assert says in ran.err


async def test_people_opt_out_in_and_wipe(client: Client) -> None:
    assert (await client.run("device", "opt-out", "--json")).json == {"opted_out": True}
    ran = await client.run("submit", *ANSWERS)
    assert (ran.status, ran.out) == (1, "")
    assert "has opted out" in ran.err
    assert "opted out yes" in (await client.run("device", "status")).out
    assert (await client.run("device", "opt-in", "--json")).json == {"opted_out": False}
    assert (await client.run("submit", *ANSWERS)).status == 0
    assert (await client.run("device", "wipe", "--json")).json == {"wiped": True}
    said = (await client.run("device", "wipe")).out
    assert all(each in said for each in ("which rounds were answered", "what they cost", "credential", "opt-out"))
    ran = await client.run("submit", *ANSWERS)
    assert "round 0 was answered before, and the submission was erased here" in ran.err
    assert len(client.shuffler.seen) == 1


async def test_a_limit_refuses_answers_and_what_is_left_is_shown(client: Client) -> None:
    refused = await client.run("submit", *ANSWERS, "--limit", "epsilon-local-per-day=1")
    assert refused.status == 1
    assert "round 0 of task flights is not answered: 0 is spent today (UTC)" in refused.err
    assert (await client.run("submit", *ANSWERS)).status == 0
    shown = await client.run("device", "budget", "--limit", "epsilon_local_per_task=100")
    assert shown.status == 0
    assert re.search(r"flights .* 1 .* 3\.", shown.out)
    assert re.search(r"epsilon_local_per_task = 100: 9\d\.\d+ left\n", shown.out)
    client.settings.write_text(client.settings.read_text() + "\n[limits]\nepsilon_per_day = 4.0\n")
    document = (await client.run("device", "budget", "--json")).json
    assert [(task["task"], task["total"]["rounds"]) for task in document["tasks"]] == [("flights", 1)]
    assert document["limits"]["epsilon_per_day"]["limit"] == 4.0
    assert document["today"] == document["tasks"][0]["today"]
    assert document["frees_up"].endswith("T00:00:00Z")


@pytest.mark.parametrize("limit", ["epsilon_total=3", "epsilon_per_day", "epsilon_per_day=much", "delta=-1"])
async def test_a_limit_that_cannot_be_read_is_bad_use(client: Client, limit: str) -> None:
    refused = await client.run("submit", *ANSWERS, "--limit", limit)
    assert refused.status == 2
    assert "limit" in refused.err


@pytest.mark.parametrize("limit", ["epsilon=9.5", "delta=0.001", "epsilon-local=19"])
async def test_a_task_that_promises_too_little_privacy_is_not_answered(client: Client, limit: str) -> None:
    refused = await client.run("submit", *ANSWERS, "--limit", limit)
    name = limit.partition("=")[0].replace("-", "_")
    assert refused.status == 1
    assert f"the task has {name} = " in refused.err
    assert f"ask the operator for a task whose {name} is smaller, or raise the limit" in refused.err


async def test_a_certificate_is_learned_or_refused(client: Client) -> None:
    path = client.folder / "certificate.json"
    path.write_bytes(encode(content_of(client.task, client.parties, [counts(client.task, 0, 50)]), client.parties))
    learned = await client.run("device", "add-certificate", str(path), "--json")
    assert (learned.json["round"], learned.json["rounds"]) == (0, [0])
    assert "added: round 0 has ε" in (await client.run("device", "add-certificate", str(path))).out
    path.write_text("{}")
    refused = await client.run("device", "add-certificate", str(path))
    assert refused.status == 1
    assert "not a certificate of a round" in refused.err


async def test_status_says_it_in_words(client: Client) -> None:
    await client.run("submit", *ANSWERS)
    text = (await client.run("device", "status")).out
    lines = {line[:9].strip(): line[10:] for line in text.splitlines()}
    assert lines.pop("warning:").startswith(" = 0.01 is above 0.005 = 0.1 / minimum_reports, so every ε here promises")
    assert set(lines) == {"task", "now", "next", "to send", "opted out", "ε_local", "promise"}
    assert lines["now"].endswith("answered and acknowledged")
    assert lines["next"].endswith("not answered")
    assert lines["to send"] == "nothing"
    assert "spent in 1 round," in lines["ε_local"]


@pytest.mark.parametrize("words", [("submit", *ANSWERS), ("device", "resend")])
@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        ("0", "--timeout 0: give a number of seconds above 0"),
        ("-1", "--timeout -1: give a number of seconds above 0"),
        ("nan", "--timeout is nan; give a finite number"),
    ],
)
async def test_a_timeout_that_is_no_time_is_bad_use(
    client: Client, words: tuple[str, ...], seconds: str, says: str
) -> None:
    ran = await client.run(*words, "--timeout", seconds)
    assert (ran.status, ran.err) == (2, f"error: {says}\n")


async def test_a_task_file_that_was_not_copied_whole_is_named(client: Client) -> None:
    (client.folder / "task.json").write_bytes((client.folder / "task.json").read_bytes()[:500])
    for words in (("submit", *ANSWERS), ("device", "status")):
        done = await client.run(*words)
        assert done.status == 1
        assert "task.json: cut short, not a whole signed task; put the whole task there" in done.err


async def test_a_bad_authority_is_named_at_once(client: Client) -> None:
    (client.folder / "tls" / "authority.pem").write_text("junk")
    ran = await client.run("submit", *ANSWERS)
    assert ran.status == 1
    assert f"tls/authority.pem {NO_READABLE_CERTIFICATE}" in ran.err
    assert client.shuffler.fetched == []


# The programs of docs/howto/embed-a-device*.md

PAGES = sorted((Path(__file__).parents[2] / "docs" / "howto").glob("embed-a-device*.md"))
TEXT = "\n".join(page.read_text() for page in PAGES)
PROGRAMS = re.findall(r"(?ms)^```python\n(.*?)^```$", TEXT)
EXPECTED = {
    "receipt = ": "0 True",
    "Gateway.": "True",
    "Recorder(": "RecorderCounts(calls=2, kept=1, repeated=1,",
    "device.status()": "0 none 1 ()",
    "PrivacyLimits(": "round 0 of task ",
    "Fleet.": "3 3 {} {}",
}
"""What a program prints, by words that only this program has."""


def test_every_program_of_the_pages_is_expected() -> None:
    assert [sum(words in program for program in PROGRAMS) for words in EXPECTED] == [1] * len(PROGRAMS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("program", "printed"),
    [(program, printed) for words, printed in EXPECTED.items() for program in PROGRAMS if words in program],
    ids=list(EXPECTED),
)
async def test_programs_of_the_page_run(client: Client, tmp_path: Path, program: str, printed: str) -> None:
    """In a folder whose settings are where `hubbub init` puts them; the task asks other questions."""
    files = tmp_path / "deployment" / "client"
    files.mkdir(parents=True)
    (files / "task.json").symlink_to(tmp_path / "task.json")
    (files / "trust").symlink_to(tmp_path)
    # This task asks for no tickets.
    (files / "fleet.jsonl").write_text("{}\n" * 3)
    (files / "tls").symlink_to(tmp_path / "tls")
    (files / "client.toml").write_text(sample("client.toml").replace("127.0.0.1:7301", client.shuffler.address))
    for ours, theirs in (('"theme": "light"', '"carrier": "UA"'), ('"theme": "dark"', '"carrier": "AA"')):
        program = program.replace(ours, theirs)
    program = program.replace('"session"', '"delay"')
    words = [sys.executable, "-c", program]
    done = await asyncio.to_thread(
        subprocess.run, words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(printed)


def test_the_pages_name_everything_a_recorder_counts() -> None:
    assert [each.name for each in fields(RecorderCounts) if f"`{each.name}`" not in TEXT] == ["calls", "queued"]
    for name in (*(each.value for each in Answer), *(f"spending.{each.name}" for each in fields(Spending))):
        assert f"`{name}`" in TEXT


# Progress


def retry(pause: float = 4.0, error: Any = None) -> Retry:
    return Retry(1, error or Unreachable("the shuffler did not answer"), pause, 52.4)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def progress(said: list[str]) -> Callable[[bool], tuple[RetryProgress, Clock]]:
    def make(terminal: bool) -> tuple[RetryProgress, Clock]:
        clock = Clock()
        return RetryProgress("host:7301", said.append, terminal=terminal, monotonic=clock), clock

    return make


def test_in_a_terminal_progress_is_told_at_once_and_then_every_few_seconds(progress: Any, said: list[str]) -> None:
    tell, clock = progress(True)
    for seconds in (0.0, 1.0, 3.0, 2.0):
        clock.now += seconds
        tell(retry())
    assert said == ["the shuffler did not answer; trying again in 4 s, for 52 s more"] * 2


def test_elsewhere_progress_is_told_after_some_seconds_and_seldom(progress: Any, said: list[str]) -> None:
    tell, clock = progress(False)
    for seconds in (0.0, 4.0, 2.0, 10.0, 25.0):
        clock.now += seconds
        tell(retry(0.2, Refusal(Reason.NOT_READY, "no keys yet")))
    assert said == ["host:7301: no keys yet; trying again now, for 52 s more"] * 2


# Settings by variables


def hubbub_with(variables: Mapping[str, str], *words: str) -> Ran:
    done = CliRunner().invoke(build(["submit", "device"]), list(words), env=variables, input=b"carrier=UA\n")
    return Ran(done.exit_code, done.stdout, done.stderr)


async def test_a_variable_names_the_settings_file_and_others_replace_single_settings(client: Client) -> None:
    named = {"HUBBUB_SETTINGS": str(client.settings)}
    ran = await asyncio.to_thread(hubbub_with, named, "submit")
    assert (ran.status, ran.out) == (0, "acknowledged: task flights, round 0\n")
    limited = named | {"HUBBUB_LIMITS_EPSILON_PER_DAY": "0.5"}
    for words, limit in (((), 0.5), (("--limit", "epsilon_per_day=7"), 7.0)):
        ran = hubbub_with(limited, "device", "budget", "--json", *words)
        assert ran.json["limits"]["epsilon_per_day"]["limit"] == limit
    other = client.folder / "other.db"
    ran = hubbub_with({"HUBBUB_STATE": str(other)}, "device", "status", str(client.settings), "--json")
    assert (ran.json["rounds_sent"], other.exists()) == (0, True)


def test_a_command_without_settings_says_how_to_name_them() -> None:
    ran = hubbub_with({}, "device", "status")
    assert ran.status == 2
    assert ran.err.startswith("error: task, shuffler, operator_key, shuffler_key, state, authority are missing; name a")
    ran = hubbub_with({"HUBBUB_TIMEOUT": "soon"}, "device", "status")
    assert ran.status == 1
    assert ran.err == "error: HUBBUB_TIMEOUT is 'soon'; it must be a number of seconds above 0, such as 60\n"


async def test_the_settings_say_how_long_to_try(client: Client) -> None:
    client.is_reached(False)
    named = {"HUBBUB_SETTINGS": str(client.settings), "HUBBUB_TIMEOUT": "1e-3"}
    ran = await asyncio.to_thread(hubbub_with, named, "submit")
    assert ran.status == 1
    assert "; tried once in " in ran.err


async def test_a_refused_ticket_is_named_with_its_file(client: Client) -> None:
    client.settings.write_text(f'ticket = "ticket.json"\n{client.settings.read_text()}')
    refusal = Refusal(Reason.BAD_TICKET, "the ticket is not valid")
    assert str(naming_ticket(refusal, client.settings)) == f"{client.folder / 'ticket.json'}: the ticket is not valid"
    other = Refusal(Reason.TOO_LATE, "the round is over")
    assert naming_ticket(other, client.settings) is other


async def test_a_number_outside_of_its_range_is_said_to_be_clipped_and_not_repeated(client: Client) -> None:
    (delay,) = (each.question for each in client.task.asked if each.name == "delay")
    for refused in (b"nan", b"-inf", b"1e999"):
        ran = await client.run("submit", stdin=b"carrier=UA\ndelay=" + refused)
        assert ran.err.startswith("error: the answer to delay is not finite")
    beyond = f"{delay.upper + 12345:g}"
    ran = await client.run("submit", "--json", stdin=f"carrier=UA\ndelay={beyond}\n".encode())
    assert (ran.status, ran.json["clipped"]) == (0, ["delay"])
    says = f"delay: the answer is outside of {delay.lower:g} to {delay.upper:g}, and is clipped to that range"
    assert (ran.err, beyond in ran.err) == (f"{says}\n", False)
    inside = await client.run("submit", "--json", stdin=b"carrier=UA\ndelay=12.5\n")
    assert inside.json["clipped"] == []


async def test_answers_of_another_editor_are_the_same_answers(client: Client) -> None:
    """A byte order mark, other ends of lines and spaces around a name are no part of it."""
    ran = await client.run("submit", "--json", stdin="\ufeffcarrier=UA\r\n\r\n delay =12.5\r".encode())
    assert (ran.status, ran.json["answers_used"], ran.err) == (0, True, "")


def test_what_ends_a_line_of_a_page_ends_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    path.write_text("drink=green\u2028tea\nother=a\x0bb\x85c\n", encoding="utf-8")
    assert lines_in(path) == ["drink=green\u2028tea", "other=a\x0bb\x85c"]
