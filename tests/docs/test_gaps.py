"""The gaps that a page states are today's, none is missing, and the ones that were promised are kept."""

from __future__ import annotations

import pytest

from pictures.gaps import END, MECHANISMS, PAGE, REPORTS, ROUNDS, START, Cell, cells, gap, is_composed, stated, table

STATED = stated(PAGE.read_text(encoding="utf-8"))

QUICK: list[Cell] = [
    ("kRR, k = 4, ε₀ = 1", 1000, 1),
    ("RAPPOR, k = 4, ε₀ = 2", 10**4, 1),
    ("any randomizer, ε₀ = ¼", 10**5, 1),
]


def recomputed(cell: Cell) -> None:
    # Two digits are stated; below a part in ten thousand they are those of the evaluation.
    assert gap(cell) == pytest.approx(STATED[cell], rel=0.06, abs=1e-4)


@pytest.mark.parametrize("cell", QUICK, ids=str)
def test_a_stated_gap_is_todays(cell: Cell) -> None:
    recomputed(cell)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_stated_gaps_of_a_mechanism_are_todays(name: str) -> None:
    for cell in ((name, REPORTS[0], ROUNDS[0]), (name, REPORTS[1], ROUNDS[1])):
        if is_composed(cell):
            recomputed(cell)


def test_every_cell_is_stated_and_is_written_in_the_same_way() -> None:
    assert set(STATED) == set(cells())
    assert {cell for cell, value in STATED.items() if value is None} == {
        cell for cell in cells() if not is_composed(cell)
    }
    page = PAGE.read_text(encoding="utf-8")
    assert page[page.index(START) + len(START) : page.index(END)].strip() == table(STATED)


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("kRR", 0.0025),
        ("hashes", 0.001),
        ("any randomizer, ε₀ = 0.1", 0.025),
        ("any randomizer, ε₀ = ¼", 0.06),
        ("any randomizer", 0.06),
        ("the law", 0.15),
        ("Laplace noise", 0.15),
        ("places that choose, ε₀ = ¼", 0.072),
    ],
)
def test_gaps_are_at_most(words: str, most: float) -> None:
    assert max(value or 0.0 for (name, _, _), value in STATED.items() if name.startswith(words)) <= most


def test_rappor_over_rounds_is_within_15_percent_of_its_upper_end() -> None:
    values = [value or 0.0 for (name, _, _), value in STATED.items() if name.startswith("RAPPOR, k = 4")]
    assert len(values) == 2 * len(REPORTS) * len(ROUNDS)
    assert max(values) <= 0.15 / 0.85
