"""What one command of `hubbub account` prints another takes as input."""

from __future__ import annotations

import pytest

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.cli.mechanisms.named_bounds import NAMES, THEOREMS
from support.cli import hubbub_here
from support.messages import AN_ATTACK

KRR = ("--mechanism", "krr", "--categories", "16", "--local-epsilon", "1/2", "--reports", "5e5")
OVER_ROUNDS = (*KRR, "--rounds", "3")


@pytest.mark.parametrize("asked", [KRR, OVER_ROUNDS], ids=["one round", "three rounds"])
def test_each_upper_bound_that_is_listed_can_be_asked_for_by_its_name(asked: tuple[str, ...]) -> None:
    listed = hubbub_here("account", "bounds", *asked, "--delta", "1e-6", "--json").json["bounds"]
    least: dict[str, float] = {}
    for each in listed:
        if each["epsilon_upper"] is not None:
            least[each["bound"]] = min(each["epsilon_upper"], least.get(each["bound"], float("inf")))
    assert len(least) > 10
    for name, epsilon in least.items():
        found = hubbub_here("account", "epsilon", *asked, "--delta", "1e-6", "--bound", name, "--json")
        if found.status:
            # It is not composed by its own pair: `account bounds` composes its ε instead.
            assert asked is OVER_ROUNDS
            assert name not in THEOREMS
            continue
        local = found.json["epsilon_local"]
        assert found.json["epsilon_upper"] <= min(epsilon, local) * (1 + 1e-9), name
        assert found.json["bound"] in (name, "local", "composition")
        if name in THEOREMS:
            assert found.json["epsilon_upper"] == min(epsilon, local), name


def test_a_wrong_name_lists_those_there_are_and_so_does_the_help() -> None:
    wrong = hubbub_here("account", "epsilon", *KRR, "--delta", "1e-6", "--bound", "zzzz")
    assert wrong.status == 2
    assert "choose one of: best, " + ", ".join(NAMES) in " ".join(wrong.err.split())
    attack = hubbub_here("account", "epsilon", *KRR, "--delta", "1e-6", "--bound", "krr-lower")
    assert AN_ATTACK in " ".join(attack.err.split())
    # A narrow page breaks a name after its hyphen.
    shown = "".join(hubbub_here("account", "epsilon", "--help").out.replace("│", " ").split())
    for name in NAMES:
        assert CATALOG[name].direction == "upper"
        assert name in shown, name


def test_a_theorem_gives_delta_where_it_can_and_else_says_so() -> None:
    asked = ("account", "delta", *KRR, "--epsilon", "0.003", "--bound")
    best = hubbub_here(*asked, "best", "--json").json
    found = hubbub_here(*asked, "balle-hoeffding", "--json").json
    assert best["delta_upper"] <= found["delta_upper"] <= 1
    assert found["bound"] == "balle-hoeffding"
    refused = hubbub_here(*asked, "feldman-closed")
    assert refused.status == 1
    assert "gives no δ of one round; ask for its ε, or for 'best'" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("asked", "epsilon", "zero"),
    [
        (KRR, "0", False),
        (KRR, "0.5", True),
        (KRR, "1e6", True),
        ((*KRR[:5], "8", *KRR[6:], "--rounds", "30"), "150", False),
        ((*KRR[:5], "8", *KRR[6:], "--rounds", "30"), "240", True),
    ],
    ids=["0", "local", "large", "between 100 and local", "local of all rounds"],
)
def test_delta_takes_every_epsilon_that_epsilon_prints(asked: tuple[str, ...], epsilon: str, zero: bool) -> None:
    found = hubbub_here("account", "delta", *asked, "--epsilon", epsilon, "--json")
    assert found.status == 0, found.err
    assert found.json["epsilon"] == float(epsilon)
    assert (found.json["delta_upper"] == 0) is zero
    assert found.json["delta_lower"] <= found.json["delta_upper"]


@pytest.mark.parametrize("epsilon", ["inf", "nan", "-1"])
def test_an_epsilon_that_is_no_finite_number_is_refused_in_words(epsilon: str) -> None:
    refused = hubbub_here("account", "delta", *KRR, "--epsilon", epsilon)
    assert refused.status == 2
    assert "give a finite number" in refused.err


def test_calibrate_shows_the_whole_numbers_of_a_law() -> None:
    asked = ("account", "calibrate", "--query", "histogram", "--categories", "1000", "--epsilon", "1")
    found = hubbub_here(*asked, "--delta", "1e-7", "--reports", "5e4", "--randomizer", "hashed", "--json").json
    assert found["categories"] == 1000
    assert isinstance(found["cells"], int)
    assert isinstance(found["rows"], int)
