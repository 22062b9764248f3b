"""Whole numbers may be written as people write them, in every option that takes one and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.cli.app import _options
from hubbub.cli.registry import NEEDS
from hubbub.cli.whole_numbers import written_out
from support.cli import hubbub_here

OPTIONS = {"--reports", "--rounds"}


@pytest.mark.parametrize(
    ("word", "digits"),
    [
        ("5e4", "50000"),
        ("5E4", "50000"),
        ("5e+4", "50000"),
        ("1.5e3", "1500"),
        ("50_000", "50000"),
        ("1_000_000", "1000000"),
        ("0e5", "0"),
        ("50000", "50000"),
        ("5.5e0", "5.5e0"),
        ("5e-4", "5e-4"),
        ("1_00", "1_00"),
        ("1e999", "1e999"),
        ("9" * 21 + "e1", "9" * 21 + "e1"),
        ("٥e4", "٥e4"),
        ("-5e4", "-5e4"),
        ("", ""),
    ],
)
def test_a_whole_number_is_written_out_and_nothing_else_is_changed(word: str, digits: str) -> None:
    assert written_out(["--reports", word], OPTIONS) == ["--reports", digits]
    assert written_out([f"--reports={word}"], OPTIONS) == [f"--reports={digits}"]
    assert written_out(["--data", word, f"--column={word}", word], OPTIONS) == [
        "--data",
        word,
        f"--column={word}",
        word,
    ]


def test_every_command_has_its_options_of_whole_numbers() -> None:
    found = _options(int, list(NEEDS))
    assert {"--reports", "--rounds", "--categories", "--devices", "--dummies", "--seed", "--workers"} <= found
    assert not {"--data", "--delta", "--column", "--gamma", "--sampling-rate"} & found


def test_numbers_are_taken_as_people_write_them() -> None:
    """A count, a rate and a probability, in a command that takes all three."""
    asked = ("account", "epsilon", "--mechanism", "krr", "--categories", "20", "--delta", "1e-6", "--json")
    for gamma in ("0.25", "1/4", "2.5e-1", "1073741824/4294967296"):
        plain = hubbub_here(*asked, "--gamma", gamma, "--reports", "50000", "--sampling-rate", "0.001")
        short = hubbub_here(*asked, "--gamma", gamma, "--reports", "5e4", "--sampling-rate", "1e-3")
        assert plain.status == short.status == 0, plain.err
        assert plain.json["epsilon_upper"] == short.json["epsilon_upper"] > 0


@pytest.mark.parametrize("gamma", ["a quarter", "1e-9999", "1/0", "1e", "--", "1//4"])
def test_what_is_no_probability_is_refused_with_the_forms(gamma: str) -> None:
    asked = ("account", "epsilon", "--mechanism", "krr", "--categories", "20", "--delta", "1e-6", "--reports", "5e4")
    ran = hubbub_here(*asked, f"--gamma={gamma}")
    assert ran.status == 2
    assert "give a number above 0 and at most 1 such as 0.25 or 1/4, or W/4294967296" in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("word", "decimal"),
    [
        ("1/4", "0.25"),
        ("1/1000000", "1e-06"),
        ("50_000", "50000"),
        ("1e-6", "1e-6"),
        ("1/0", "1/0"),
        ("1/-4", "1/-4"),
        ("1/2/3", "1/2/3"),
        ("", ""),
    ],
)
def test_a_ratio_is_taken_by_every_option_of_a_number(word: str, decimal: str) -> None:
    assert written_out(["--delta", word], OPTIONS, {"--delta"}) == ["--delta", decimal]
    assert written_out([f"--delta={word}"], OPTIONS, {"--delta"}) == [f"--delta={decimal}"]
    assert written_out(["--reports", "1/4", word], OPTIONS, {"--delta"}) == ["--reports", "1/4", word]


@pytest.mark.parametrize("command", NEEDS)
def test_no_option_is_a_number_in_one_command_and_a_text_in_the_next_of_its_group(command: str) -> None:
    names = [command]
    assert _options(float, names) & (_options(str, names) | _options(Path, names) | _options(int, names)) == set()


def test_numbers_are_taken_in_every_form_by_options_of_any_number() -> None:
    asked = ("account", "epsilon", "--mechanism", "krr", "--categories", "20", "--gamma", "1/4", "--reports", "5e4")
    plain = hubbub_here(*asked, "--delta", "1e-6", "--honest-share", "0.5", "--json")
    ratio = hubbub_here(*asked, "--delta", "1/1000000", "--honest-share", "1/2", "--json")
    assert plain.status == ratio.status == 0, ratio.err
    assert plain.json["epsilon_upper"] == ratio.json["epsilon_upper"]
