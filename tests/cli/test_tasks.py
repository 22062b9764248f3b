"""`hubbub init`, `plan`, `sign`, `simulate`, `verify`: from an empty folder to a signed task, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hubbub.cli.app import build
from hubbub.deploy.files import signed_task_in
from hubbub.deploy.init.folders import TRUST
from hubbub.planning.capacity import MEASURED, MIXED
from hubbub.protos.identity.keys import load_public
from hubbub.protos.task.signed_task import SignedTask
from support.certificates import content_of, counts, encode
from support.cli import hubbub, hubbub_here
from support.messages import NOT_EVEN_THE_FIRST
from support.patience import PATIENCE
from support.samples import LATER_DRAFT, Parties, sample_task
from support.thoroughness import spread


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployment")
    assert hubbub("init", folder).status == 0
    assert hubbub("plan", folder / "operator/task.toml", "--out", folder / "operator/task.json").status == 0
    return folder


def test_init_gives_each_party_only_what_it_may_know(deployment: Path) -> None:
    for party, roles in TRUST.items():
        trusted = {path.name for path in (deployment / party / "trust").iterdir()}
        assert trusted == {f"{role.value}.pub.pem" for role in roles}
        private = {path.name for path in (deployment / party).rglob("*") if path.is_file() and _is_private(path)}
        expected = {
            "client": set(),
            "operator": {"identity.pem", "operator.key", "authority.key"},
            "reader": {"reader.key"},
        }
        assert private == expected.get(party, {"identity.pem", f"{party}.key"})


def _is_private(path: Path) -> bool:
    return b"PRIVATE KEY" in path.read_bytes()


def test_private_keys_are_readable_by_their_owner_only(deployment: Path) -> None:
    private = [path for path in deployment.rglob("*") if path.is_file() and _is_private(path)]
    assert len(private) == 8
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}


def test_init_overwrites_nothing(deployment: Path) -> None:
    ran = hubbub("init", deployment)
    assert ran.status == 1
    assert "empty" in ran.err


def test_every_line_of_settings_is_documented(deployment: Path) -> None:
    for name in ("shuffler", "analyzer", "client", "operator", "reader"):
        for line in (deployment / name / f"{name}.toml").read_text().splitlines():
            assert not re.match(r"[a-z_]+ =", line) or " # " in line, line


def test_plan_refuses_a_task_that_is_over(deployment: Path, tmp_path: Path) -> None:
    text = (deployment / "operator/task.toml").read_text()
    over = re.sub(r"(?m)^start = \S+", "start = 2020-01-01T00:00:00Z", text)
    assert over != text
    (tmp_path / "task.toml").write_text(over)
    ran = hubbub_here("plan", tmp_path / "task.toml", "--out", tmp_path / "task.json")
    assert (ran.status, ran.out) == (1, "")
    assert "the task is over: its last round, " in ran.err
    assert "set a later start" in ran.err
    assert not (tmp_path / "task.json").exists()


def test_plan_says_what_to_expect(deployment: Path) -> None:
    ran = hubbub_here("plan", deployment / "operator/task.toml", "--json")
    assert ran.status == 0
    assert [query["name"] for query in ran.json["queries"]] == ["theme", "session"]
    assert ran.json["suite"] == "X25519-HKDF-SHA256-CHACHA20POLY1305"
    assert ran.json["submission_bytes"] == 2 * 4 + 3 * 48
    assert all(query["expected_half_width"] < query["range"] for query in ran.json["queries"])
    assert all(query["randomizer"] == "krr" for query in ran.json["queries"])
    assert all(re.fullmatch(r"\d+/4294967296", query["gamma"]) for query in ran.json["queries"])
    assert [row["honest"] for row in ran.json["flood"]["left"]] == [500, 100, 1]
    # Noise of the shuffler hides each person whatever the others send, so no dummies are needed against a flood.
    assert all(query["noise"]["family"] == "geometric" for query in ran.json["queries"])
    assert all(row["epsilon_upper"] <= 1 for row in ran.json["flood"]["left"])
    assert ran.json["flood"]["shield"] is None


def test_plan_tells_what_a_fleet_takes(deployment: Path, tmp_path: Path) -> None:
    task = deployment / "operator/task.toml"
    ran = hubbub_here("plan", task, "--capacity", "1e8", "--core-hour", "0.04")
    assert ran.status == 0, ran.err
    assert "estimate for 100,000,000 submissions a day" in ran.out
    assert "beyond one measured machine: reports of a round that the task takes: 100,000,000 of 1,000,000" in ran.out
    assert "figures beyond one machine are extrapolated" in ran.out
    # A bench of a machine ten times as fast.
    rates = {"submit": MEASURED.single, "submit_batch": MEASURED.batched, "open_krr": MEASURED.opened}
    rows = {name: 10 * rate for name, rate in rates.items()} | {"mix": MIXED / MEASURED.mixed / 10}
    bench = tmp_path / "bench.json"
    bench.write_text(json.dumps({"cores": 2, "rows": [{"name": name, "value": rows[name]} for name in rows]}))
    here, faster = (
        hubbub_here("plan", task, "--capacity", "1e8", *words, "--json").json["capacity"]
        for words in ((), ("--costs", bench))
    )
    assert here["month"] is None
    assert here["single_cores"] == pytest.approx(10 * faster["single_cores"])
    assert here["open_core_hours"] == pytest.approx(10 * faster["open_core_hours"])
    assert faster["costs"]["single"] == 10 * MEASURED.single
    wrong = hubbub_here("plan", task, "--capacity", "0")
    assert (wrong.status, wrong.out) == (2, "")
    assert "--capacity 0: give a number from 1 to" in wrong.err


def test_a_draft_away_from_the_public_keys_is_refused_before_it_is_planned(deployment: Path, tmp_path: Path) -> None:
    task = tmp_path / "task.toml"
    shutil.copy(deployment / "operator/task.toml", task)
    ran = hubbub("plan", task, "--out", tmp_path / "task.json")
    assert ran.status == 2
    assert f"there is no folder {tmp_path / 'trust'} with the parties' public keys" in ran.err
    assert "--trust" in ran.err
    assert not (tmp_path / "task.json").exists()


def test_plan_of_a_post_quantum_task_names_suite_and_sizes(deployment: Path, tmp_path: Path) -> None:
    text = (deployment / "operator/task.toml").read_text()
    task = tmp_path / "task.toml"
    task.write_text(re.sub('suite = "[^"]*"', 'suite = "MLKEM768-X25519"', text))
    keys = ("--out", tmp_path / "task.json", "--trust", deployment / "operator/trust")
    ran = hubbub_here("plan", task, *keys, "--explain")
    assert ran.status == 0, ran.err
    assert "sealed with MLKEM768-X25519 (ML-KEM-768 and X25519 together" in ran.out
    assert "3,416 bytes; sealing adds 1,136 bytes to each query's report and 1,136 to the whole" in ran.out
    assert SignedTask.decode((tmp_path / "task.json").read_bytes()).task.suite == "MLKEM768-X25519"
    task.write_text(re.sub('suite = "[^"]*"', 'suite = "RSA"', text))
    wrong = hubbub_here("plan", task)
    assert wrong.status == 1
    assert "task.suite is 'RSA'; it must be X25519-HKDF-SHA256-CHACHA20POLY1305 or MLKEM768-X25519" in wrong.err


def test_the_lines_that_plan_prints_lead_to_a_task_that_every_party_has(tmp_path: Path) -> None:
    """Each is run to the letter: keys, the plan, both signatures and the copies. The folder has a blank in its name."""
    folder = tmp_path / "my work"
    folder.mkdir()
    (folder / "task.toml").write_text(LATER_DRAFT)
    last = hubbub_here("plan", "task.toml", folder=folder).out.splitlines()[-1]
    found = re.fullmatch("next: hubbub (init deployment) makes the parties' keys, then hubbub (.+) writes .*", last)
    assert found is not None, last
    run_line(f"hubbub {found[1]}", folder)
    assert found[2] in hubbub_here("plan", "task.toml", "--no-compare", folder=folder).out.splitlines()[-1]
    printed = run_line(f"hubbub {found[2]}", folder)
    lines = [line.strip() for line in printed[printed.index("wrote ") :].splitlines()[1:]]
    assert [line.split()[0] for line in lines] == ["hubbub", "hubbub", "cp", "cp", "cp"]
    said = [run_line(line, folder) for line in lines]
    assert "all have signed" in said[1]
    deployment = folder / "deployment"
    for place in ("shuffler/tasks", "analyzer/tasks", "client"):
        assert (deployment / place / "task.json").read_bytes() == (folder / "task.json").read_bytes()


def test_plan_does_not_write_over_a_signed_task(deployment: Path, tmp_path: Path) -> None:
    """The services may run it, and this may be the operator's only copy."""
    task, keys = tmp_path / "task.toml", ("--trust", deployment / "operator/trust")
    shutil.copy(deployment / "operator/task.toml", task)
    signed = task.with_suffix(".json")
    shutil.copy(deployment / "operator/task.json", signed)
    assert hubbub_here("plan", task, "--out", signed, *keys).status == 0, "nobody has signed it yet"
    assert hubbub_here("sign", signed, "--key", deployment / "operator/identity.pem").status == 0
    before = signed.read_bytes()
    ran = hubbub_here("plan", task, "--out", signed, *keys)
    assert (ran.status, ran.out) == (2, "")
    new = tmp_path / "task.new.json"
    assert "task.json is a signed task, and nothing is written over its signatures" in ran.err
    assert f"name a new file with --out, such as {new}" in ran.err
    assert signed.read_bytes() == before
    last = hubbub_here("plan", task, "--no-compare", *keys).out.splitlines()[-1]
    assert last.startswith("next: ")
    assert f"--out {new} writes the task" in last


@pytest.mark.parametrize("name", ["operator/task.toml", "operator/identity.pem", "shuffler/shuffler.toml"])
def test_plan_does_not_write_over_what_is_no_task(deployment: Path, name: str) -> None:
    """A wrong name is soon given: the draft's own, with --out."""
    before = (out := deployment / name).read_bytes()
    ran = hubbub_here("plan", deployment / "operator/task.toml", "--out", out)
    assert (ran.status, ran.out, out.read_bytes()) == (2, "", before)
    assert f"{out} is there already and is no planned task, so it is not written over" in ran.err


def test_the_lines_for_a_second_task_leave_the_client_its_first(tmp_path: Path) -> None:
    folder = tmp_path / "deployment"
    assert hubbub_here("init", folder).status == 0
    (folder / "client/tasks").mkdir()  # of an application: a feed, in which nothing else may be
    draft = folder / "operator/task.toml"
    for name, told in (("usage", "task.json"), ("usage", "task.json"), ("colors", "colors.json")):
        out = folder / f"operator/{'task' if name == 'usage' else name}.json"
        draft.write_text(re.sub(r'(?m)^name = "\w+"', f'name = "{name}"', draft.read_text(), count=1))
        ran = hubbub_here("plan", draft, "--no-compare", "--out", out)
        assert ran.status == 0, ran.err
        assert "client/tasks" not in ran.out
        last = ran.out.splitlines()[-1].split()
        assert last == ["cp", str(out), str(folder / "client" / told)]
        run_line(" ".join(last), folder)


def run_line(line: str, folder: Path) -> str:
    """Run a printed line as a shell would; return what it prints."""
    program, *words = shlex.split(line)
    if program == "cp":
        shutil.copy(folder / words[0], folder / words[1])
        return ""
    ran = hubbub_here(*words, folder=folder)
    assert ran.status == 0, (line, ran.err)
    return ran.out


def test_plan_says_first_what_everyone_keeps_and_last_what_to_run_next(deployment: Path) -> None:
    task = deployment / "operator/task.toml"
    first, *middle, last = hubbub_here("plan", task).out.splitlines()
    assert first == (
        "task usage: everyone keeps ε ≤ 1 at δ = 1e-06, for all that they send in a round of at least 1,000 reports, "
        "if the shuffler is honest; everybody else may lie and work together, the analyzer too"
    )
    written = task.with_suffix(".json")
    assert last == f"next: hubbub plan {task} --out {written} writes the task, to be signed"
    assert sum(not re.match("[┏┃┡│└]", line) for line in middle) == 4, (
        "two on the columns, one on the rounds, one on --explain"
    )
    explained = hubbub_here("plan", task, "--explain").out.splitlines()
    assert {first, *middle[:-1]} < set(explained), "nothing of the short output is left out of the long one"
    assert len(explained) > len(middle) + 12


def test_plan_names_noise_first_against_liars(deployment: Path, tmp_path: Path) -> None:
    text = re.sub(r"(?m)^(noise|epsilon_total) = .*\n", "", (deployment / "operator/task.toml").read_text())
    task = tmp_path / "task.toml"
    task.write_text(text[: text.index('\n[[query]]\nname = "session"')])
    printed = hubbub_here("plan", task, "--no-compare")
    assert "if the shuffler and everyone who answers are honest" in printed.out.splitlines()[0]
    told = (
        r'that person has: ε ≤ [\d.]+; to keep ε ≤ 1 even then, set noise = "auto", and plan again; the standard errors'
    )
    assert re.search(rf"{told} become [\d.]+ for theme \(now [\d.]+\)", printed.out), printed.out
    assert "honest_share" not in printed.out
    explained = hubbub_here("plan", task, "--no-compare", "--explain").out
    assert explained.index('set noise = "auto"') < explained.index("or, without noise, set honest_share = ")
    flood = hubbub_here("plan", task, "--no-compare", "--json").json["flood"]
    assert flood["noise"]["noise"] == "auto"
    task.write_text(task.read_text().replace("[privacy] ", '[privacy]\nnoise = "auto" '))
    noisy = hubbub_here("plan", task, "--no-compare", "--json").json
    assert flood["noise"]["expected_standard_errors"] == {"theme": noisy["queries"][0]["expected_standard_error"]}
    assert noisy["flood"]["noise"] is None


def test_plan_says_in_words_what_its_columns_and_its_randomizers_are(deployment: Path) -> None:
    printed = hubbub_here("plan", deployment / "operator/task.toml", "--explain").out
    for column in ("k: ", "ε_local: ", "ε by itself: ", "95 % ±: ", "range: "):
        assert column in printed
    assert "theme: randomizer krr, gamma 0." in printed
    assert "theme: the shuffler adds noise: of each symbol a random number of reports, 78 on average" in printed
    assert "(geometric); 234 in all on average" in printed
    assert "a submission's envelope has 152 bytes;" in printed
    assert "no query's standard error is then more than 5 % above that without noise" in printed
    assert printed.count("krr: with probability gamma a device reports one of the k answers at random") == 1


def test_plan_counts_the_hops_in_trust_and_says_that_each_shuffler_adds_noise(tmp_path: Path) -> None:
    assert hubbub_here("init", "chain", "--hops", "3", folder=tmp_path).status == 0
    printed = hubbub_here("plan", tmp_path / "chain/operator/task.toml", "--explain").out
    assert "theme: each of the 3 shufflers adds noise: of each symbol a random number of reports, 78 on" in printed
    assert "(geometric); 702 in all on average" in printed
    assert "noise: one honest shuffler of the 3 is enough" in printed
    assert "the standard deviation of all noise is 1.73 times that of one shuffler's" in printed
    assert "noise: its ε holds if one of the 3 shufflers is honest; everybody else may lie" in printed


# tests/unit/planning/test_plan.py: `test_what_to_expect_names_the_randomizer_and_its_exact_probabilities`.
@pytest.mark.exhaustive
def test_plan_names_the_randomizer_that_a_query_asks_for(deployment: Path, tmp_path: Path) -> None:
    text = (deployment / "operator/task.toml").read_text()
    assert text.count("\n[[query]]") == 2
    task = tmp_path / "task.toml"
    task.write_text(text.replace('randomizer = "krr"', 'randomizer = "unary"'))
    keys = ("--out", tmp_path / "task.json", "--trust", deployment / "operator/trust")
    ran = hubbub_here("plan", task, *keys, "--json")
    assert ran.status == 0, ran.err
    theme, session = ran.json["queries"]
    assert (theme["randomizer"], session["randomizer"]) == ("unary", "krr")
    for key in ("truthful", "other"):
        assert re.fullmatch(r"\d+/4294967296", theme[key])
    assert SignedTask.decode((tmp_path / "task.json").read_bytes()).task.queries[0].randomizer.kind == "unary"
    table = hubbub_here("plan", task, "--explain").out
    assert "randomizer" in table
    for kind in ("unary", "krr"):
        assert kind in table


def test_plan_says_how_many_rounds_fit_the_budget_and_what_all_cost(deployment: Path, tmp_path: Path) -> None:
    text = (deployment / "operator/task.toml").read_text()
    assert "epsilon_total = 6.0" in text
    task = tmp_path / "task.toml"
    found = {}
    # The smaller totals have noise that is chosen for all rounds together.
    enough = spread(("6.0", "3.0", "2.0"), 1)
    for total in (*enough, "0.3"):
        task.write_text(text.replace("epsilon_total = 6.0", f"epsilon_total = {total}"))
        found[total] = hubbub_here("plan", task, "--json")
    for total in enough:
        budget = found[total].json["budget"]
        assert budget["rounds_within"] == budget["rounds"] == 7
        local = 7 * sum(query["epsilon_local"] for query in found[total].json["queries"])
        assert budget["epsilon_local_of_all_rounds"] == pytest.approx(local)
        assert [query["noise"] is not None for query in found[total].json["queries"]] == [True, True]
        assert budget["epsilon_total"] == float(total)
        assert 0.9 * float(total) < budget["epsilon_of_all_rounds"] <= float(total)
    assert found["0.3"].status == 1
    assert f"{NOT_EVEN_THE_FIRST} would be released" in found["0.3"].err


def test_plan_tells_people_of_the_budget(deployment: Path, tmp_path: Path) -> None:
    text = (deployment / "operator/task.toml").read_text()
    task = tmp_path / "task.toml"
    task.write_text(text.replace("epsilon_total = 6.0", "epsilon_total = 2.0"))
    ran = hubbub_here("plan", task)
    assert ran.status == 0
    alone = r"if all services collude, all 7 rounds cost ε ≤ \d\d; all rounds fit epsilon_total = 2"
    assert re.search(rf"all 7 rounds together ε ≤ 1\.\d+, at δ = 1e-06; {alone}", ran.out), ran.out
    task.write_text(re.sub(r"(?m)^epsilon_total.*\n", "", text))
    assert "no epsilon_total, so nothing limits what its rounds cost together" in hubbub_here("plan", task).out


def test_task_is_signed_by_operator_and_shuffler_only(deployment: Path, tmp_path: Path) -> None:
    task = tmp_path / "task.json"
    task.write_bytes((deployment / "operator/task.json").read_bytes())
    refused = hubbub("sign", task, "--key", deployment / "analyzer/identity.pem")
    assert refused.status == 1
    assert "operator" in refused.err
    assert hubbub("sign", task, "--key", deployment / "operator/identity.pem", "--json").json["missing"] == ["shuffler"]
    assert hubbub("sign", task, "--key", deployment / "shuffler/identity.pem", "--json").json["missing"] == []
    keys = [load_public(deployment / "client/trust" / f"{role}.pub.pem") for role in ("operator", "shuffler")]
    assert SignedTask.decode(task.read_bytes()).check(*keys).name == "usage"


def test_a_task_is_signed_though_nobody_reads_what_is_printed(deployment: Path, tmp_path: Path) -> None:
    task, key = tmp_path / "task.json", deployment / "operator/identity.pem"
    task.write_bytes((deployment / "operator/task.json").read_bytes())
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "hubbub.cli.main", "sign", str(task), "--key", str(key)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert (ended.returncode, ended.stderr) == (1, "error: stdout cannot be written: No space left on device\n")
    assert hubbub("sign", task, "--key", deployment / "shuffler/identity.pem", "--json").json["missing"] == []


def test_a_task_is_read_before_it_is_signed(deployment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By --show without a key; and with a key it is shown before the file is changed."""
    task, key = tmp_path / "task.json", deployment / "operator/identity.pem"
    before = (deployment / "operator/task.json").read_bytes()
    task.write_bytes(before)
    *shown, nothing, still = hubbub_here("sign", task, "--show").out.splitlines()
    assert (task.read_bytes(), still) == (before, "still to sign: operator and shuffler")
    assert nothing.startswith("nothing was signed; to sign is task usage (")
    files: list[bytes] = []

    def shows(*_: object) -> None:
        files.append(task.read_bytes())

    with monkeypatch.context() as patched:
        patched.setattr("hubbub.cli.tables.signed_task.print_task", shows)
        assert hubbub_here("sign", task, "--key", key).status == 0
    assert files == [before]
    *again, signed, still = hubbub_here("sign", task, "--key", key).out.splitlines()
    assert (again, still) == (shown, "still to sign: shuffler")
    assert signed == nothing.replace("nothing was signed; to sign is", "signed")
    assert hubbub_here("sign", task, "--show", "--json").json["missing"] == ["shuffler"]
    for words in ((), ("--show", "--key", key)):
        refused = hubbub_here("sign", task, *words)
        assert (refused.status, refused.out) == (2, "")
        assert "give the signer's private key with --key to sign, or --show alone" in refused.err


def test_another_task_than_the_one_shown_is_not_signed(
    deployment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, key = tmp_path / "task.json", deployment / "operator/identity.pem"
    shown = signed_task_in(deployment / "operator/task.json")
    task.write_bytes(shown.encode())
    other = SignedTask(replace(shown.task, name="other")).encode()
    monkeypatch.setattr("hubbub.cli.tables.signed_task.print_task", lambda *_: task.write_bytes(other))
    refused = hubbub_here("sign", task, "--key", key)
    assert refused.status == 1
    assert "task.json was changed while it was shown, so nothing was signed; run the command again" in refused.err
    assert task.read_bytes() == other


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"dark"', '"light"', "twice"),
        ("lower = 0", "lower = 200", "not below upper"),
        ("delta = 1e-6", "delta = 1", "privacy.delta"),
        ("optional", "optinal", "optinal"),
        ("rounds = 7", "rounds = 0", "task.rounds"),
        ('randomizer = "krr"', 'randomizer = "rappor"', "it must be 'krr' or 'unary'"),
        ("epsilon = 1.0", "epsilon = -1", "privacy.epsilon"),
        ("honest_share = 1.0", "honest_share = 2", "honest_share"),
        ("epsilon_total = 6.0", "epsilon_total = -3", "privacy.epsilon_total"),
        ("# dummies = 1000", "dummies = 0.5", "privacy.dummies"),
        ("# dummies = 1000", "dummies = 1000", "leave one out"),
        ('["light", "dark", "system"]', "[]", "categories"),
        ("minimum_reports = 1000", "minimum_reports = 1", "minimum_reports"),
        ("[privacy]", "[privacy", "not TOML"),
    ],
)
def test_wrong_task_is_refused_with_its_line(deployment: Path, tmp_path: Path, old: str, new: str, says: str) -> None:
    text = (deployment / "operator/task.toml").read_text()
    assert old in text
    task = tmp_path / "task.toml"
    task.write_text(text.replace(old, new))
    ran = hubbub_here("plan", task)
    assert ran.status == 1
    assert says in ran.err
    assert "line " in ran.err
    assert "Traceback" not in ran.err


def test_task_with_useless_estimates_is_refused_with_the_minimum_that_would_do(
    tmp_path: Path, deployment: Path
) -> None:
    text = (deployment / "operator/task.toml").read_text()
    task = tmp_path / "task.toml"
    task.write_text(
        text.replace("minimum_reports = 1000", "minimum_reports = 20").replace("epsilon = 1.0", "epsilon = 0.2")
    )
    ran = hubbub_here("plan", task)
    assert ran.status == 1
    enough = re.search(r"minimum_reports = (\d+) is enough", ran.err)
    assert enough is not None, ran.err
    task.write_text(task.read_text().replace("minimum_reports = 20", f"minimum_reports = {enough[1]}"))
    assert hubbub_here("plan", task).status == 0


def test_simulate_compares_with_the_truth(tmp_path: Path, deployment: Path) -> None:
    rows = ["theme,minutes", *(f"{('dark', 'light')[row % 2]},{row % 100 if row % 3 else ''}" for row in range(3000))]
    (tmp_path / "usage.csv").write_text("\n".join(rows))
    words = ("--data", tmp_path / "usage.csv", "--column", "session=minutes", "--json")
    ran = hubbub_here("simulate", deployment / "operator/task.toml", *words)
    assert ran.status == 0, ran.err
    theme, session = ran.json["queries"]
    assert {row["category"]: row["truth"] for row in theme["estimates"]} == {"dark": 1500, "light": 1500, "system": 0}
    assert session["estimates"][0]["truth"] == 2000
    # Seven estimates, each beyond twelve standard errors with probability 1e-14 at most, with noise too.
    assert all(abs(row["error_in_standard_errors"]) < 12 for query in (theme, session) for row in query["estimates"])
    assert ran.json["privacy"]["round_total"]["epsilon_upper"] <= 1


def test_simulate_compares_randomizers_on_a_column(tmp_path: Path) -> None:
    rows = ["theme,minutes", *(f"{'dark' if row % 3 else 'light'},{row % 7}" for row in range(400))]
    (tmp_path / "usage.csv").write_text("\n".join(rows) + "\n")
    words = ("--data", tmp_path / "usage.csv", "--column", "theme", "--compare", "unary,krr", "--epsilon", "4")
    ran = hubbub_here("simulate", *words, "--reports", "100", "--repeat", "3", "--plot", tmp_path / "a.svg", "--json")
    assert ran.status == 0, ran.err
    (question,) = ran.json["questions"]
    assert [(each["randomizer"], each["reports"]) for each in question["compared"]] == [("unary", 100), ("krr", 100)]
    assert all(row["seen"] > 0 for each in question["compared"] for row in each["statistics"])
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    ran = hubbub_here("simulate", *words, "--plot", tmp_path / "a.pdf")
    assert (ran.status, ran.err.startswith("error: --plot ")) == (2, True), ran.err


PRIVATE = ("--epsilon", "2", "--local-epsilon", "4")


def test_simulate_names_the_randomizers_there_are(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("theme\nlight\ndark\n")
    ran = hubbub_here("simulate", "--data", tmp_path / "usage.csv", "--column", "theme", "--compare", "krr,rappor")
    assert ran.status == 2
    assert "--compare 'rappor': the randomizers are krr, unary, hashed, or all" in ran.err


def test_simulate_compares_strategies_of_a_boolean_over_time(tmp_path: Path) -> None:
    rows = ["a,b", *("yes,no" if row % 3 else "no,no" for row in range(300))]
    (tmp_path / "states.csv").write_text("\n".join(rows) + "\n")
    words = ["simulate", "--data", str(tmp_path / "states.csv"), "--changes", "1", "--compare", "vector,direct"]
    over_time = [*words, "--column", "a", "--column", "b", "--repeat", "2", "--reports", "300"]
    done = CliRunner().invoke(build(["simulate"]), [*over_time, "--steady-share", "1", *PRIVATE, "--json"])
    assert done.exit_code == 0, done.stderr
    (document,) = json.loads(done.stdout)["questions"]
    assert [each["strategy"] for each in document["compared"]] == ["vector", "direct"]
    assert document["notes"] == ["200 devices changed more often; further changes are ignored"]
    assert all(each["why_not"] is None for each in document["compared"])
    unstated = CliRunner().invoke(build(["simulate"]), [*over_time, *PRIVATE, "--json"])
    (document,) = json.loads(unstated.stdout)["questions"]
    assert "or --steady-share of a command" in document["compared"][0]["why_not"]
    shown = CliRunner().invoke(build(["simulate"]), [*over_time[:-1], "200,300", *PRIVATE, "--compare", "all"])
    assert shown.stdout.count("certified by the people of one level who answer every round") == 1
    assert "\nsampled and vector at 200 and 300 reports: certified by " in shown.stdout
    refused = CliRunner().invoke(build(["simulate"]), [*words, "--column", "a"])
    assert refused.exit_code == 2
    assert "one --column for each period in order" in refused.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--column", "theme", "--compare", "krr,magic"), "--compare 'magic': the randomizers are krr,"),
        (("--column", "theme", "--compare", "krr", "--reports", "100,1000000"), "give numbers from 2 to 4"),
        (("--column", "theme", "--compare", "krr", "--reports", "many"), "is not N,N"),
        (("--compare", "krr"), "name at least one"),
        (("--column", "theme", "--epsilon", "1"), "--epsilon needs --compare"),
        (("--column", "theme", "--compare", "krr", "--steady-share", "1"), "--steady-share needs --changes"),
        (("--column", "theme", "--steady-share", "1"), "--steady-share needs --compare"),
    ],
)
def test_simulate_says_what_compare_needs(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "usage.csv").write_text("theme\ndark\nlight\ndark\nlight\n")
    done = CliRunner().invoke(build(["simulate"]), ["simulate", "--data", str(tmp_path / "usage.csv"), *words])
    assert done.exit_code == 2
    assert says in done.stderr


def test_simulate_refuses_data_that_does_not_fit(tmp_path: Path, deployment: Path) -> None:
    (tmp_path / "usage.csv").write_text("theme,session\nblue,1\ndark,2\n")
    ran = hubbub_here("simulate", deployment / "operator/task.toml", "--data", tmp_path / "usage.csv")
    assert ran.status == 1
    assert "theme" in ran.err
    assert "blue" in ran.err


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Parties]:
    parties = Parties.generate()
    task = sample_task(parties)
    folder = tmp_path_factory.mktemp("certificate")
    path = folder / "certificate.json"
    path.write_bytes(encode(content_of(task, parties, [counts(task, 0, 50)]), parties))
    for role in ("operator", "shuffler", "analyzer"):
        getattr(parties, role).save_public(folder / f"{role}.pub.pem")
    return path, parties


def _pins(folder: Path) -> list[str]:
    return [
        word
        for role in ("operator", "shuffler", "analyzer")
        for word in (f"--{role}-key", str(folder / f"{role}.pub.pem"))
    ]


def test_verify_holds_with_all_signers_pinned(certificate: tuple[Path, Parties]) -> None:
    path, _ = certificate
    ran = hubbub_here("verify", path, *_pins(path.parent), "--json")
    assert ran.status == 0
    assert (ran.json["verified"], ran.json["signers_pinned"]) == (True, True)


def test_verify_without_keys_says_signers_not_pinned(certificate: tuple[Path, Parties]) -> None:
    path, parties = certificate
    ran = hubbub_here("verify", path)
    assert ran.status == 0
    assert "signers not pinned" in ran.out
    assert "  privacy of each person whose device is honest, in this round, at δ = " in ran.out
    assert parties.operator.public.hex()[:8] in ran.out


def test_verify_says_which_signers_are_not_pinned(certificate: tuple[Path, Parties]) -> None:
    path, _ = certificate
    ran = hubbub_here("verify", path, *_pins(path.parent)[:4])
    assert ran.status == 0
    assert "; operator and shuffler are as pinned, analyzer not\n" in ran.out
    assert "signers not pinned (analyzer): " in ran.out
    assert ran.out.splitlines()[-6::2] == ["  operator, as pinned", "  shuffler, as pinned", "  analyzer"]


def test_verify_refuses_a_tampered_certificate(certificate: tuple[Path, Parties], tmp_path: Path) -> None:
    path, _ = certificate
    tampered = tmp_path / "certificate.json"
    tampered.write_bytes(path.read_bytes().replace(b'"valid":50', b'"valid":60', 1))
    ran = hubbub_here("verify", tampered)
    assert ran.status == 1
    assert "is not valid" in ran.err


def test_verify_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    ran = hubbub_here("verify", tmp_path / "nothing.json")
    assert ran.status == 1
    assert "nothing.json" in ran.err
    assert os.linesep in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "FILE"),
        ("simulate", "FILE", "--data", "FILE"),
        ("sign", "FILE", "--key", "operator/identity.pem"),
        ("close", "operator/operator.toml", "FILE"),
        ("status", "FILE"),
        ("verify", "FILE"),
    ],
)
def test_a_file_of_another_kind_is_named_and_nothing_worse_happens(deployment: Path, words: tuple[str, ...]) -> None:
    (deployment / "binary").write_bytes(bytes(range(256)))
    ran = hubbub(*(word.replace("FILE", "binary") for word in words), "--json", folder=deployment)
    assert ran.status == 1
    assert set(ran.json) == {"error"}
    assert "Traceback" not in ran.err
    assert "binary" in ran.json["error"]


def test_results_that_nobody_answers_for_are_an_error(deployment: Path) -> None:
    settings = deployment / "operator" / "nobody.toml"
    text = (settings.parent / "operator.toml").read_text()
    # A port at which nothing listens, whatever else runs on this machine.
    settings.write_text(re.sub(r"(?m)^analyzer_results = \S+", 'analyzer_results = "127.0.0.1:1"', text))
    ran = hubbub("results", settings, "--task", "z" * 64, "--round", "0", "--wait", "1")
    assert ran.status == 1
    assert "the call is repeated: the analyzer at 127.0.0.1:1 did not answer" in ran.err
    assert ran.err.splitlines()[-1].startswith("error: the analyzer at 127.0.0.1:1 did not answer")


def test_a_demo_with_a_range_upside_down_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("minutes\n" + "1.5\n" * 50)
    ran = hubbub_here("demo", "--data", tmp_path / "data.csv", "--sum", "minutes:9:1")
    assert ran.status == 2
    assert "LOWER 9 must be below UPPER 1" in ran.err


SAVING = {
    "plan": ("plan", "task.toml", "--out", "saved.json"),
    "sign": ("sign", "saved.json", "--key", "identity.pem"),
    "plot": (
        *("account", "plot", "--mechanism", "krr", "--categories", "16", "--local-epsilon", "4", "--delta", "1e-6"),
        *(
            "--over",
            "reports",
            "--from",
            "1e3",
            "--to",
            "1e4",
            "--points",
            "2",
            "--bound",
            "clones",
            "--out",
            "saved.svg",
        ),
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SAVING)
def test_what_was_saved_before_survives_a_file_that_cannot_be_written(
    name: str, deployment: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "operator"
    shutil.copytree(deployment / "operator", folder)
    saved = folder / ("saved.svg" if name == "plot" else "saved.json")
    shutil.copy(folder / "task.json", saved)
    # No file may become longer than nothing at all, as on a full disk.
    limited = ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", sys.executable, "-m", "hubbub.cli.main", *SAVING[name]]
    done = subprocess.run(limited, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"error: {saved.name} cannot be written: File too large; "
        "raise the limit on a file's size (ulimit -f), or name another file"
    )
    assert saved.read_bytes() == (folder / "task.json").read_bytes()
    assert not list(folder.glob(".hubbub-*"))


def test_a_reader_that_leaves_is_not_a_certificate_that_does_not_hold(certificate: tuple[Path, Parties]) -> None:
    path, _ = certificate
    words = [sys.executable, "-m", "hubbub.cli.main", "verify", str(path)]
    script = 'set -o pipefail; "$@" | true'
    done = subprocess.run(["bash", "-c", script, "-", *words], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")
