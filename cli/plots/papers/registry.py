"""The papers' comparisons, redrawn from the accountant's own numbers, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hubbub.cli.plots.papers import balle, feldman, girgis, koskela
from hubbub.cli.plots.plan import PicturePlan
from hubbub.protos.errors import UsageError


@dataclass(frozen=True)
class Figure:
    """A comparison: the figure it redraws, what it compares, and its plan."""

    source: str
    about: str
    plan: Callable[[], PicturePlan]


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "balle-3": Figure("balle-2019, Fig. 3", "the privacy blanket by Hoeffding, by Bennett and exactly", balle.plan),
        "koskela-1": Figure("koskela-2021, Fig. 1", "kRR over rounds, for two adversaries", koskela.plan_1),
        "koskela-2": Figure("koskela-2021, Fig. 2", "any randomizer over rounds: clone pairs", koskela.plan_2),
        "feldman-1": Figure("feldman-2022, Fig. 1", "any common randomizer: proven and attained", feldman.plan),
        "girgis-4a": Figure("girgis-2021, Fig. 4a", "10⁵ rounds, composed in five ways", girgis.plan),
    }
)
"""Every comparison that can be drawn."""


def planned(name: str) -> PicturePlan:
    """Return the plan of the figure `name`, or raise UsageError."""
    if name not in FIGURES:
        raise UsageError(f"--figure {name!r} is unknown, must be one of: {', '.join(FIGURES)}")
    return FIGURES[name].plan()
