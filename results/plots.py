"""Draws rows with matplotlib: one round as bars of errors, several as series over time with bands."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, Any

from hubbub.accountant.errors import needs_extra
from hubbub.protos.errors import UsageError
from hubbub.results.intervals import band
from hubbub.results.published_row import PublishedRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B87A00", "#3D9BD9", "#6E6E6E")
"""Okabe and Ito's palette, which color-blind people can distinguish; as in the pictures of the command line."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
"""Their number, 11, is coprime with that of the colors, so that 77 series all look different."""

MOST_SERIES = 20
"""More series in one picture cannot be told apart."""


def draw(rows: Sequence[PublishedRow], ax: Axes | None = None) -> Axes:
    """Draw the rows of one query on `ax`, or on a new figure; return the axes.

    Raises:
        UsageError: if there is nothing to draw, or it has several units or queries, or too many series, or `ax` is not
            one of flat axes.
        ModuleNotFoundError: if matplotlib is not installed; the message names the extra.
    """
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(needs_extra("plot", str(error.name), "plots"), name=error.name) from error
    numbered = [row for row in rows if row.estimate is not None and row.lower is not None]
    if not rows:
        raise UsageError("the table has no rows to draw: `where` found none; table.queries and table.rounds list them")
    _check(numbered)
    axes = pyplot.subplots(layout="constrained")[1] if ax is None else _flat(ax)
    first = numbered[0]
    if len({row.round for row in rows}) == 1:
        _one_round(axes, numbered)
        axes.set_title(f"{first.query}, round {first.round} of {first.task}")
        axes.set_xlabel(first.unit or "people")
    else:
        _series(axes, rows, numbered)
        axes.set_title(f"{first.query} of {first.task}")
        axes.set_xlabel("beginning of the round (UTC)")
        axes.set_ylabel(first.unit or "people")
    return axes


def _flat(ax: object) -> Axes:
    """Return the axes that the caller gives, if one picture can be drawn there.

    Raises:
        UsageError: if they are several, as `pyplot.subplots` returns, or no axes, or round or deep ones.
    """
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes) or ax.name != "rectilinear":
        what = f"{ax.name} axes" if isinstance(ax, Axes) else type(ax).__name__
        raise UsageError(f"ax is one of matplotlib's flat axes, such as pyplot.subplots()[1], not {what}")
    return ax


def _check(rows: Sequence[PublishedRow]) -> None:
    if not rows:
        raise UsageError("no row has a number to draw; `reason` of each row says why")
    about = sorted({f"{row.query} in {row.unit or 'people'}" for row in rows})
    if len(about) > 1:
        raise UsageError(
            f"the table has {', '.join(about)}, and one picture has one; choose with table.where(query=…, statistic=…)"
        )
    series = {row.key for row in rows}
    if len(series) > MOST_SERIES and len({row.round for row in rows}) > 1:
        raise UsageError(
            f"{len(series)} series are too many for a picture of at most {MOST_SERIES}; choose some categories"
        )


def _one_round(axes: Axes, rows: Sequence[PublishedRow]) -> None:
    places = list(range(len(rows)))
    values = [row.estimate or 0.0 for row in rows]
    axes.errorbar(values, places, xerr=_bars(rows), fmt="o", color=COLORS[0], capsize=3, label="95 % interval")
    axes.set_yticks(places, [row.label for row in rows])
    axes.invert_yaxis()


def _series(axes: Axes, rows: Sequence[PublishedRow], numbered: Sequence[PublishedRow]) -> None:
    # A round in which the query is withheld has a time and no number: the line has a gap there.
    times = {row.round: row.round_begins for row in rows}
    ends = dict(zip(((row.round, row.key) for row in numbered), band(numbered), strict=True))
    held = {(row.round, row.key): row for row in numbered}
    for place, key in enumerate(dict.fromkeys(row.key for row in numbered)):
        color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
        here = [held[number, key] for number in sorted(times) if (number, key) in held]
        moments: Any = [row.round_begins for row in here]
        values = [row.estimate or 0.0 for row in here]
        axes.errorbar(moments, values, yerr=_bars(here), fmt=marker, color=color, capsize=3, label=here[0].label)
        every: Any = [times[number] for number in sorted(times)]
        lines = [[ends.get((number, key), (nan, nan))[side] for number in sorted(times)] for side in (0, 1)]
        axes.plot(every, [_value(held.get((number, key))) for number in sorted(times)], color=color, linewidth=1)
        axes.fill_between(every, lines[0], lines[1], color=color, alpha=0.15, linewidth=0)
    axes.legend()
    axes.tick_params(axis="x", rotation=30)


def _value(row: PublishedRow | None) -> float:
    return nan if row is None or row.estimate is None else row.estimate


def _bars(rows: Sequence[PublishedRow]) -> list[list[float]]:
    """Return how far each interval reaches below and above; one of possible values may end before its number."""
    below = [max((row.estimate or 0.0) - (row.lower or 0.0), 0.0) for row in rows]
    above = [max((row.upper or 0.0) - (row.estimate or 0.0), 0.0) for row in rows]
    return [below, above]
