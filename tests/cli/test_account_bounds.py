"""`hubbub account bounds`: every bound side by side, for people and as JSON, run in this process."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.mechanisms import KRR
from hubbub.cli.main import main
from support.cli import Ran

CROWD = ("--mechanism", "krr", "--categories", "16", "--local-epsilon", "4", "--reports", "10000", "--delta", "1e-6")
UNKNOWN = ("--mechanism", "generic", "--local-epsilon", "0.4", "--reports", "10000", "--delta", "1e-6")


def hubbub(*words: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(["account", "bounds", *words])
    return Ran(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def rows(*words: str) -> list[dict[str, Any]]:
    ran = hubbub(*words, "--json")
    assert ran.status == 0, ran.err
    return list(ran.json["bounds"])


def test_json_lists_every_bound_with_what_it_gives() -> None:
    found = rows(*CROWD)
    assert [row["bound"] for row in found] == list(CATALOG)
    needed = {"bound", "source", "epsilon_upper", "epsilon_lower", "proven", "applies", "why_not", "chosen"}
    assert all(needed <= set(row) for row in found)
    chosen = [row for row in found if row["chosen"]]
    assert [row["bound"] for row in chosen] == ["blanket"]
    assert chosen[0]["epsilon_upper"] == epsilon_bracket(KRR.from_local_epsilon(16, 4.0), 10_000, 1e-6).epsilon_upper


def test_table_for_people_groups_marks_and_explains() -> None:
    out = hubbub(*CROWD).out
    headings = [line for line in out.splitlines() if line and line[0] not in " *"]
    assert headings[0] == "kRR with 16 categories and local ε 4, n = 10000, δ = 1e-06"
    assert headings[1:] == [
        "evaluated exactly",
        "formulas, for comparison",
        "reached by attacks",
        "do not apply, or give no ε",
    ]
    assert "* blanket          ε ≤ 0.361592" in out
    assert "krr-lower  ε ≥ 0.36153" in out
    assert "2rr                  does not cover kRR with 16 categories" in out
    assert out.rstrip().endswith("* used by a certificate")


def test_beside_noise_an_attack_without_it_says_that_noise_is_the_cause() -> None:
    """Whatever it needs of the randomizer: kRR with 16 categories would do for `krr-lower`."""
    found = {row["bound"]: row for row in rows(*CROWD, "--noise", "geometric:0.6065:27")}
    attacks = {name for name, bound in CATALOG.items() if bound.direction == "lower"} - {"noise-lower"}
    assert attacks >= {"krr-lower", "girgis-lower"}
    for name in attacks:
        assert "it needs a batch without noise of the shuffler" in found[name]["why_not"], name
    assert found["noise-lower"]["why_not"] is None
    assert "noise" not in found["2rr"]["why_not"], "an upper bound is that of the randomizer alone"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [CROWD, UNKNOWN, ("--mechanism", "gaussian", "--sigma", "5", *CROWD[6:])])
def test_no_cause_says_to_ask_for_another_bound_as_all_are_asked(words: tuple[str, ...]) -> None:
    causes = {row["bound"]: row["why_not"] for row in rows(*words) if row["why_not"]}
    assert causes
    assert not [name for name, why in causes.items() if "instead" in why]
    if "gaussian" in words:
        assert causes["clones"].endswith("it needs a randomizer with a local ε")


# tests/unit/accountant/bounds/test_catalog.py has what rounds and an order add.
@pytest.mark.exhaustive
def test_rounds_and_an_order_add_ways_of_composing_and_divergences() -> None:
    found = rows(*UNKNOWN, "--rounds", "3", "--order", "8")
    assert {row["composition"] for row in found} == {None, "losses", "rdp", "advanced", "basic"}
    assert [(row["bound"], row["composition"]) for row in found if row["chosen"]] == [("stronger-clones", "losses")]
    said = hubbub(*UNKNOWN, "--order", "8").out
    assert "girgis-lower D ≥ 6.485" in " ".join(said.split("do not apply")[0].split())
    assert "girgis-lower" in hubbub(*UNKNOWN).out.split("do not apply")[1]


def test_clients_with_randomizers_of_their_own_count_only_their_like() -> None:
    assert rows(*UNKNOWN, "--same", "2000") == rows(*UNKNOWN[:4], "--reports", "2000", "--delta", "1e-6")
    dishonest = hubbub(*UNKNOWN, "--same", "2000", "--honest-share", "0.9", "--json")
    assert dishonest.json["reports"] == 1000


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--same", "10001"), 2, "same is 10001"),
        (("--order", "1"), 2, "order is 1.0; give a number above 1"),
        (("--categories", "4"), 2, "generic takes"),
        (("--honest-share", "0"), 2, "honest_share"),
    ],
)
def test_what_cannot_be_asked_is_said(words: tuple[str, ...], status: int, says: str) -> None:
    ran = hubbub(*UNKNOWN, *words)
    assert ran.status == status
    assert says in ran.err


def test_help_has_an_example() -> None:
    out = hubbub("--help").out
    assert "Example:\n    hubbub account bounds" in out
    for flag in ("--mechanism", "--honest-share", "--dummies", "--rounds", "--same", "--order", "--json"):
        assert flag in out


def test_a_sampling_rate_shows_the_exact_pair_beside_what_is_not_proven() -> None:
    words = ("--mechanism", "krr", "--categories", "3", "--local-epsilon", "1", "--reports", "100", "--delta", "1e-3")
    found = {row["bound"]: row for row in rows(*words, "--sampling-rate", "1/2")}
    assert set(found) == {"sampled-blanket", "sampled-attack", "girgis-sampled"}
    assert [found[name]["proven"] for name in ("sampled-blanket", "girgis-sampled")] == [True, False]
    assert found["sampled-attack"]["epsilon_lower"] < found["sampled-blanket"]["epsilon_upper"]
    assert "not proven" in hubbub(*words, "--sampling-rate", "1/2").out
    assert hubbub(*words, "--sampling-rate", "1/2", "--dummies", "5").status == 2
