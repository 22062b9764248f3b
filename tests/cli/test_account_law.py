"""`hubbub account … --law FILE.json`: any randomizer whose law is written down."""

from __future__ import annotations

import contextlib
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant import KRR, Finite, Part, compose, epsilon_bracket
from hubbub.cli.main import main
from support.cli import Ran
from support.messages import NO_DUMMY

ROWS: list[list[Any]] = [["1/2", "0.25", 0.25], ["1/4", "1/2", "1/4"], ["1/8", "1/8", "3/4"]]
LAW = Finite(tuple(tuple(Fraction(str(value)) for value in row) for row in ROWS), dummy=(Fraction(1, 3),) * 3)
CONTENT: dict[str, Any] = {"law": ROWS, "dummy": ["1/3", "1/3", "1/3"]}
ASKED = ("--reports", "1000", "--delta", "1e-6")


def hubbub(*words: str | Path) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return Ran(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def written(folder: Path, content: Any, name: str = "law.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def answer(*words: str | Path) -> dict[str, Any]:
    ran = hubbub("account", *words, "--json")
    assert ran.status == 0, ran.err
    return dict(ran.json)


def test_epsilon_and_delta_are_those_of_the_law(tmp_path: Path) -> None:
    path = written(tmp_path, CONTENT)
    found, expected = answer("epsilon", "--law", path, *ASKED), epsilon_bracket(LAW, 1000, 1e-6)
    assert found["epsilon_upper"] == expected.epsilon_upper
    assert found["epsilon_lower"] == expected.epsilon_lower
    assert found["epsilon_local"] == LAW.epsilon_local
    back = answer("delta", "--law", path, "--reports", "1000", "--epsilon", str(found["epsilon_upper"]))
    assert 0.99e-6 < back["delta_upper"] <= 1.001e-6
    beside = answer("epsilon", "--law", path, *ASKED, "--dummies", "500")
    assert beside["epsilon_upper"] == epsilon_bracket(LAW, 1000, 1e-6, dummies=500).epsilon_upper


def test_rounds_are_composed_by_a_flag_and_by_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, CONTENT)
    rows = [
        {"law": "law.json", "reports": 1000, "rounds": 2},
        {"mechanism": "krr", "categories": 2, "local_epsilon": 1},
    ]
    expected = compose([Part(LAW, 1000, 2)], 1e-6).epsilon_upper
    assert answer("epsilon", "--law", path, *ASKED, "--rounds", "2")["epsilon_upper"] == expected
    assert answer("compose", "--law", path, *ASKED, "--rounds", "2")["epsilon_upper"] == expected
    for law in ("law.json", CONTENT):
        listed = written(tmp_path, [{**rows[0], "law": law}], "rounds.json")
        assert answer("compose", listed, "--delta", "1e-6")["epsilon_upper"] == expected
    listed = written(tmp_path, [rows[0], {**rows[1], "law": "law.json", "reports": 9}], "rounds.json")
    assert "a law needs no mechanism" in hubbub("account", "compose", listed, "--delta", "1e-6").err


def test_the_table_of_bounds_says_which_hold(tmp_path: Path) -> None:
    path = written(tmp_path, {**CONTENT, "neighbors": [[0, 1]]})
    found = {each["bound"]: each for each in answer("bounds", "--law", path, *ASKED)["bounds"]}
    assert found["blanket"]["chosen"]
    assert found["finite-lower"]["epsilon_lower"] <= found["blanket"]["epsilon_upper"]
    assert found["stronger-clones"]["epsilon_upper"] > found["blanket"]["epsilon_upper"]
    assert "it needs kRR" in found["2rr"]["why_not"]
    assert answer("rdp", "--law", path, "--reports", "1000", "--order", "2")["rdp_upper"] > 0


def test_a_law_that_is_krr_gets_its_own_bound(tmp_path: Path) -> None:
    path = written(tmp_path, [[0.75, 0.25], [0.25, 0.75]])
    assert answer("epsilon", "--law", path, *ASKED)["bound"] == "2rr"
    exact = epsilon_bracket(KRR(2, Fraction(1, 2)), 1000, 1e-6).epsilon_upper
    assert answer("epsilon", "--law", path, *ASKED)["epsilon_upper"] == exact


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "cannot be read as JSON"),
        ('{"law": [], "law": []}', "occurs twice"),
        (7, "law is 7; give an object such as"),
        ({"rows": ROWS}, "give an object such as"),
        ({"law": ROWS, "note": 1}, "'note' is unknown"),
        ({"law": [["1/2", "1/2"], "1/2"]}, "a row of law"),
        ({"law": [["1/2", "x"], ["1/2", "1/2"]]}, 'law has "x"'),
        ({"law": [["1/2", "1/0"], ["1/2", "1/2"]]}, 'law has "1/0"'),
        ({"law": [["1/2", True], ["1/2", "1/2"]]}, "law has true"),
        ('{"law": [[0.5, 1e-999999999], [0.5, 0.5]]}', "law has 1E-999999999"),
        ({"law": [["1/2", "1/3"], ["1/2", "1/2"]]}, "row 0 of the law (counted from 0) sums to 5/6"),
        ({"law": [["1", "0"], ["1/2", "1/2"]]}, "distinguishes them with certainty"),
        ({"law": ROWS, "neighbors": [[0, 3]]}, "from 0 to 2"),
        ({"law": ROWS, "neighbors": [0, 1]}, "give pairs of inputs"),
        ({"law": ROWS, "dummy": 3}, "dummy is 3; give an input from 0 to 2"),
    ],
    ids=range(15),
)
def test_a_file_that_holds_no_law_is_bad_use_and_says_what_is_wrong(tmp_path: Path, content: Any, message: str) -> None:
    path = written(tmp_path, content)
    ran = hubbub("account", "epsilon", "--law", path, *ASKED)
    assert ran.status == 2
    assert message in ran.err
    assert str(path) in ran.err


def test_what_does_not_go_with_a_law_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"law": ROWS})
    for words in (("--mechanism", "krr"), ("--categories", "3"), ("--gamma", "1/4294967296")):
        assert hubbub("account", "epsilon", "--law", path, *ASKED, *words).status == 2
    assert "exactly one of --mechanism and --law" in hubbub("account", "bounds", *ASKED).err
    assert "give either ROUNDS.json, or --law with --reports" in hubbub("account", "compose", "--delta", "1e-6").err
    said = hubbub("account", "epsilon", "--law", path, *ASKED, "--dummies", "5")
    assert said.status != 0
    assert NO_DUMMY in said.err
    assert "No such file" in hubbub("account", "epsilon", "--law", tmp_path / "none.json", *ASKED).err
