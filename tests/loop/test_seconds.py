"""`seconds.py` asks every kind, draws the same questions again, and names what takes too long or is a fault."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from loop import seconds
from loop.command_seconds import COMMANDS


@pytest.mark.parametrize("kind", list(seconds.KINDS))
def test_every_kind_is_asked(kind: str) -> None:
    asked = [seconds.Asked(kind, what, 1.0, 2, 1, 0, 1e-6) for what in ("epsilon", "delta", "rdp")]
    said = [seconds.seconds_of(each)[1] for each in asked]
    # Gaussian noise has no local ε, and so no rounds; everything else of one round is answered.
    assert set(said) <= {"", "OutsideConditions"}
    assert said[:2] == ["", ""]


def test_rounds_of_noise_without_a_local_epsilon_are_refused_and_no_fault() -> None:
    assert seconds.seconds_of(seconds.Asked("gaussian", "compose", 1.0, 2, 3, 0, 1e-6))[1] == "OutsideConditions"


def test_a_seed_draws_the_same_questions_again() -> None:
    asked = list(seconds.KINDS), seconds.WHAT, list(COMMANDS)
    first, second = (list(islice(seconds.questions(5, *asked), 200)) for _ in range(2))
    assert first == second
    assert {each.kind for each in first if isinstance(each, seconds.Asked)} == set(seconds.KINDS)
    assert {each.what for each in first} == {*seconds.WHAT, *COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_question_of_a_command_is_answered(command: str) -> None:
    """Some cannot be: no randomizer meets the target, or a bound does not apply."""
    said = [seconds.seconds_of(COMMANDS[command](random.Random(f"{command}:{number}")))[1] for number in range(2)]
    assert set(said) <= {"", "OutsideConditions", "UnmetTarget", "UnmetTask"}


def test_a_command_alone_is_asked_no_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    assert seconds.main(["--minutes", "0", "--what", "plot", "--limit", "0"]) == 1
    assert "1 questions, 1 over 0 s" in (said := capsys.readouterr().out)
    assert "Plotted(" in said


def test_what_takes_longer_than_the_limit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--minutes", "0", "--kind", "krr-16", "--what", "epsilon"]
    assert seconds.main([*asked, "--limit", "0"]) == 1
    said = capsys.readouterr().out
    assert "1 questions, 1 over 0 s, 0 faults" in said
    assert "Asked(kind='krr-16', what='epsilon'" in said
    assert seconds.main([*asked, "--limit", "1000"]) == 0


def test_a_fault_is_named_whatever_it_took(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(seconds, "epsilon_bracket", wrong)
    assert seconds.main(["--minutes", "0", "--limit", "1000", "--kind", "krr-3", "--what", "epsilon"]) == 1
    assert "1 faults" in capsys.readouterr().out
