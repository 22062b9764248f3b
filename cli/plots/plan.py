"""Curves to be computed, and the numbers that came out.

A curve's point is a number from the accountant, or a gap with the reason: a bound outside its conditions is never drawn
as a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Literal

from hubbub.accountant.errors import AccountingError, OutsideConditions

Role = Literal["upper", "lower", "holds", "neither", "promised", "seen", "stated"]
"""What a curve proves: nothing true lies above; nothing valid lies below; a bound is valid up to here; or nothing.

For rounds that were run: the promised and the observed values. `stated` is what somebody asked for."""

Scale = Literal["linear", "log"]

WIDE = 12.0
"""Ratio of largest to smallest value from which on a positive axis is logarithmic by default."""


@dataclass(frozen=True)
class Axis:
    """An axis: its label with the unit, its scale, and the range that is shown; None derives both from the numbers."""

    label: str
    scale: Scale | None = None
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class CurvePlan:
    """A curve to be computed: `at(x)` is its value, or raises OutsideConditions if there is none."""

    label: str
    role: Role
    x: tuple[float, ...]
    at: Callable[[float], float]
    strong: bool = False


@dataclass(frozen=True)
class Series:
    """A curve's points; `y` is None at gaps, and `why_not` is the reason for the first of them.

    `strong` draws it before all others. Equal series share one curve, with both labels.
    """

    label: str
    role: Role
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    why_not: str | None = None
    strong: bool = False

    @property
    def empty(self) -> bool:
        """Whether the curve has no point."""
        return all(value is None for value in self.y)


@dataclass(frozen=True)
class PanelPlan:
    """One coordinate system with the curves to be computed.

    `shaded`: the gap between proven and attained is shown, for curves that are all about the same batches.
    """

    title: str
    x: Axis
    y: Axis
    curves: tuple[CurvePlan, ...]
    shaded: bool = True


@dataclass(frozen=True)
class Panel:
    """One coordinate system with its series."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    shaded: bool = True


@dataclass(frozen=True)
class PlotPlan:
    """A plot to be computed; `caption` gives its parameters and what readers should know."""

    title: str
    caption: str
    panels: tuple[PanelPlan, ...]

    @property
    def points(self) -> int:
        """How many values have to be computed."""
        return sum(len(curve.x) for panel in self.panels for curve in panel.curves)


@dataclass(frozen=True)
class Plot:
    """A plot with all its numbers, ready to be drawn."""

    title: str
    caption: str
    panels: tuple[Panel, ...]


def evaluate(plan: PlotPlan, advance: Callable[[], None] = lambda: None) -> Plot:
    """Compute every point of `plan`; `advance` is called after each.

    Raises:
        AccountingError: a point whose numbers are out of range, not merely outside a theorem's conditions.
    """
    return Plot(plan.title, plan.caption, tuple(_panel(panel, advance) for panel in plan.panels))


def _panel(plan: PanelPlan, advance: Callable[[], None]) -> Panel:
    series = tuple(_series(curve, advance) for curve in plan.curves)
    values = [value for each in series for value in each.y if value is not None]
    return Panel(
        plan.title, plan.x, plan.y if plan.y.scale else replace(plan.y, scale=scale_of(values)), series, plan.shaded
    )


def scale_of(values: list[float]) -> Scale:
    """Return the scale on which `values` can be distinguished; zeros can only be shown on a linear one."""
    wide = bool(values) and min(values) > 0 and max(values) > WIDE * min(values)
    return "log" if wide else "linear"


def _series(curve: CurvePlan, advance: Callable[[], None]) -> Series:
    found: list[float | None] = []
    why_not = None
    for x in curve.x:
        try:
            value = curve.at(x)
        except OutsideConditions as error:
            # A gap, not 0 or the last value: outside its conditions a bound proves nothing.
            found.append(None)
            why_not = why_not or str(error)
        else:
            if not isfinite(value):
                raise AccountingError(f"{curve.label} is {value} at {x:g}, not a finite number; leave that point out")
            found.append(float(value))
        advance()
    return Series(curve.label, curve.role, curve.x, tuple(found), why_not, curve.strong)


def document(drawing: Plot) -> dict[str, Any]:
    """Return `plot` as one JSON document: `points` are [x, y], y null at a gap."""
    return {
        "title": drawing.title,
        "caption": drawing.caption,
        "panels": [
            {
                "title": panel.title,
                "x": asdict(panel.x),
                "y": asdict(panel.y),
                "series": [_described(series) for series in panel.series],
            }
            for panel in drawing.panels
        ],
    }


def _described(series: Series) -> dict[str, Any]:
    return {
        "label": series.label,
        "role": series.role,
        "points": [list(point) for point in zip(series.x, series.y, strict=True)],
        "why_not": series.why_not,
    }
