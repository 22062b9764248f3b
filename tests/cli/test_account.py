"""`hubbub account`: values agree with the reference, bad use is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli import hubbub

REFERENCE = json.loads((Path(__file__).parents[1] / "vectors" / "accountant.json").read_text())
KRR = ("--mechanism", "krr", "--categories", "16", "--local-epsilon", "4", "--reports", "10000")


def test_epsilon_brackets_the_reference_value() -> None:
    ran = hubbub("account", "epsilon", *KRR, "--delta", "1e-6", "--json")
    assert ran.status == 0
    exact = REFERENCE["krr_epsilon"][1]
    assert exact["blanket_exact"] <= ran.json["epsilon_upper"] <= exact["blanket_exact"] * 1.0001
    assert exact["krr_lower_exact"] * 0.9999 <= ran.json["epsilon_lower"] <= exact["krr_lower_exact"]
    assert ran.json["epsilon_local"] == 4.0
    assert (ran.json["bound"], ran.json["delta"]) == ("blanket", 1e-6)
    assert set(ran.json) == {
        "epsilon_upper",
        "epsilon_lower",
        "epsilon_local",
        "delta",
        "bound",
        "source",
        "numerical_slack",
        "seconds",
    }


def test_delta_brackets_the_reference_value() -> None:
    ran = hubbub("account", "delta", *KRR, "--epsilon", "0.36", "--json")
    exact = REFERENCE["krr_delta"][1]["blanket_exact"]
    assert ran.status == 0
    assert exact <= ran.json["delta_upper"] <= exact * 1.001
    assert ran.json["delta_lower"] <= ran.json["delta_upper"]


def test_calibrate_sum_reaches_the_reference_error() -> None:
    ran = hubbub(
        "account",
        "calibrate",
        "--query",
        "sum",
        "--epsilon",
        "0.5",
        "--delta",
        "1e-8",
        "--reports",
        "1000000",
        "--json",
    )
    assert ran.status == 0
    assert ran.json["mse"] <= 1995
    assert ran.json["epsilon_upper"] <= 0.5


def test_calibrate_histogram_meets_its_target() -> None:
    words = ("--epsilon", "1", "--delta", "1e-6", "--reports", "20000", "--json")
    ran = hubbub("account", "calibrate", "--query", "histogram", "--categories", "16", *words)
    assert ran.status == 0
    assert 0.999 < ran.json["epsilon_upper"] <= 1


def test_calibrate_says_the_exact_probabilities_of_each_randomizer() -> None:
    words = ("account", "calibrate", "--query", "histogram", "--categories", "16", "--epsilon", "1", "--delta", "1e-6")
    crowd = (*words, "--reports", "20000", "--json")
    plain, named, unary = hubbub(*crowd), hubbub(*crowd, "--randomizer", "krr"), hubbub(*crowd, "--randomizer", "unary")
    assert {key: value for key, value in plain.json.items() if key != "seconds"}.items() <= named.json.items()
    assert (plain.json["randomizer"], unary.json["randomizer"]) == ("krr", "unary")
    for ran, names in ((plain, {"gamma"}), (unary, {"truthful", "other"})):
        assert ran.status == 0
        assert {name.removesuffix("_exact") for name in ran.json if name.endswith("_exact")} == names
        for name in names:
            numerator, _, denominator = ran.json[f"{name}_exact"].partition("/")
            assert int(denominator) == 2**32
            assert ran.json[name] == int(numerator) / 2**32
        assert 0.999 < ran.json["epsilon_upper"] <= 1
        assert (ran.json["categories"], ran.json["levels"]) == (16, None)
    assert unary.json["other"] < unary.json["truthful"]


def test_calibrate_names_the_randomizers_there_are() -> None:
    words = ("--query", "sum", "--epsilon", "1", "--delta", "1e-6", "--reports", "1000", "--randomizer", "rappor")
    ran = hubbub("account", "calibrate", *words)
    assert ran.status == 2
    assert "randomizer is 'rappor'; it must be 'krr' or 'unary'" in ran.err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--query", "histogram"), "a histogram needs --categories"),
        (("--query", "sum", "--categories", "3"), "a sum takes none"),
        (("--query", "histogram", "--categories", "1"), "categories is 1"),
        (("--query", "sum", "--honest-share", "2"), "honest_share is 2.0"),
    ],
)
def test_calibrate_tells_bad_options_from_failures(more: tuple[str, ...], says: str) -> None:
    ran = hubbub("account", "calibrate", "--epsilon", "1", "--delta", "1e-6", "--reports", "1000", *more)
    assert ran.status == 2
    assert says in ran.err


def test_exact_gamma_is_taken_as_tasks_write_it() -> None:
    words = ("--mechanism", "krr", "--categories", "4", "--gamma", "1073741824/4294967296", "--reports", "1000")
    ran = hubbub("account", "delta", *words, "--epsilon", "0.5", "--json")
    exact = REFERENCE["krr_delta"][2]["blanket_exact"]
    assert exact <= ran.json["delta_upper"] <= exact * 1.001


def test_people_get_a_table() -> None:
    ran = hubbub("account", "epsilon", *KRR, "--delta", "1e-6")
    assert ran.status == 0
    assert ran.out.startswith("epsilon_upper")
    told = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert all(float(told[name]) == float(f"{float(told[name]):.2g}") for name in ("numerical_slack", "seconds"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ((*KRR, "--delta", "0"), 2, "delta"),
        ((*KRR, "--delta", "nan"), 2, "delta"),
        ((*KRR, "--gamma", "1/4294967296", "--delta", "1e-6"), 2, "exactly one"),
        (("--mechanism", "krr", "--local-epsilon", "1", "--reports", "10", "--delta", "1e-6"), 2, "--categories"),
        (
            ("--mechanism", "krr", "--categories", "4", "--gamma", "a third", "--reports", "9", "--delta", "1e-6"),
            2,
            "4294967296",
        ),
        (("--mechanism", "nothing", "--reports", "10", "--delta", "1e-6"), 2, "--mechanism"),
        ((*KRR,), 2, "--delta"),
        ((*KRR, "--delta", "1e-6", "--bound", "nothing"), 2, "blanket"),
    ],
)
def test_bad_use_says_what_is_wrong(words: tuple[str, ...], status: int, says: str) -> None:
    ran = hubbub("account", "epsilon", *words)
    assert ran.status == status
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_failure_with_json_is_one_document() -> None:
    ran = hubbub("account", "epsilon", *KRR, "--delta", "2", "--json")
    assert ran.status == 2
    assert "delta" in ran.json["error"]
