"""Draws estimates with their intervals next to the truth, over categories or over rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.cli.plots.draw import COLORS, blank, saved, settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ESTIMATE, BAND = COLORS[0], "95 % interval"

PANEL_HEIGHT = 4.2
"""Inches of a panel over rounds."""

NOTHING = "nothing stands out of the noise"

ROW_HEIGHT = 0.24
"""Inches of a category."""


@dataclass(frozen=True)
class PlotPoint:
    """One statistic: its position on the axis, its true value, its estimate and the interval around it."""

    at: str | float
    truth: float
    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class CategoryPanel:
    """A panel with a row for each category, the first on top; `at` is its name. Without rows it prints `NOTHING`."""

    title: str
    label: str
    points: tuple[PlotPoint, ...]

    @property
    def height(self) -> float:
        """Inches it takes."""
        return 1.2 + ROW_HEIGHT * max(1, len(self.points))

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        if not self.points:
            axes.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=axes.transAxes)
            axes.set_axis_off()
            return
        rows = range(len(self.points))
        values = [point.estimate for point in self.points]
        below = [max(0.0, point.estimate - point.lower) for point in self.points]
        above = [max(0.0, point.upper - point.estimate) for point in self.points]
        axes.errorbar(values, rows, xerr=(below, above), fmt="o", color=ESTIMATE, capsize=3, label=f"estimate, {BAND}")
        axes.scatter([point.truth for point in self.points], rows, marker="|", s=140, color="black", label="truth")
        axes.set_yticks(list(rows), [str(point.at) for point in self.points])
        axes.invert_yaxis()
        axes.set_xlabel(self.label)


@dataclass(frozen=True)
class OverRoundsPanel:
    """A panel with a band over the rounds; `at` is a round's number."""

    title: str
    label: str
    points: tuple[PlotPoint, ...]
    height: float = PANEL_HEIGHT

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        x = [float(point.at) for point in self.points]
        band = axes.fill_between(
            x, [each.lower for each in self.points], [each.upper for each in self.points], color=ESTIMATE, alpha=0.2
        )
        band.set_label(BAND)
        band.set_gid("band")
        axes.plot(x, [each.estimate for each in self.points], "o-", color=ESTIMATE, label="estimate")
        axes.plot(x, [each.truth for each in self.points], "-", color="black", label="truth")
        axes.set_xlabel("round")
        axes.set_ylabel(self.label)


Panel = CategoryPanel | OverRoundsPanel
"""What a comparison is made of."""


@dataclass(frozen=True)
class Comparison:
    """A plot of estimates next to the truth; `caption` describes its data."""

    title: str
    caption: str
    panels: tuple[Panel, ...]


def drawn(comparison: Comparison, form: str) -> bytes:
    """Return a comparison as a file of the format `form`: the same bytes for the same comparison."""
    with settings():
        return saved(_figure(comparison), comparison.title, comparison.caption, form)


def _figure(comparison: Comparison) -> Figure:
    heights = [panel.height for panel in comparison.panels]
    figure = blank(comparison.title, (8.0, 0.6 + sum(heights)))
    grid = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    for axes, panel in zip(grid[:, 0], comparison.panels, strict=True):
        panel.draw(axes)
        axes.set_title(panel.title)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    return figure
