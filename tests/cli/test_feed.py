"""`hubbub tasks publish|end|list` and `hubbub sign`: a feed that two parties sign, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.analyzer.settings import load as analyzer_settings
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role, load_public
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.feed.entry import FeedParties
from hubbub.protos.task.feed.files import feed_in, file_of
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy
from hubbub.shuffler.settings import load as shuffler_settings
from support import run_pages
from support.cli import Ran, hubbub_here
from support.messages import NOT_A_FEED_ENTRY
from support.samples import START, Parties, sample_task

PARTIES = Parties.generate()
TRUSTED = FeedParties(PARTIES.operator.public, PARTIES.shuffler.public)
LONG = Schedule(START, length=3600, grace=60, rounds=100_000)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Each party's key files, and two tasks that nobody has signed yet."""
    for role in CORE_ROLES:
        PARTIES.of(role).save(tmp_path / f"{role.value}.pem")
        PARTIES.of(role).save_public(tmp_path / f"{role.value}.pub.pem")
    for name in ("colors", "sizes"):
        task = sample_task(PARTIES, name=name, schedule=LONG)
        (tmp_path / f"{name}.json").write_bytes(SignedTask(task).encode())
    return tmp_path


def tasks(folder: Path, *words: str, by: tuple[str, ...] = ("operator", "shuffler")) -> Ran:
    signers = [word for role in by for word in ("--key", f"{role}.pem")]
    return hubbub_here("tasks", words[0], "feed", *words[1:], *signers, folder=folder)


def test_two_parties_publish_a_task_and_end_it(keys: Path) -> None:
    done = tasks(keys, "publish", "colors.json", by=("operator",))
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0].endswith("; still to sign: shuffler")
    assert done.out.splitlines()[1] == "written to feed/000001.json"
    signed = hubbub_here("sign", "feed/000001.json", "--key", "shuffler.pem", folder=keys)
    # The second party reads the promise of what it signs.
    assert signed.out.startswith("task colors: everyone keeps ε ≤ 10 at δ = 0.01")
    assert signed.out.splitlines()[-2:] == ["signed entry 1 of the feed: publishes task colors", "all have signed"]
    ended = tasks(keys, "end", "colors", "--after", "1e1", "--json")
    assert ended.json == {
        "number": 2,
        "action": "end",
        "task": "colors",
        "task_id": ended.json["task_id"],
        "after": 10,
        "missing": [],
        "purpose": None,
        "budget": None,
        "file": "feed/000002.json",
    }
    feed = feed_in(keys / "feed", TRUSTED)
    assert list(feed.ends.values()) == [10]
    checked = ("--operator-key", "operator.pub.pem", "--shuffler-key", "shuffler.pub.pem")
    listed = hubbub_here("tasks", "list", "feed", *checked, folder=keys)
    task_id = ended.json["task_id"][:16]
    assert listed.out.splitlines() == [
        f"entry 1 publishes task colors ({task_id})",
        f"entry 2 ends task colors ({task_id}) after round 10",
    ]
    entries = hubbub_here("tasks", "list", "feed", "--json", folder=keys).json
    assert ([each["number"] for each in entries["entries"]], entries["signatures_checked"]) == ([1, 2], False)


def test_a_task_ends_after_the_round_that_is_open_now(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks(keys, "publish", "colors.json")
    monkeypatch.setattr("time.time", lambda: LONG.opens(7) + 5.0)
    assert tasks(keys, "end", "colors", "--json").json["after"] == 7
    tasks(keys, "publish", "sizes.json")
    monkeypatch.setattr("time.time", lambda: LONG.start - 5.0)
    first = tasks(keys, "end", "sizes").out.splitlines()[0]
    assert first.startswith("entry 4 ends task sizes")
    assert first.endswith("before its first round")


def capped(keys: Path, name: str, epsilon_total: float) -> str:
    """A file with a task that caps what all its rounds cost."""
    privacy = Privacy(10.0, 1e-2, epsilon_total=epsilon_total)
    task = sample_task(PARTIES, name=name, schedule=LONG, privacy=privacy)
    (keys / f"{name}.json").write_bytes(SignedTask(task).encode())
    return f"{name}.json"


def test_tasks_of_a_purpose_share_a_budget_and_say_what_is_left(keys: Path) -> None:
    colors, sizes, shapes = (capped(keys, name, 1.5) for name in ("colors", "sizes", "shapes"))
    budget = ("--purpose-epsilon", "3.5", "--purpose-delta", "0.1")
    done = tasks(keys, "publish", colors, "--purpose", "usage", *budget, by=("operator",))
    assert done.status == 0, done.err
    nothing = "purpose usage: ε 0 of 3.5 is spent and 3.5 left, δ 0 of 0.1 is spent and 0.1 left"
    once = "ε 1.5 of 3.5 is spent and 2 left, δ 0.01 of 0.1 is spent and 0.09 left"
    lines = done.out.splitlines()
    assert (lines[0], lines[2]) == (nothing, f"purpose usage, with this task: {once}")
    assert lines[1].startswith("entry 1 publishes task colors (")
    assert lines[1].endswith(") for purpose usage; still to sign: shuffler")
    signed = hubbub_here("sign", "feed/000001.json", "--key", "shuffler.pem", folder=keys).out.splitlines()
    assert signed[-3] == "budget of its purpose: ε ≤ 3.5 at δ ≤ 0.1 for all tasks of purpose usage together"
    # A later task names the purpose alone, and cannot raise the budget.
    raised = tasks(keys, "publish", sizes, "--purpose", "usage", "--purpose-epsilon", "10")
    assert (raised.status, "a budget stands as it was stated first" in raised.err) == (1, True)
    second = tasks(keys, "publish", sizes, "--purpose", "usage", "--json").json
    assert (second["purpose"], second["budget"]["left"]) == ("usage", {"epsilon": 0.5, "delta": 0.08})
    beyond = tasks(keys, "publish", shapes, "--purpose", "usage")
    assert beyond.status == 1
    assert "task shapes would take ε 1.5 and δ 0.01 of the budget of purpose usage, of which ε 3 of 3.5" in beyond.err
    # Nothing was signed or written of what was refused.
    assert sorted(path.name for path in (keys / "feed").iterdir()) == ["000001.json", "000002.json"]
    assert json.loads((keys / shapes).read_bytes())["signatures"] == {}
    listed = hubbub_here("tasks", "list", "feed", folder=keys).out.splitlines()
    assert listed[-1] == "purpose usage: ε 3 of 3.5 is spent and 0.5 left, δ 0.02 of 0.1 is spent and 0.08 left"
    (purpose,) = hubbub_here("tasks", "list", "feed", "--json", folder=keys).json["purposes"]
    assert (purpose["spent"], purpose["left"]) == ({"epsilon": 3.0, "delta": 0.02}, {"epsilon": 0.5, "delta": 0.08})


WRONG_BUDGETS = [
    (("--purpose-epsilon", "3"), "name it by --purpose"),
    (("--purpose", "usage"), "no entry of the feed states a budget of purpose 'usage'; give --purpose-epsilon"),
    (("--purpose", "usage", "--purpose-delta", "0.1"), "no entry of the feed states a budget of purpose 'usage'"),
    (
        ("--purpose", "usage", "--purpose-epsilon", "0", "--purpose-delta", "0.1"),
        "the budget's ε is 0.0; give a number",
    ),
]


@pytest.mark.parametrize(("words", "says"), WRONG_BUDGETS, ids=range(len(WRONG_BUDGETS)))
def test_a_budget_is_named_whole(keys: Path, words: tuple[str, ...], says: str) -> None:
    refused = tasks(keys, "publish", capped(keys, "colors", 1.5), *words)
    assert (refused.status, says in refused.err) == (2, True), refused.err
    assert not (keys / "feed").exists()


def test_what_is_not_signed_by_both_is_told_where_keys_are_given(keys: Path) -> None:
    tasks(keys, "publish", "colors.json", by=("shuffler",))
    checked = ("--operator-key", "operator.pub.pem", "--shuffler-key", "shuffler.pub.pem")
    failed = hubbub_here("tasks", "list", "feed", *checked, folder=keys)
    assert (failed.status, failed.out) == (1, "")
    assert "000001.json: entry 1 of the feed: the operator has not signed the feed entry" in failed.err
    one = hubbub_here("tasks", "list", "feed", "--operator-key", "operator.pub.pem", folder=keys)
    assert (one.status, "give both --operator-key and --shuffler-key" in one.err) == (2, True)


def test_a_stranger_s_key_signs_nothing(keys: Path) -> None:
    refused = tasks(keys, "publish", "colors.json", by=("analyzer",))
    assert refused.status == 1
    assert "neither the operator nor the shuffler of entry 1 of the feed" in refused.err
    assert not (keys / "feed").exists()
    tasks(keys, "publish", "colors.json")
    before = file_of(keys / "feed", 1).read_bytes()
    assert hubbub_here("sign", "feed/000001.json", "--key", "analyzer.pem", folder=keys).status == 1
    assert file_of(keys / "feed", 1).read_bytes() == before


def test_a_task_is_named_by_its_name_or_its_id(keys: Path) -> None:
    tasks(keys, "publish", "colors.json")
    unknown = tasks(keys, "end", "shapes", "--after", "1")
    assert unknown.status == 2
    assert "no running task is named 'shapes'; name one of these by its id: colors" in unknown.err
    task_id = json.loads(file_of(keys / "feed", 1).read_bytes())["body"]["task"]
    # An end is final, so a text that is empty or short names nothing.
    for short in ("", task_id[:7]):
        assert tasks(keys, "end", short, "--after", "-1").status == 2
    assert tasks(keys, "end", task_id[:8], "--after", "-1").status == 0
    again = tasks(keys, "end", "colors", "--after", "1")
    assert again.status == 2
    assert "no task of this feed runs, so 'colors' cannot end; `hubbub tasks list` shows what ended" in again.err


def test_a_task_is_ended_with_the_keys_that_succeeded_those_of_its_entry(keys: Path) -> None:
    tasks(keys, "publish", "colors.json")
    new = Identity.generate()
    new.save(keys / "new.pem")
    new.save_public(keys / "new.pub.pem")
    refused = tasks(keys, "end", "colors", "--after", "1", by=("new", "shuffler"))
    assert (refused.status, "neither the operator nor the shuffler of entry 2" in refused.err) == (1, True)
    ended = ("end", "colors", "--after", "1", "--operator-key", "new.pub.pem")
    assert tasks(keys, *ended, "--json", by=("new", "shuffler")).json["missing"] == []
    made = Succession(Role.OPERATOR, PARTIES.operator.public, new.public, PARTIES.shuffler.public, START)
    succession = made.signed_by(PARTIES.operator).signed_by(new).signed_by(PARTIES.shuffler)
    assert feed_in(keys / "feed", replace(TRUSTED, successions=[succession])).position.number == 2


def test_a_damaged_feed_gets_no_more_entries(keys: Path) -> None:
    tasks(keys, "publish", "colors.json")
    file_of(keys / "feed", 1).write_bytes(file_of(keys / "feed", 1).read_bytes()[:500])
    refused = tasks(keys, "publish", "sizes.json")
    assert refused.status == 1
    assert f"000001.json: {NOT_A_FEED_ENTRY}" in refused.err
    assert len(list((keys / "feed").iterdir())) == 1


def test_the_page_s_commands_publish_and_end_a_task(tmp_path: Path) -> None:
    operator = tmp_path / "deployment" / "operator"
    assert hubbub_here("init", tmp_path / "deployment").status == 0
    draft = (operator / "task.toml").read_text().replace('name = "usage"', 'name = "colors"')
    (operator / "colors.toml").write_text(draft)
    assert hubbub_here("plan", operator / "colors.toml", "--out", operator / "colors.json").status == 0
    # Its Python needs a shuffler: tests/unit/shuffler/test_live_tasks.py runs it.
    steps = run_pages.steps("howto/publish-tasks")
    others = ("TaskFeed", "sizes", "shapes")
    script = [step for step in steps if not any(word in step.commands for word in others)]
    # The way out of a refused entry names a task that has ended by then.
    script = [step for step in script if "--after -1" not in step.commands]
    printed = run_pages.run(script, tmp_path)
    assert len(printed) == 6
    assert [line.partition(" (")[0] for line in printed[-1].splitlines()] == [
        "entry 1 publishes task colors",
        "entry 2 ends task colors",
    ]
    parties = FeedParties(*(load_public(operator / "trust" / f"{role}.pub.pem") for role in ("operator", "shuffler")))
    for party, entries in (("shuffler", 1), ("analyzer", 1), ("operator", 2)):
        assert feed_in(tmp_path / "deployment" / party / "feed", parties).position.number == entries
    assert shuffler_settings(tmp_path / "deployment/shuffler/shuffler.toml").feed is not None
    assert analyzer_settings(tmp_path / "deployment/analyzer/analyzer.toml").feed is not None


def test_the_page_s_tasks_share_a_budget(keys: Path, tmp_path: Path) -> None:
    operator = tmp_path / "deployment" / "operator"
    operator.mkdir(parents=True)
    PARTIES.operator.save(operator / "identity.pem")
    for name in ("sizes", "shapes"):
        task = sample_task(PARTIES, name=name, schedule=LONG, privacy=Privacy(10.0, 1e-6, epsilon_total=1.0))
        (operator / f"{name}.json").write_bytes(SignedTask(task).encode())
    steps = run_pages.steps("howto/publish-tasks", "## Share a budget among tasks")
    script = [step for step in steps if "sizes" in step.commands or "shapes" in step.commands]
    first, second = run_pages.run(script, tmp_path)
    assert first.startswith("purpose usage: ε 0 of 3 is spent and 3 left, ")
    assert second.splitlines()[-1] == script[1].shown.strip()
