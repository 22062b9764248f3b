"""`hubbub account longitudinal`: one row a strategy, a choice, and reasons."""

from __future__ import annotations

import pytest

from support.cli import hubbub
from support.messages import NO_NOISE

ASKED = ("account", "longitudinal", "--periods", "4", "--changes", "1", "--epsilon", "1", "--delta", "1e-6")
MEMBERS = {
    "strategy",
    "applies",
    "why_not",
    "epsilon_local",
    "epsilon_upper",
    "standard_error_mean",
    "standard_error_largest",
    "standard_error_changing",
    "noise",
}


# tests/unit/planning/longitudinal/test_plan.py has the least error chosen, and the tests below show tables.
@pytest.mark.exhaustive
def test_every_strategy_has_a_row_and_the_least_error_is_chosen() -> None:
    ran = hubbub(*ASKED, "--reports", "10000", "--steady-share", "0.9", "--json")
    assert ran.status == 0
    rows = {row["strategy"]: row for row in ran.json["strategies"]}
    assert list(rows) == ["direct", "vector", "sampled", "tree"]
    assert all(set(row) == MEMBERS and row["applies"] and row["why_not"] is None for row in rows.values())
    assert all(row["epsilon_upper"] <= 1 for row in rows.values())
    assert all(row["standard_error_mean"] <= row["standard_error_largest"] * (1 + 1e-12) for row in rows.values())
    assert ran.json["chosen"] == min(rows.values(), key=lambda row: row["standard_error_mean"])["strategy"]
    # c·k·ℓ^1.5·√(n·ln(2d/β)), c = 4.0827 at ε = 1, ℓ = 3.
    assert ran.json["theorem_6"]["largest_error"] == pytest.approx(4.0830 * 3**1.5 * (1e4 * 3.17805) ** 0.5, rel=1e-3)


def test_a_cap_is_shown_to_be_kept_and_people_see_a_table() -> None:
    ran = hubbub(*ASKED, "--reports", "10000", "--local-epsilon", "2")
    assert ran.status == 0
    assert "chosen: " in ran.out
    assert "vector and sampled assume that 100% of the honest devices answer every round (--steady-share)" in ran.out
    for strategy in ("sampled", "vector", "tree", "direct"):
        assert strategy in ran.out


def test_noise_is_shown_and_refused_of_what_takes_none() -> None:
    ran = hubbub(*ASKED, "--reports", "10000", "--noise", "always", "--json")
    rows = {row["strategy"]: row for row in ran.json["strategies"]}
    assert {name for name, row in rows.items() if row["noise"] is not None} == {"direct", "tree"}
    assert {name for name, row in rows.items() if row["applies"]} == {"direct", "tree"}
    assert all(NO_NOISE in rows[name]["why_not"] for name in ("vector", "sampled"))
    people = hubbub(*ASKED, "--reports", "10000", "--noise", "always").out
    assert "direct, noise" in people
    assert "tree, noise" in people


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--periods", "0"), "periods is 0"),
        (("--changes", "9"), "changes is 9"),
        (("--changing", "1.5"), "changing is 1.5"),
        (("--steady-share", "0"), "steady_share is 0.0"),
        (("--delta", "0"), "delta is 0.0"),
        (("--noise", "some"), "noise is 'some'; give one of none, auto, always"),
        (("--local-epsilon", "-1"), "epsilon_local cap is -1.0"),
    ],
)
def test_values_out_of_range_are_bad_use(wrong: tuple[str, str], told: str) -> None:
    ran = hubbub(*ASKED, "--reports", "1000", *wrong, "--json")
    assert ran.status == 2
    assert told in ran.json["error"]
