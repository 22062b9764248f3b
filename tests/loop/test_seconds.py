"""`seconds.py` asks every kind, draws the same questions again, and names what takes too long or is a fault."""

from __future__ import annotations

from itertools import islice

import pytest
from loop import seconds


@pytest.mark.parametrize("kind", list(seconds.KINDS))
def test_every_kind_is_asked(kind: str) -> None:
    asked = [seconds.Asked(kind, what, 1.0, 2, 1, 0, 1e-6) for what in ("epsilon", "delta", "rdp")]
    said = [seconds.seconds_of(each)[1] for each in asked]
    # Gaussian noise has no local ε, and so no rounds; everything else of one round is answered.
    assert set(said) <= {"", "OutsideConditions"}
    assert said[:2] == ["", ""]


def test_a_seed_draws_the_same_questions_again() -> None:
    first, second = (list(islice(seconds.questions(5, list(seconds.KINDS), seconds.WHAT), 200)) for _ in range(2))
    assert first == second
    assert {each.kind for each in first} == set(seconds.KINDS)
    assert {each.what for each in first} == set(seconds.WHAT)


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
