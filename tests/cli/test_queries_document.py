"""choose-a-question.md: its commands print what it says, its numbers follow from that, and every kind has a row."""

from __future__ import annotations

import re
from math import exp, sqrt
from pathlib import Path
from statistics import NormalDist

import pytest

from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.registry import QUESTIONS, RANDOMIZERS
from hubbub.queries.texts.alphabet import Alphabet, every_character
from hubbub.queries.texts.heavy_hitters import MOST_LOOKED_UP
from hubbub.queries.texts.lookup import stands_out_from
from support.documented_commands import answers, missing, printed, said

TEXT = (Path(__file__).parents[2] / "docs" / "howto" / "choose-a-question.md").read_text()
ANSWERS = answers(TEXT)
PROSE = " ".join(TEXT.split())
"""The text without its line ends."""
REPORTS = 10**5


def number(part: str, name: str) -> float:
    """A number that the answer to the only command with these words says."""
    (lines,) = (lines for command, lines in ANSWERS if command.endswith(part))
    return float(re.findall(rf"^{name} +(\S+)$", lines, re.MULTILINE)[0])


def count_variance(count: float, true: float, other: float) -> float:
    spread = count * true * (1 - true) + (REPORTS - count) * other * (1 - other)
    return spread / (true - other) ** 2


@pytest.mark.parametrize(("command", "lines"), ANSWERS, ids=[command for command, _ in ANSWERS])
def test_answers_are_what_is_printed(command: str, lines: str) -> None:
    assert said(lines)
    assert missing(command, lines) == []


def test_every_kind_has_its_row() -> None:
    rows = set(re.findall(r"\| `([a-z]+)` \|", TEXT))
    assert rows == {*QUESTIONS, *RANDOMIZERS, *SENDINGS}


def test_errors_of_counts_through_krr_follow_from_the_formula() -> None:
    tail = "--categories 16 --reports 100000 --epsilon 1 --delta 1e-6"
    gamma, k = number(tail, "gamma"), 16
    own, other = 1 - gamma + gamma / k, gamma / k
    assert count_variance(REPORTS, own, other) == pytest.approx(number(tail, "mse"), rel=1e-6)
    assert f"{sqrt(number(tail, 'mse')):.1f}, is the standard error" in PROSE
    assert f"nobody gave is {sqrt(count_variance(0, own, other)):.1f}." in PROSE


def test_errors_of_counts_through_unary_encoding_follow_from_the_formula() -> None:
    tail = "--delta 1e-6 --randomizer unary"
    true, other = number(tail, "truthful"), number(tail, "other")
    assert count_variance(REPORTS, true, other) == pytest.approx(number(tail, "mse"), rel=1e-5)
    through_krr = sqrt(number("--categories 1000 --reports 100000 --epsilon 1 --delta 1e-6", "mse"))
    assert f"error is {sqrt(number(tail, 'mse')):.1f}; that of kRR is {through_krr:.0f}." in PROSE


def test_dummies_add_what_the_formula_says() -> None:
    gamma, dummies, k = number("--dummies 45000", "gamma"), 45000, 1000
    own, other = 1 - gamma + gamma / k, gamma / k
    variance = count_variance(REPORTS, own, other) + dummies / k * (1 - 1 / k) / (1 - gamma) ** 2
    assert variance == pytest.approx(number("--dummies 45000", "mse"), rel=1e-6)
    assert f"{sqrt(variance):.1f} at every count" in PROSE


def test_the_error_of_a_sum_follows_from_the_formula() -> None:
    tail = "--query sum --reports 100000 --epsilon 1 --delta 1e-6"
    gamma, levels = number(tail, "gamma"), number(tail, "levels")

    def variance(x: float) -> float:
        part = x * levels % 1
        steps = (1 - gamma) * part * (1 - part) / levels**2 + gamma * (levels + 2) / (12 * levels)
        return (steps + gamma * (1 - gamma) * (x - 0.5) ** 2) / (1 - gamma) ** 2

    worst = REPORTS * max(variance(place / 100_000) for place in range(100_001))
    assert worst == pytest.approx(number(tail, "mse"), rel=1e-6)
    assert f"120 times {sqrt(worst):.1f}, the mean's {120 * sqrt(worst) / REPORTS:.4f} minutes" in PROSE


def test_the_share_up_to_an_edge_has_the_error_of_its_sum() -> None:
    tail = "--categories 12 --reports 100000 --epsilon 1 --delta 1e-6"
    gamma = number(tail, "gamma")
    error = sqrt(count_variance(REPORTS / 2, 1 - gamma / 2, gamma / 2)) / REPORTS
    assert f"share is {error:.5f}, that of one count {sqrt(number(tail, 'mse')):.1f} at worst" in PROSE


def test_groups_have_the_error_of_as_many_categories() -> None:
    many, few = (number(f"--categories {k} --reports 100000 --epsilon 1 --delta 1e-6", "mse") for k in (48, 16))
    assert f"standard error is {sqrt(many):.1f} instead of {sqrt(few):.1f}." in PROSE


def test_so_many_people_are_told_from_zero() -> None:
    gamma, k = number("--categories 1000 --reports 100000 --epsilon 1 --delta 1e-6", "gamma"), 1000
    error = sqrt(count_variance(0, 1 - gamma + gamma / k, gamma / k))
    chance = 0.05 / (k * sum(1 / place for place in range(1, k + 1)))
    assert f"takes about {-NormalDist().inv_cdf(chance) * error:.0f} people" in PROSE


def _text_errors(lines: str) -> tuple[int, float, float]:
    """Return the cells, and the standard errors at nobody and at a thousand, of the row of a table."""
    cells, *numbers = re.findall(r"hashed, (\d+) cells, \d+ rows[^│]*│ +(\S+) │ +(\S+) │ +(\S+) │ +(\S+) │", lines)[0]
    return int(cells), float(numbers[2]), float(numbers[3])


def test_the_error_of_a_text_follows_from_its_cells() -> None:
    (lines,) = (lines for command, lines in ANSWERS if "--query text" in command)
    cells, nobody, thousand = _text_errors(lines)
    # γ is what the error at 0 says it is; the error at a thousand then follows, but for what is rounded.
    gamma = 1 - sqrt(REPORTS / cells * (1 - 1 / cells)) / (1 - 1 / cells) / nobody
    own = 1 - gamma + gamma / cells
    hit, miss = own * (1 - own), (1 - 1 / cells) / cells
    spread = (1000 * hit + (REPORTS - 1000) * miss) / ((1 - gamma) * (1 - 1 / cells)) ** 2
    # With 256 rows, the thousand collide with one another's cells by themselves alone, which adds nothing here.
    assert sqrt(spread) == pytest.approx(thousand, rel=0.1)
    assert f"standard error of {nobody:.1f}, and one that a thousand have {thousand:.1f}." in PROSE


def _found_from(count: float, cells: int, nobody: float) -> float:
    """How many people must have a text for its count to be as large in 39 of 40 rounds."""
    keep = sqrt(REPORTS / cells * (1 - 1 / cells)) / nobody
    own, miss = keep + 1 / cells, (1 - 1 / cells) / cells
    people = count
    for _ in range(50):
        variance = (people * own * (1 - own) + (REPORTS - people) * miss) / keep**2
        people = count + 1.96 * sqrt(variance)
    return people


def test_a_text_stands_out_of_so_many_look_ups() -> None:
    (lines,) = (lines for command, lines in ANSWERS if "--query text" in command)
    cells, nobody, _ = _text_errors(lines)
    keep = sqrt(REPORTS / cells * (1 - 1 / cells)) / nobody
    bytes_of_any, bytes_of_few = every_character(), Alphabet.of("abcdefghijklmnopqrstuvwxyz ")
    two, three = (bytes_of_any.count(b"", length, unended=True) for length in (2, 3))
    few, many = (stands_out_from((nobody * keep) ** 2, number) / keep for number in (two, MOST_LOOKED_UP))
    assert f"an estimate of at least {few:.0f} people stands out of 27,165 look-ups" in PROSE
    assert f"Of {MOST_LOOKED_UP:,} look-ups, one of at least {many:.0f} people does" in PROSE
    found = [_found_from(count, cells, nobody) for count in (few, many)]
    assert f"{found[0]:.0f} in round 0, and {found[1]:.0f} in the others" in PROSE
    # From Python 3.12 on, Unicode has one more look-up; the page has both.
    assert f"{two:,}" in PROSE
    assert f"27 characters, which are {bytes_of_few.count(b'', 2, unended=True):,} with every Python" in PROSE
    assert f"three ({three:,} look-ups)" in PROSE


def test_the_rounds_of_a_text_cost_what_their_plan_says(tmp_path: Path) -> None:
    (draft,) = re.findall(r"```toml\n(\[task\]\nname = \"search\".*?)```", TEXT, re.DOTALL)
    (tmp_path / "search.toml").write_text(draft)
    planned = " ".join(printed(f"hubbub plan {tmp_path / 'search.toml'}"))
    (together,) = re.findall(r"all 4 rounds together (ε ≤ [0-9.]+),", planned)
    assert f"{together} together" in PROSE


def test_a_state_sent_directly_has_the_error_of_its_share_of_the_cap() -> None:
    gamma = 2 / (exp(40 / 16) + 1)
    error = sqrt(count_variance(0, 1 - gamma / 2, gamma / 2))
    assert error == pytest.approx(98.7028, rel=1e-4)
    assert f"The error is {error:.1f} in every round" in PROSE
