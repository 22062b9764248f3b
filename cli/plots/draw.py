"""Draws SVG and PNG files without a display; the same plot gives the same bytes.

Colors are those of Okabe and Ito, which color-blind people can distinguish. Markers distinguish curves without
color. The style of a line shows what the curve proves: solid is above the truth, dashed below it, dotted neither.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import log10, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.accountant.errors import needs_extra
from hubbub.cli.plots.plan import Panel, Plot, Role, Series
from hubbub.protos.errors import HubbubError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
"""Endings of the files that can be drawn."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B87A00", "#3D9BD9", "#6E6E6E")
"""Okabe and Ito's palette without its yellow, orange and sky blue darkened, for thin lines on white."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
"""Their number, 11, is coprime with that of the colors, 7, so that 77 curves all look different."""

LINES: dict[Role, str] = {
    "upper": "-",
    "lower": "--",
    "holds": "-",
    "neither": ":",
    "stated": ":",
    "promised": "-",
    "seen": "--",
}

READINGS: dict[Role, str] = {
    "upper": "solid: never below the truth",
    "lower": "dashed: attained",
    "holds": "solid: the bound is valid up to here",
    "neither": "dotted: no bound",
    "stated": "dotted: stated",
    "promised": "solid: promised",
    "seen": "dashed: seen",
}
"""The legend's explanation of each style of line that occurs."""

MARKS = 9
"""About so many markers a curve; more would hide the line."""

PLAIN_DECADES = 1.9
"""Shorter logarithmic axes are labeled at more than the powers of ten."""

LONG_LABEL = 33
"""Labels longer than this leave room for one column less in a legend."""

DPI = 150
"""Dots per inch of a PNG."""

SETTINGS: Any = {
    "svg.hashsalt": "hubbub",
    "svg.fonttype": "none",
    "path.simplify": False,
    "font.family": "sans-serif",
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "legend.fontsize": 8.5,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.0,
}
"""Set on top of matplotlib's defaults. A user's own settings are ignored: plots are the same wherever they are made.

Text in an SVG stays text (`svg.fonttype`), so that it can be searched and read aloud. The salt makes the ids in an SVG
the same each time.
"""


class DrawingMissing(HubbubError):
    """The drawing library is not installed."""


def check_drawable(out: Path, option: str = "--out") -> str:
    """Return the format that the ending of `out` asks for, before anything is computed; `option` names it in errors.

    Raises:
        UsageError: another ending, or a folder that does not exist.
        DrawingMissing: matplotlib is not installed.
    """
    ending = out.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise UsageError(f"{option} {out} ends in {out.suffix or 'nothing'!r}; name a file that ends in .svg or .png")
    if not out.parent.is_dir():
        raise UsageError(f"{option} {out}: there is no folder {out.parent}; make it first")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise DrawingMissing(f"{needs_extra('drawing', 'matplotlib', 'plots')}; or leave out {option}") from error
    return ending


def drawn(drawing: Plot, form: str) -> bytes:
    """Return `plot` as a file of the format `form`, one of `FORMATS`: the same bytes for the same plot."""
    with settings():
        return saved(_figure(drawing), drawing.title, drawing.caption, form)


def saved(figure: Figure, title: str, caption: str, form: str) -> bytes:
    """Return a figure as a file of the format `form`, to be called within `settings`."""
    _settle(figure)
    target = io.BytesIO()
    about = {"Title": title, "Description": caption}
    if form == "svg":
        figure.savefig(target, format="svg", metadata={**about, "Date": None, "Creator": "hubbub"})
        return _without_trailing_blanks(target.getvalue())
    figure.savefig(target, format="png", metadata={**about, "Software": "hubbub"})
    return target.getvalue()


def _settle(figure: Figure) -> None:
    """Lay a figure out, and round the places of its axes.

    The solver of the layout depends on addresses in memory, in the last digits. They are in the names of clip paths.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(each, 6) for each in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _without_trailing_blanks(svg: bytes) -> bytes:
    return b"\n".join(line.rstrip() for line in svg.split(b"\n"))


@contextmanager
def settings() -> Iterator[None]:
    """Draw with `SETTINGS` on top of matplotlib's defaults, without the user's own settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def blank(title: str, size: tuple[float, float]) -> Figure:
    """Return a figure of so many inches with nothing on it but its title, to be called within `settings`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    figure.suptitle(title, fontsize=12)
    return figure


def _figure(drawing: Plot) -> Figure:
    many = len(drawing.panels) > 1
    columns = 2 if many else 1
    rows = -(-len(drawing.panels) // columns)
    legends = sum(_legend_rows(drawing.panels[row * columns : (row + 1) * columns], columns) for row in range(rows))
    size = (10.5 if many else 8.0, 0.5 + rows * 3.9 + 0.19 * legends)
    figure = blank(drawing.title, size)
    for place, panel in enumerate(drawing.panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        _draw(axes, panel, f"panel-{place + 1}", columns)
        if many:
            axes.set_title(panel.title)
    return figure


def _legend_columns(panel: Panel, columns: int) -> int:
    longest = max((len(series.label) for series in panel.series), default=0)
    return 3 - (columns == 2) - (longest > LONG_LABEL)


def _legend_rows(panels: Sequence[Panel], columns: int) -> int:
    return max(-(-(len(panel.series) + 1) // _legend_columns(panel, columns)) for panel in panels)


def _draw(axes: Axes, panel: Panel, name: str, columns: int) -> None:
    axes.set_xscale(panel.x.scale or "linear")
    axes.set_yscale(panel.y.scale or "linear")
    axes.set_xlabel(panel.x.label)
    axes.set_ylabel(panel.y.label)
    for place, series in enumerate(panel.series):
        _line(axes, series, place, f"{name}-series-{place + 1}")
    if panel.shaded:
        _shade(axes, panel, f"{name}-gap")
    if panel.x.limits is not None:
        axes.set_xlim(*panel.x.limits)
    if panel.y.limits is not None:
        axes.set_ylim(*panel.y.limits)
    for axis in (axes.xaxis, axes.yaxis):
        _plain_labels(axis)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        borderaxespad=4.3,
        ncols=_legend_columns(panel, columns),
        frameon=False,
        title=_reading(panel),
        title_fontsize=8.5,
        handlelength=3.2,
    )


def _plain_labels(axis: Axis) -> None:
    """Label a short logarithmic axis at 1, 2 and 5 times powers of ten, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if axis.get_scale() == "log" and log10(high / low) < PLAIN_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _reading(panel: Panel) -> str:
    return "; ".join(words for role, words in READINGS.items() if any(each.role == role for each in panel.series))


def _line(axes: Axes, series: Series, place: int, gid: str) -> None:
    color = "black" if series.strong else COLORS[place % len(COLORS)]
    (line,) = axes.plot(
        series.x,
        [nan if value is None else value for value in series.y],
        LINES[series.role],
        color=color,
        marker=MARKERS[place % len(MARKERS)],
        markevery=marked(series, place),
        markerfacecolor=color if LINES[series.role] == "-" else "white",
        linewidth=2.4 if series.strong else 1.5,
        label=f"{series.label} (nowhere here)" if series.empty else series.label,
        zorder=2.5 if series.strong else 2,
    )
    line.set_gid(gid)


def marked(series: Series, place: int) -> list[int]:
    """Return which points have a marker: evenly spaced ones, staggered by `place`, and each one between two gaps."""
    # A single point between gaps has no line, so without a marker it would not be seen.
    there = [index for index, value in enumerate(series.y) if value is not None]
    every = max(1, round(len(series.x) / MARKS))
    alone = [index for index in there if index - 1 not in there and index + 1 not in there]
    return sorted({index for index in there if index % every == place % every} | set(alone))


def _shade(axes: Axes, panel: Panel, gid: str) -> None:
    """Shade between the lowest upper bound and the highest attained value, at points with both."""
    lowest, highest = _envelope(panel, "upper"), _envelope(panel, "lower")
    # Only at points with both: shading across a gap would claim a bound that does not exist.
    both = sorted(set(lowest) & set(highest))
    if not both:
        return
    known = sorted({x for series in panel.series for x in series.x})
    shaded = axes.fill_between(
        known,
        [highest.get(x, nan) for x in known],
        [lowest.get(x, nan) for x in known],
        where=[x in lowest and x in highest for x in known],
        color="#BBBBBB",
        alpha=0.5,
        linewidth=0,
        label="gap between proven and attained",
        zorder=1,
    )
    shaded.set_gid(gid)


def _envelope(panel: Panel, role: Role) -> dict[float, float]:
    best = min if role == "upper" else max
    found: dict[float, float] = {}
    for series in panel.series:
        for x, y in zip(series.x, series.y, strict=True):
            if series.role == role and y is not None:
                found[x] = best(found.get(x, y), y)
    return found
