"""Redraws the papers' comparisons from the accountant's own numbers, as NAME.svg and NAME.json: `make figures`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hubbub.cli.plots.draw import drawn
from hubbub.cli.plots.plan import PlotPlan, document, evaluate
from hubbub.cli.terminal.progress import progress_bars
from papers import balle, feldman, girgis, koskela

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Figure:
    """A comparison: the figure it redraws, and its plan."""

    source: str
    plan: Callable[[], PlotPlan]


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "balle-3": Figure("balle-2019, Fig. 3", balle.plan),
        "koskela-1": Figure("koskela-2021, Fig. 1", koskela.plan_1),
        "koskela-2": Figure("koskela-2021, Fig. 2", koskela.plan_2),
        "feldman-1": Figure("feldman-2022, Fig. 1", feldman.plan),
        "girgis-4a": Figure("girgis-2021, Fig. 4a", girgis.plan),
    }
)
"""Every comparison, by the name of its files."""


def draw(name: str, folder: Path) -> None:
    """Write one comparison's picture and its points into a folder."""
    plan = FIGURES[name].plan()
    with progress_bars(False) as bars:
        bar = bars.add_task(name, total=plan.points)
        picture = evaluate(plan, lambda: bars.advance(bar))
    (folder / f"{name}.svg").write_bytes(drawn(picture, "svg"))
    (folder / f"{name}.json").write_text(json.dumps(document(picture), indent=2, ensure_ascii=False) + "\n")


def main(names: Sequence[str]) -> None:
    """Draw these comparisons, or all."""
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise SystemExit(f"error: no such figure: {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    for name in names or FIGURES:
        draw(name, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
