"""Computes how far above the attack each mechanism's ε is: the table of a page, and its picture (`make gaps`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from hubbub.accountant import compose, epsilon_bracket
from hubbub.accountant.mechanisms import KRR, RAPPOR, AnyMechanism, Common, Finite, Gaussian, Generic, Hashed, Laplace
from hubbub.accountant.pairs import Part
from pictures.canvas import Canvas

PAGE = Path(__file__).parent.parent / "explanation" / "bounds.md"
"""The page that has the table."""

DELTA = 1e-6
REPORTS = (10**3, 10**4, 10**5)
ROUNDS = (1, 100)

SHOWN = 10**4
"""The number of reports in the picture."""

NONE = "–"
"""A cell without a number: rounds that are not composed."""

QUARTER = Fraction(1, 4)

MECHANISMS: Mapping[str, AnyMechanism] = MappingProxyType(
    {
        "kRR, k = 4, ε₀ = 1": KRR.from_local_epsilon(4, 1.0),
        "kRR, k = 2, ε₀ = 1": KRR.from_local_epsilon(2, 1.0),
        "hashes into 1024 cells, ε₀ = 4": Hashed(1024, 16, KRR.from_local_epsilon(1024, 4.0).gamma),
        "RAPPOR, k = 4, ε₀ = 1": RAPPOR.from_local_epsilon(4, 1.0),
        "RAPPOR, k = 4, ε₀ = 2": RAPPOR.from_local_epsilon(4, 2.0),
        "RAPPOR, k = 2, ε₀ = 2": RAPPOR.from_local_epsilon(2, 2.0),
        "the law ½ ¼ ¼, ¼ ½ ¼": Finite(((2 * QUARTER, QUARTER, QUARTER), (QUARTER, 2 * QUARTER, QUARTER))),
        "Laplace noise, ε₀ = 1": Laplace(1.0),
        "Laplace noise, ε₀ = 4": Laplace(4.0),
        "Gaussian noise, σ = 1": Gaussian(1.0),
        "any randomizer, ε₀ = 0.1": Common(0.1),
        "any randomizer, ε₀ = ¼": Common(0.25),
        "any randomizer, ε₀ = 1": Common(1.0),
        "any randomizer, ε₀ = 4": Common(4.0),
        "places that choose, ε₀ = ¼": Generic(0.25),
        "places that choose, ε₀ = 1": Generic(1.0),
    }
)
"""Every row: its words and its mechanism."""

Cell = tuple[str, int, int]
"""A row's words, the number of reports and the number of rounds."""

START, END = "<!-- gaps: made by make gaps -->", "<!-- end of gaps -->"

_LINE = re.compile(r"^\| (?P<name>[^|]+) \|(?P<cells>( [^|]+ \|)+)$", re.MULTILINE)


def is_composed(cell: Cell) -> bool:
    """Return whether the cell has a number: Gaussian noise has one for one round only."""
    name, _, rounds = cell
    return rounds == 1 or not isinstance(MECHANISMS[name], Gaussian)


def gap(cell: Cell) -> float:
    """Return ε_upper/ε_lower − 1."""
    name, reports, rounds = cell
    mechanism = MECHANISMS[name]
    if isinstance(mechanism, Gaussian):
        found = epsilon_bracket(mechanism, reports, DELTA)
    else:
        found = compose([Part(mechanism, reports, rounds)], DELTA)
    if not found.epsilon_lower:
        raise ValueError(f"{name} has no lower end at {reports} reports and {rounds} rounds; find an attack")
    return found.epsilon_upper / found.epsilon_lower - 1


def cells() -> list[Cell]:
    """Return all cells, row by row."""
    return [(name, reports, rounds) for name in MECHANISMS for rounds in ROUNDS for reports in REPORTS]


def written(value: float | None) -> str:
    """Return a cell of the table."""
    return NONE if value is None else f"{float(f'{100 * value:.2g}'):g} %"


def table(values: Mapping[Cell, float | None]) -> str:
    """Return the table in Markdown."""
    heads = [
        f"{'one round' if rounds == 1 else f'{rounds} rounds'}, n = {reports:,}" for _, reports, rounds in _row("")
    ]
    lines = [f"| mechanism | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    rows = [(name, [written(values[cell]) for cell in _row(name)]) for name in MECHANISMS]
    lines += [f"| {name} | {' | '.join(numbers)} |" for name, numbers in rows]
    return "\n".join(lines)


def _row(name: str) -> list[Cell]:
    return [(name, reports, rounds) for rounds in ROUNDS for reports in REPORTS]


def stated(page: str) -> dict[Cell, float | None]:
    """Return the gaps that the page's table states, rounded as they are there."""
    inside = page[page.index(START) : page.index(END)]
    found: dict[Cell, float | None] = {}
    for line in _LINE.finditer(inside):
        if line["name"] in MECHANISMS:
            words = [each.strip() for each in line["cells"].strip(" |").split("|")]
            numbers = [None if each == NONE else float(each.removesuffix(" %")) / 100 for each in words]
            found |= dict(zip(_row(line["name"]), numbers, strict=True))
    return found


def gaps() -> str:
    """Draw the gaps that the page states."""
    values, step, top = stated(PAGE.read_text(encoding="utf-8")), 38, 92
    height = top + step * len(MECHANISMS) + 40
    canvas = Canvas(height, "Gaps", "How far above the ε of an attack the certified ε is, for every mechanism.")
    canvas.text(20, 40, f"How far above an attack the certified ε is, n = {SHOWN:,}, δ = 10⁻⁶", "title")
    for index, (kind, words) in enumerate((("analyzer", "one round"), ("shuffler", "100 rounds"))):
        canvas.rectangle(270 + 150 * index, 58, 14, 14, kind, 0)
        canvas.text(292 + 150 * index, 70, words)
    for index, name in enumerate(MECHANISMS):
        canvas.text(254, top + step * index + 19, name, "", "end")
        for place, (rounds, kind) in enumerate(zip(ROUNDS, ("analyzer", "shuffler"), strict=True)):
            value, left = values[name, SHOWN, rounds], top + step * index + 15 * place
            if value is not None:
                canvas.rectangle(270, left, max(1.0, round(1150 * value, 1)), 12, kind, 1)
                canvas.text(278 + round(1150 * value, 1), left + 11, written(value), "small")
    canvas.text(20, height - 16, "The truth lies between the two. The bar is what is not known of it.", "small")
    return canvas.svg()


GAPS: Mapping[str, Callable[[], str]] = MappingProxyType({"gaps": gaps})
"""The picture, by the name of its file."""


def main() -> None:
    """Compute all gaps, and write the page's table and the picture."""
    page = PAGE.read_text(encoding="utf-8")
    made = table({cell: gap(cell) if is_composed(cell) else None for cell in cells()})
    before, after = page[: page.index(START)], page[page.index(END) :]
    PAGE.write_text(f"{before}{START}\n\n{made}\n\n{after}", encoding="utf-8")
    (Path(__file__).parent / "gaps.svg").write_text(gaps(), encoding="utf-8")


if __name__ == "__main__":
    main()
