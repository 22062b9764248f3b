"""Numbers may be written as people write them, in every option of every command that takes one and nowhere else."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from hubbub.cli import app
from hubbub.cli.app import _options
from hubbub.cli.options.numbers import written_out
from hubbub.cli.registry import NEEDS
from support.cli import hubbub_here
from support.commands import LEAVES, Leaf, given, option

WHOLE = {"1e3": 1000, "1e+3": 1000, "1_000": 1000, "1000": 1000}
"""Forms of whole numbers; other options take them too."""

OTHER = {"1/4": 0.25, ".25": 0.25, "25%": 0.25, "2.5e-1": 0.25}
"""Forms that only an option of any number takes."""

WITH_NUMBERS = {
    "--gamma",
    "--truthful",
    "--other",
    "--sampling-rate",
    "--noise",
    "--devices",
    "--reports",
    "--steps",
    "--error",
    "--limit",
    "--sum",
}
"""Options of texts with a number in them; tests below write each in another form."""

WITHOUT_NUMBERS = {
    "--bound --randomizer --host --decimal --histogram --missing --postgres --task --thousands --by --over-time --text",
    "--analyzer-host --analyzer-listen --analyzer-store --frontend-host --hop-host --hop-listen --shuffler-host",
    "--shuffler-listen --shuffler-store --standby-host --begins --column --alphabet --give-up --role --compare",
    "--device --period --answer --name --listen --reader --purpose --log-key --witness",
}
"""Options of texts without: names, times, addresses, and answers, which are data and written as a file has them."""


RANGE = re.compile("in the range|should be (less|greater) than")
"""What the parser says of a number that it has read."""


def understood(leaf: Leaf, parameter: Any, form: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the command gets for a number in this form; None if the parser says that it is out of the option's range."""
    got: dict[str, Any] = {}

    def listening(_: str, run: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(run)
        def listens(**options: Any) -> None:
            got.update(options)

        return listens

    monkeypatch.setattr(app, "_needing", listening)
    said: list[str] = []
    monkeypatch.setattr(typer.BadParameter, "show", lambda error: said.append(error.format_message()))
    status = app.run([leaf.words[0]], given(leaf, parameter, form))
    if status == 2 and RANGE.search(said[-1]):
        return None
    return got[parameter.name] if status == 0 else said[-1]


NUMBERS = [
    pytest.param(leaf, each, id=f"{leaf.name} {option(each)}")
    for leaf in LEAVES
    for each in leaf.parameters
    if leaf.kind(each) in (int, float)
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("leaf", "parameter"), NUMBERS)
def test_every_option_of_a_number_takes_every_form(leaf: Leaf, parameter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    is_whole = leaf.kind(parameter) is int
    for form, number in {**WHOLE, **({} if is_whole else OTHER)}.items():
        assert understood(leaf, parameter, form, monkeypatch) in (number, None), form
    for form in OTHER if is_whole else ("1,000",):
        forms = "1000, 1_000 or 1e3" if is_whole else "0.25, .25, 1/4, 25% or 2.5e-1"
        assert forms in str(understood(leaf, parameter, form, monkeypatch)), form


def test_every_option_of_a_text_is_known_to_have_a_number_or_none() -> None:
    texts = {option(each) for leaf in LEAVES for each in leaf.parameters if leaf.kind(each) is str and option(each)}
    assert texts == WITH_NUMBERS | {each for line in WITHOUT_NUMBERS for each in line.split()}


KRR = ("account", "epsilon", "--mechanism", "krr", "--categories", "2e1", "--delta", "1e-6", "--json")
RAPPOR = ("account", "epsilon", "--mechanism", "rappor", "--categories", "4", "--delta", "1e-6", "--json")


@pytest.mark.parametrize(
    ("words", "plain", "forms"),
    [
        ((*KRR, "--reports", "1_000", "--gamma"), "0.25", ("1/4", "25%", ".25", "2.5e-1", "1_000/4_000", "2.5e-01")),
        ((*KRR, "--reports", "1_000", "--gamma", "1/4", "--sampling-rate"), "0.25", ("1/4", "25%", ".25")),
        ((*RAPPOR, "--reports", "1_000", "--other", "10%", "--truthful"), "0.25", ("1/4", "25%", ".25")),
        ((*RAPPOR, "--reports", "1_000", "--truthful", "50%", "--other"), "0.25", ("1/4", "25%", ".25")),
        ((*KRR, "--reports", "1e3", "--gamma", "1/4", "--noise"), "geometric:0.5:10", ("geometric:50%:1e1",)),
        ((*KRR, "--reports", "1e3", "--gamma", "1/4", "--noise"), "geometric:0.5:10", ("geometric:1/2:1e+1",)),
    ],
)
def test_a_text_with_a_number_takes_every_form(words: tuple[str, ...], plain: str, forms: tuple[str, ...]) -> None:
    found = hubbub_here(*words, plain)
    assert found.status == 0, found.err
    for form in forms:
        other = hubbub_here(*words, form)
        assert other.status == 0, other.err
        assert {**other.json, "seconds": 0} == {**found.json, "seconds": 0}


def test_lists_limits_and_errors_take_every_form() -> None:
    from hubbub.cli.commands.demo import _dataset
    from hubbub.cli.commands.plan import _error_in
    from hubbub.cli.comparisons.randomizers import sizes_of
    from hubbub.deploy.demo.scenarios.registry import scenario_named
    from hubbub.deploy.load.run import checked_schedule
    from hubbub.planning.simulate.dataset import SumSpec

    assert sizes_of("1e3, 2_000", 5000) == [1000, 2000]
    schedule = checked_schedule(None, "1e2, 5/2,50%", None, None, 1.0, 1, 1.0)
    assert [step.rate for step in schedule.steps] == [100, 2.5, 0.5]
    assert _error_in("carrier=1_000", "1_000") == 1000
    assert SumSpec.parse("delay:-1e1:1_000") == SumSpec("delay", -10, 1000)
    assert _dataset(scenario_named("flights"), "1e3", 0, 10).devices == 1000


def test_every_command_has_its_options_of_whole_numbers() -> None:
    found = _options(int, list(NEEDS))
    assert {"--reports", "--rounds", "--categories", "--devices", "--dummies", "--seed", "--workers"} <= found
    assert not {"--data", "--delta", "--column", "--gamma", "--sampling-rate"} & found


@pytest.mark.parametrize("gamma", ["a quarter", "1e-9999", "1/0", "1e", "--", "1//4"])
def test_what_is_no_probability_is_refused_with_the_forms(gamma: str) -> None:
    asked = ("account", "epsilon", "--mechanism", "krr", "--categories", "20", "--delta", "1e-6", "--reports", "5e4")
    ran = hubbub_here(*asked, f"--gamma={gamma}")
    assert ran.status == 2
    assert "such as 0.25, .25, 1/4, 25% or 2.5e-1, or W/4294967296" in " ".join(ran.err.split())


def test_only_values_of_such_options_are_changed() -> None:
    whole, other = {"--reports"}, {"--delta"}
    assert written_out(["--reports", "5e4", "--delta=1/4"], whole, other) == ["--reports", "50000", "--delta=0.25"]
    for words in (["--data", "5e4", "--column=5e4", "5e4"], ["--reports", "1/4", "1/4"], ["--delta", "x", "1/4"]):
        assert written_out(words, whole, other) == words


@pytest.mark.parametrize("text", [" 7", "7 ", "7\t", "1_00", "1_0e1", "\u0667", "\uff17", " 0.5"])
def test_what_only_the_library_takes_for_a_number_is_refused(text: str) -> None:
    for words in (("account", "bounds", "--reports"), ("account", "bounds", "--delta")):
        ran = hubbub_here(*words, text)
        assert ran.status == 2
        assert re.search("it is no (whole )?number; write one as", " ".join(ran.err.split())), ran.err


@pytest.mark.parametrize("command", NEEDS)
def test_no_option_is_a_number_in_one_command_and_a_text_in_the_next_of_its_group(command: str) -> None:
    names = [command]
    assert _options(float, names) & (_options(str, names) | _options(Path, names) | _options(int, names)) == set()
