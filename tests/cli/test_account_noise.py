"""`hubbub account … --noise FAMILY:PARAMETER:REACH`: noise of the shuffler beside kRR.

The commands run in this process, as `hubbub` itself would.
"""

from __future__ import annotations

import contextlib
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant import KRR, NoiseLaw, Part, WithNoise, compose, delta_bracket, epsilon_bracket, rdp_upper
from hubbub.cli.main import main
from support.cli import Ran

KRR_16 = ("--mechanism", "krr", "--categories", "16", "--local-epsilon", "8")
TEXT = "geometric:0.6065:27"
NOISE = ("--noise", TEXT)
ONE = (*KRR_16, *NOISE, "--reports", "1")
MANY = (*KRR_16, *NOISE, "--reports", "10000")
AT = ("--delta", "1e-6")

LAW = NoiseLaw.of("geometric", Fraction("0.6065"), 27)
MECHANISM = WithNoise(KRR.from_local_epsilon(16, 8.0), LAW)


def hubbub(*words: str | Path) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return Ran(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def answer(*words: str | Path) -> dict[str, Any]:
    ran = hubbub("account", *words, "--json")
    assert ran.status == 0, ran.err
    return dict(ran.json)


def test_epsilon_delta_and_divergence_are_the_librarys() -> None:
    found = answer("epsilon", *ONE, *AT)
    expected = epsilon_bracket(MECHANISM, 1, 1e-6)
    assert (found["epsilon_upper"], found["epsilon_lower"]) == (expected.epsilon_upper, expected.epsilon_lower)
    assert (found["epsilon_local"], found["bound"]) == (8.0, "noise")
    assert 0.99 < found["epsilon_lower"] < found["epsilon_upper"] < 1
    back = answer("delta", *ONE, "--epsilon", "1")
    assert back["delta_upper"] == delta_bracket(MECHANISM, 1, 1.0).delta_upper
    assert (back["bound"], back["delta_lower"] <= back["delta_upper"]) == ("noise", True)
    assert answer("rdp", *ONE, "--order", "4")["rdp_upper"] == rdp_upper(MECHANISM, 1, 4.0)


def test_the_answer_is_the_smaller_of_noise_and_people_and_says_which() -> None:
    people = answer("epsilon", *KRR_16, "--reports", "1000000", *AT)
    beside = answer("epsilon", *KRR_16, *NOISE, "--reports", "1000000", *AT)
    assert (beside["epsilon_upper"], beside["bound"]) == (people["epsilon_upper"], "blanket")
    few = answer("epsilon", *MANY, *AT)
    assert few["bound"] == "noise"
    assert few["epsilon_upper"] < answer("epsilon", *KRR_16, "--reports", "10000", *AT)["epsilon_upper"]
    # Honest people hide too, and the attack counts them.
    assert 0.8 * few["epsilon_upper"] < few["epsilon_lower"] <= few["epsilon_upper"]
    # However many lie.
    assert answer("epsilon", *MANY, *AT, "--honest-share", "0.0001")["epsilon_upper"] == few["epsilon_upper"]


def test_a_bound_may_be_chosen() -> None:
    words = (*KRR_16, *NOISE, "--reports", "1000000", *AT)
    noise, people = answer("epsilon", *words, "--bound", "noise"), answer("epsilon", *words, "--bound", "blanket")
    assert (noise["bound"], people["bound"]) == ("noise", "blanket")
    assert people["epsilon_upper"] < 0.5 < noise["epsilon_upper"]


def test_over_rounds_the_chosen_bound_is_noise_alone() -> None:
    """The ends of this law have too much mass for three rounds, so the people's bound is the smaller one."""
    words = (*KRR_16, *NOISE, "--reports", "1000000", *AT, "--rounds", "3")
    best, noise = answer("epsilon", *words), answer("epsilon", *words, "--bound", "noise")
    assert (best["bound"], noise["bound"]) == ("composition", "noise")
    assert best["epsilon_upper"] < noise["epsilon_upper"]
    rows = {(row["bound"], row["composition"]): row for row in answer("bounds", *words)["bounds"]}
    assert rows["noise", "losses"]["epsilon_upper"] == noise["epsilon_upper"]
    assert [name for name, row in rows.items() if row["chosen"]] == [("blanket", "losses")]


def test_rows_of_a_file_take_noise(tmp_path: Path) -> None:
    rows = [
        {"mechanism": "krr", "categories": 16, "local_epsilon": 8, "noise": "gaussian:428.3:133", "reports": 50},
        {"mechanism": "krr", "categories": 4, "local_epsilon": 1, "reports": 10_000},
    ]
    path = tmp_path / "rounds.json"
    path.write_text(json.dumps([{**rows[0], "rounds": 2}, rows[1]]))
    noisy = WithNoise(MECHANISM.randomizer, NoiseLaw.of("gaussian", Fraction("428.3"), 133))
    expected = compose([Part(noisy, 50, 2), Part(KRR.from_local_epsilon(4, 1.0), 10_000)], 1e-6)
    found = answer("compose", path, *AT)
    assert (found["epsilon_upper"], found["bound"]) == (expected.epsilon_upper, "noise")


def test_wrong_rows_are_named(tmp_path: Path) -> None:
    krr = {"mechanism": "krr", "categories": 16, "local_epsilon": 8, "reports": 50}
    rows = [
        {**krr, "noise": 7},
        {**krr, "noise": "x"},
        {"mechanism": "generic", "local_epsilon": 1, "reports": 9, "noise": TEXT},
    ]
    path = tmp_path / "rounds.json"
    path.write_text(json.dumps(rows))
    ran = hubbub("account", "compose", path, *AT)
    assert ran.status == 1
    assert "rows counted from 1: row 1: noise is 7; give a text such as" in ran.err
    assert "row 2: noise is 'x'; write FAMILY:PARAMETER:REACH" in ran.err
    assert "row 3: generic takes no noise," in ran.err


def test_the_parameter_is_taken_down_to_a_multiple_of_2_to_the_minus_32() -> None:
    words = (*KRR_16, "--reports", "1", *AT)
    exact = answer("epsilon", *words, "--noise", f"geometric:{LAW.parameter}/4294967296:27")
    assert exact["epsilon_upper"] == answer("epsilon", *words, *NOISE)["epsilon_upper"]
    assert Fraction(LAW.parameter, 2**32) < Fraction("0.6065") < Fraction(LAW.parameter + 1, 2**32)
    whole = answer("epsilon", *words, "--noise", "gaussian:36:40")
    assert whole["epsilon_upper"] == answer("epsilon", *words, "--noise", "gaussian:36.0000000001:40")["epsilon_upper"]
    assert hubbub("account", "epsilon", *words, "--noise", "geometric:0.99999999999999:4").status == 0


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("noise", "says"),
    [
        ("x", "--noise is 'x'; write FAMILY:PARAMETER:REACH such as geometric:0.6065:27"),
        ("geometric:0.5", "write FAMILY:PARAMETER:REACH"),
        ("geometric:0.5:3:4", "write FAMILY:PARAMETER:REACH"),
        ("Geometric:0.5:3", "write FAMILY:PARAMETER:REACH"),
        ("geometric:3/x:3", "as a number such as 0.25, .25, 1/4, 25% or 2.5e-1 or W/4294967296, and a whole reach"),
        ("geometric:-0.5:3", "whose ratio is out of range"),
        ("geometric:0.5:3.5", "write FAMILY:PARAMETER:REACH"),
        ("geometric:0.5:٣", "write FAMILY:PARAMETER:REACH"),
        ("laplace:1:3", "the noise's family is 'laplace'; give one of geometric, gaussian"),
        ("geometric:1:3", "whose ratio is out of range; give one from 1/4294967296 on, and below 1"),
        ("geometric:0.0:3", "whose ratio is out of range"),
        ("gaussian:0:3", "whose variance is out of range"),
        ("gaussian:4294967297:3", "give one from 1/4294967296 on, and at most 4294967296"),
        ("geometric:0.5:0", "the noise's reach is 0; give a whole number from 1 to 100000"),
        ("geometric:0.5:100001", "the noise's reach is 100001"),
        ("geometric:0.5:900", "has no mass at its ends 900 away; lower the reach, or raise the ratio"),
    ],
)
def test_another_text_is_refused_and_says_what_is_wrong(noise: str, says: str) -> None:
    ran = hubbub("account", "epsilon", *KRR_16, "--reports", "1", *AT, "--noise", noise)
    assert ran.status == 2
    assert says in ran.err


def test_the_largest_numbers_are_taken() -> None:
    for noise in (
        "gaussian:4294967296:3",
        "geometric:4294967295/4294967296:3",
        "geometric:1/4294967296:1",
        "geometric:75%:3",
    ):
        assert hubbub("account", "delta", *KRR_16, "--reports", "1", "--epsilon", "1", "--noise", noise).status == 0


OTHERS = [
    ("rappor", ("--mechanism", "rappor", "--categories", "4", "--local-epsilon", "1")),
    ("laplace", ("--mechanism", "laplace", "--local-epsilon", "1")),
    ("generic", ("--mechanism", "generic", "--local-epsilon", "1")),
    ("gaussian", ("--mechanism", "gaussian", "--sigma", "1")),
]


@pytest.mark.parametrize(("name", "words"), OTHERS)
def test_other_mechanisms_take_no_noise(name: str, words: tuple[str, ...]) -> None:
    ran = hubbub("account", "epsilon", *words, "--reports", "100", *AT, *NOISE)
    assert ran.status == 2
    assert f"{name} takes no --noise, as noise of the shuffler is proven beside krr and hashed only" in ran.err


def test_a_law_takes_no_noise(tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    path.write_text("[[0.75, 0.25], [0.25, 0.75]]")
    ran = hubbub("account", "epsilon", "--law", path, "--reports", "100", *AT, *NOISE)
    assert ran.status == 2
    assert "takes no --noise" in ran.err


def test_what_no_theorem_covers_is_refused() -> None:
    plain = hubbub("account", "epsilon", *KRR_16, "--reports", "100", *AT, "--bound", "noise")
    assert plain.status == 1
    assert "it needs noise of the shuffler beside the randomizer" in plain.err
    sampled = hubbub("account", "epsilon", *MANY, *AT, "--sampling-rate", "0.1")
    assert sampled.status == 1
    assert "subsampling is proven for kRR without dummies" in sampled.err


# tests/unit/accountant/mechanisms/test_with_noise.py chooses between them, and the tests here print what is chosen.
@pytest.mark.exhaustive
def test_the_table_of_bounds_has_both_of_noise() -> None:
    for words, why in ((MANY, "one honest report"), ((*KRR_16, "--reports", "100"), "needs noise of the shuffler")):
        rows = {row["bound"]: row for row in answer("bounds", *words, *AT)["bounds"]}
        assert why in rows["noise-lower"]["why_not"]
    assert "needs noise of the shuffler" in rows["noise"]["why_not"]
    rows = {row["bound"]: row for row in answer("bounds", *ONE, *AT, "--order", "2")["bounds"]}
    assert rows["noise"]["chosen"]
    assert rows["noise-lower"]["epsilon_lower"] < rows["noise"]["epsilon_upper"] < 1
    assert 0 < rows["noise"]["rdp_upper"] < rows["local"]["rdp_upper"]
    # The people's bounds are asked about the randomizer alone.
    alone = {row["bound"]: row for row in answer("bounds", *KRR_16, "--reports", "1", *AT)["bounds"]}
    assert rows["blanket"]["epsilon_upper"] == alone["blanket"]["epsilon_upper"]
    told = hubbub("account", "bounds", *ONE, *AT).out
    assert "beside geometric noise of standard deviation 2.799, n = 1" in told


def test_two_symbols_have_one_coordinate_and_an_attack_that_reaches_the_bound() -> None:
    words = ("--mechanism", "krr", "--categories", "2", "--local-epsilon", "8", "--reports", "1", *AT)
    found = answer("epsilon", *words, "--noise", "geometric:0.3678:14")
    assert 0.999 < found["epsilon_lower"] <= found["epsilon_upper"] < 1


def test_dummies_beside_noise_count_for_the_people_alone() -> None:
    plain, more = answer("epsilon", *MANY, *AT), answer("epsilon", *MANY, *AT, "--dummies", "100")
    assert (more["epsilon_upper"], more["bound"]) == (plain["epsilon_upper"], "noise")
    crowd = answer("epsilon", *MANY, *AT, "--dummies", "1000000")
    assert crowd["bound"] == "blanket"
    assert crowd["epsilon_upper"] < plain["epsilon_upper"]


def test_noise_is_drawn_too() -> None:
    words = ("--over", "reports", "--from", "1e3", "--to", "1e6", "--points", "2", "--bound", "noise")
    found = answer("plot", *KRR_16, *NOISE, *AT, *words, "--bound", "best", "--bound", "blanket")
    [panel] = found["panels"]
    assert "noise = geometric:0.6065:27" in panel["title"]
    curves = {each["label"]: [y for _, y in each["points"]] for each in panel["series"]}
    assert curves["noise"][0] == curves["noise"][1] == curves["best"][0]
    assert curves["best"][1] == curves["blanket"][1] < curves["noise"][1] < curves["blanket"][0]
