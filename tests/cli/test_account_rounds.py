"""`hubbub account` over rounds, in dishonest crowds, with dummies, for RDP, and for lists of rounds.

The commands run in this process, as `hubbub` itself would; tests/cli/test_account.py runs real ones.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part
from hubbub.cli.main import main
from support.cli import Ran
from support.messages import AN_ATTACK

KEYS = {
    "epsilon_upper",
    "epsilon_lower",
    "epsilon_local",
    "delta",
    "bound",
    "source",
    "numerical_slack",
    "seconds",
}
CROWD = ("--mechanism", "krr", "--categories", "16", "--local-epsilon", "4", "--reports", "10000")
SIXTEEN = KRR.from_local_epsilon(16, 4.0)


def hubbub(*words: str | Path) -> Ran:
    """Run `hubbub` with these words, here."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main([*map(str, words)])
    return Ran(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def account(*words: str | Path) -> dict[str, Any]:
    ran = hubbub("account", *words, "--json")
    assert ran.status == 0, ran.err
    return dict(ran.json)


def test_rounds_are_composed() -> None:
    found = account("epsilon", *CROWD, "--delta", "1e-6", "--rounds", "100")
    expected = compose([Part(SIXTEEN, 10_000, 100)], 1e-6)
    assert set(found) == KEYS
    assert found["epsilon_upper"] == expected.epsilon_upper
    assert found["epsilon_lower"] == expected.epsilon_lower
    assert found["epsilon_local"] == 400.0
    assert found["bound"] == "composition"


def test_delta_over_rounds_inverts_epsilon_over_rounds() -> None:
    there = account("epsilon", *CROWD, "--delta", "1e-6", "--rounds", "3")
    back = account("delta", *CROWD, "--epsilon", str(there["epsilon_upper"]), "--rounds", "3")
    assert back["delta_lower"] <= back["delta_upper"]
    # Each way has a grid of its own.
    assert 0.99e-6 < back["delta_upper"] <= 1.001e-6


def test_a_bound_over_rounds_composes_its_own_pair() -> None:
    rounds = ("--delta", "1e-6", "--rounds", "3")
    found = {
        bound: account("epsilon", *CROWD, *rounds, "--bound", bound)
        for bound in ("blanket", "stronger-clones", "local")
    }
    upper = {bound: answer["epsilon_upper"] for bound, answer in found.items()}
    assert upper["blanket"] == compose([Part(SIXTEEN, 10_000, 3)], 1e-6).epsilon_upper
    assert upper["stronger-clones"] == compose([Part(Generic(4.0), 10_000, 3)], 1e-6).epsilon_upper
    assert upper["blanket"] < upper["stronger-clones"] < 2 < upper["local"] <= 12
    assert {answer["epsilon_lower"] for answer in found.values()} == {found["blanket"]["epsilon_lower"]}
    assert "stronger-clone pair" in found["stronger-clones"]["source"].split("pair: ")[1]


def test_the_clones_are_not_composed_as_a_tighter_pair_covers_the_same() -> None:
    ran = hubbub("account", "epsilon", *CROWD, "--delta", "1e-6", "--rounds", "3", "--bound", "clones", "--json")
    assert ran.status == 1
    assert "bound 'clones' is not composed by its pair; ask for 'best'" in ran.json["error"]


def test_an_attack_is_no_upper_bound_over_rounds_either() -> None:
    ran = hubbub("account", "delta", *CROWD, "--epsilon", "0.8", "--rounds", "3", "--bound", "krr-lower", "--json")
    assert ran.status == 2
    assert f"bound is 'krr-lower', {AN_ATTACK}" in ran.json["error"]


def test_the_blanket_pair_of_two_categories_is_the_stronger_clone_pair() -> None:
    pair = ("--mechanism", "krr", "--categories", "2", "--local-epsilon", "1", "--reports", "1000")
    rounds = ("--epsilon", "0.3", "--rounds", "4")
    upper = {
        bound: account("delta", *pair, *rounds, "--bound", bound)["delta_upper"]
        for bound in ("2rr", "blanket", "stronger-clones")
    }
    assert upper["2rr"] < upper["blanket"] == upper["stronger-clones"]


def test_only_honest_reports_hide_anyone() -> None:
    found = account("epsilon", *CROWD, "--delta", "1e-6", "--honest-share", "0.9")
    assert found["epsilon_upper"] == epsilon_bracket(SIXTEEN, 9_000, 1e-6).epsilon_upper


def test_the_dishonest_are_rounded_up() -> None:
    """0.7 of 10 leaves 7 exactly, though 1 − 0.7 is more than 0.3 as a double; a third of 10 leaves 3."""
    small = ("--mechanism", "generic", "--local-epsilon", "1", "--reports", "10", "--epsilon", "0.1")
    for share, honest in (("0.7", "7"), ("0.3333", "3")):
        shared = account("delta", *small, "--honest-share", share)
        alone = account("delta", *small[:5], honest, *small[6:])
        assert shared["delta_upper"] == alone["delta_upper"]


# tests/property/accountant/test_dummies.py has what dummies help.
@pytest.mark.exhaustive
def test_dummies_help_and_take_the_known_attack_away() -> None:
    plain = account("epsilon", *CROWD, "--delta", "1e-6")
    aided = account("epsilon", *CROWD, "--delta", "1e-6", "--dummies", "500")
    assert aided["epsilon_upper"] < 0.99 * plain["epsilon_upper"]
    assert aided["epsilon_lower"] is None


def test_rdp_is_a_bracket() -> None:
    crowd = ("--mechanism", "generic", "--local-epsilon", "0.5", "--reports", "1000000")
    found = account("rdp", *crowd, "--order", "19")
    assert set(found) == {"rdp_upper", "rdp_lower", "order", "epsilon_local", "bound", "source", "seconds"}
    assert found["bound"] == "pairs"
    assert 0 < found["rdp_lower"] < found["rdp_upper"] < 1.5 * found["rdp_lower"]
    assert account("rdp", *crowd, "--order", "19", "--honest-share", "0.5")["rdp_upper"] > found["rdp_upper"]
    assert account("rdp", *crowd, "--order", "19", "--dummies", "9")["rdp_lower"] is None


@pytest.mark.parametrize("order", ["1", "0", "nan", "1e7"])
def test_an_order_outside_its_range_is_refused(order: str) -> None:
    ran = hubbub("account", "rdp", "--mechanism", "generic", "--local-epsilon", "1", "--reports", "9", "--order", order)
    assert ran.status == 2
    assert "order" in ran.err


def test_calibration_takes_share_dummies_and_cap() -> None:
    words = ("calibrate", "--query", "histogram", "--categories", "16", "--epsilon", "1", "--delta", "1e-6")
    crowd = (*words, "--reports", "20000")
    plain = account(*crowd)
    assert account(*crowd, "--honest-share", "0.8")["gamma"] > plain["gamma"]
    assert account(*crowd, "--dummies", "2000")["gamma"] < plain["gamma"]
    capped = account(*crowd, "--local-epsilon", "2")
    assert capped["epsilon_local"] <= 2
    assert capped["gamma"] > plain["gamma"]


def rounds_file(folder: Path, rows: Any) -> Path:
    path = folder / "rounds.json"
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows))
    return path


ROWS = [
    {"mechanism": "krr", "categories": 16, "local_epsilon": 4, "reports": 10000, "rounds": 5},
    {"mechanism": "krr", "categories": 4, "gamma": "1073741824/4294967296", "reports": 10000},
    {"mechanism": "generic", "local_epsilon": 0.5, "reports": 20000, "rounds": 2},
]


def test_different_rounds_compose(tmp_path: Path) -> None:
    found = account("compose", rounds_file(tmp_path, ROWS), "--delta", "1e-6")
    parts = [
        Part(SIXTEEN, 10_000, 5),
        Part(KRR.from_numerator(4, 2**30), 10_000),
        Part(Generic(0.5), 20_000, 2),
    ]
    expected = compose(parts, 1e-6)
    assert set(found) == KEYS
    assert (found["epsilon_upper"], found["epsilon_lower"]) == (expected.epsilon_upper, expected.epsilon_lower)
    assert found["epsilon_lower"] < found["epsilon_upper"] < found["epsilon_local"]


def test_gamma_may_be_written_as_a_decimal_that_is_taken_exactly(tmp_path: Path) -> None:
    exact = [{"mechanism": "krr", "categories": 4, "gamma": "1073741824/4294967296", "reports": 1000}]
    decimal = '[{"mechanism": "krr", "categories": 4, "gamma": 0.25, "reports": 1000, "rounds": 1}]'
    answers = [account("compose", rounds_file(tmp_path, rows), "--delta", "1e-6") for rows in (exact, decimal)]
    assert answers[0]["epsilon_upper"] == answers[1]["epsilon_upper"]


WRONG_ROWS = [
    ({}, "mechanism and reports missing"),
    (7, "is 7"),
    ({"mechanism": "krr", "categories": 4, "local_epsilon": 1}, "reports missing"),
    ({"mechanism": "staircase", "local_epsilon": 1, "reports": 9}, "'staircase'"),
    ({"mechanism": "krr", "local_epsilon": 1, "reports": 9}, "krr needs categories"),
    ({"mechanism": "krr", "categories": 4, "reports": 9}, "exactly one of local_epsilon and gamma"),
    ({"mechanism": "krr", "categories": 1, "local_epsilon": 1, "reports": 9}, "categories is 1"),
    ({"mechanism": "krr", "categories": 4.5, "local_epsilon": 1, "reports": 9}, "categories is 4.5"),
    ({"mechanism": "krr", "categories": 4, "gamma": 1.5, "reports": 9}, "gamma is 1.5"),
    ({"mechanism": "krr", "categories": 4, "gamma": "a third", "reports": 9}, "gamma is 'a third'"),
    ({"mechanism": "generic", "local_epsilon": -1, "reports": 9}, "local_epsilon is -1"),
    ({"mechanism": "generic", "local_epsilon": 10**400, "reports": 9}, "local_epsilon is 1000"),
    ({"mechanism": "generic", "local_epsilon": 1, "mixed": True, "reports": 9}, "'mixed' is unknown"),
    ({"mechanism": "generic", "local_epsilon": 1, "reports": 0}, "reports is 0"),
    ({"mechanism": "generic", "local_epsilon": 1, "reports": True}, "reports is true"),
    ({"mechanism": "generic", "local_epsilon": 1, "reports": 9, "rounds": 0}, "rounds is 0"),
    ({"mechanism": "generic", "local_epsilon": 1, "reports": 9, "dummies": -1}, "dummies is -1"),
    ({"mechanism": "generic", "local_epsilon": 1, "reports": 9, "round": 1}, "'round' is unknown"),
    (
        {"mechanism": "generic", "local_epsilon": 1, "reports": 9, "honest_share": 0.9},
        "times all rounded down: so many",
    ),
]


def test_whole_numbers_of_a_row_may_be_written_as_decimals_that_are_whole(tmp_path: Path) -> None:
    plain = '[{"mechanism": "generic", "local_epsilon": 0.5, "reports": 20000, "rounds": 2, "dummies": 10}]'
    short = '[{"mechanism": "generic", "local_epsilon": 0.5, "reports": 2e4, "rounds": 2.0, "dummies": 1e+1}]'
    found = [account("compose", rounds_file(tmp_path, rows), "--delta", "1e-6") for rows in (plain, short)]
    assert found[0]["epsilon_upper"] == found[1]["epsilon_upper"]
    for huge in ("1e999999999", "2.5e0"):
        ran = hubbub("account", "compose", rounds_file(tmp_path, short.replace("2e4", huge)), "--delta", "1e-6")
        assert "give a whole number, such as 10000 or 1e4" in ran.err


def test_every_wrong_row_is_named(tmp_path: Path) -> None:
    """Right rows stand between the wrong ones, so numbers cannot be right by counting the wrong ones alone."""
    rows = [row for wrong, _ in WRONG_ROWS for row in (wrong, ROWS[0])]
    ran = hubbub("account", "compose", rounds_file(tmp_path, rows), "--delta", "1e-6")
    assert ran.status == 1
    assert "Traceback" not in ran.err
    told = ran.err.split("row ")[1:]
    assert [int(each.split(":")[0]) for each in told] == list(range(1, len(rows), 2))
    for each, (_, says) in zip(told, WRONG_ROWS, strict=True):
        assert says in each


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "JSON"),
        ("[", "JSON"),
        ("{}", "list"),
        ("[]", "at least one"),
        ("[" * 100_000, "JSON"),
        ('[{"mechanism": "generic", "local_epsilon": NaN, "reports": 9}]', "NaN"),
        (
            '[{"mechanism": "generic", "reports": 9, "local_epsilon": 1, "reports": 10}]',
            "'reports' occurs twice",
        ),
    ],
)
def test_a_file_that_is_no_list_of_rounds_is_refused(tmp_path: Path, text: str, says: str) -> None:
    ran = hubbub("account", "compose", rounds_file(tmp_path, text), "--delta", "1e-6", "--json")
    assert ran.status == 1
    assert says in ran.json["error"]
    assert "rounds.json" in ran.err


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ran = hubbub("account", "compose", tmp_path / "none.json", "--delta", "1e-6")
    assert ran.status == 1
    assert "none.json" in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--rounds", "0"), "rounds"),
        (("--rounds", "3", "--bound", "2rr"), "2 categories"),
        (("--rounds", "3", "--bound", "nothing"), "stronger-clones"),
        (("--honest-share", "0"), "honest_share"),
        (("--honest-share", "1.5"), "honest_share"),
        (("--honest-share", "0.00001"), "leaves nobody"),
        (("--dummies", "-1"), "dummies"),
    ],
)
def test_bad_use_over_rounds_says_what_is_wrong(words: tuple[str, ...], says: str) -> None:
    ran = hubbub("account", "epsilon", *CROWD, "--delta", "1e-6", *words)
    # A theorem that does not cover the mechanism is a failure; all others are options that say what cannot be.
    assert ran.status == (1 if "2rr" in words else 2)
    assert says in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", ["epsilon", "delta", "rdp", "compose", "calibrate"])
def test_each_question_has_help_with_an_example(name: str) -> None:
    ran = hubbub("account", name, "--help")
    assert ran.status == 0
    assert f"\n    hubbub account {name} " in ran.out


def test_the_document_states_what_the_accountant_says() -> None:
    text = (Path(__file__).parents[2] / "docs" / "explanation" / "accounting-clones.md").read_text()
    crowd = ("--mechanism", "generic", "--local-epsilon", "4", "--reports", "100000", "--delta", "1e-6")
    common, clones = account("epsilon", *crowd), account("epsilon", *crowd, "--bound", "clones")
    stated = (common["epsilon_upper"], clones["epsilon_upper"], common["epsilon_lower"])
    assert [f"{value:.5f}" in text for value in stated] == [True, True, True]
