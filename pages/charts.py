"""Draws published rows as SVG on the server: estimates with their intervals, series over rounds, and budgets.

Every function returns a `<figure>` to put into a page as it is. It needs no script; colors are variables of the shared
style, so that they fit the dark and paper. A picture has a title and a description for screen readers.
`hubbub.pages.shown_rows.table` returns the table with the same numbers, which belongs beside it. Names are escaped and
cut, and cannot change the direction of other text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, log10

from markupsafe import Markup

from hubbub.pages.shown_rows import MAY_BE_ZERO, ShownNumbers, plain, short, shown
from hubbub.queries.estimation.estimates import SHOWN_COUNTS
from hubbub.results.intervals import band
from hubbub.results.published_row import PublishedRow

MOST_SERIES = 12
"""Series of one query that are drawn, a picture each."""

WIDTH = 480
"""Of a picture, in its own units: text of 13 is still read where it is scaled to a phone."""

_ROW, _FOOT = 40, 26
_LEFT, _TOP, _PLOT = 66, 26, 84

SMALLEST_SPAN = 1e-290
"""Numbers that are closer are drawn as if they were the same."""

_COLUMNS = 60
"""Characters of usual width in a line of a picture."""

_LETTER = 7.6
"""Units that a digit has in a picture, in wide fonts."""

_DATE = 150
"""Units that a round's number and date have in a picture."""

Scale = Callable[[float], float]


def estimates(rows: Sequence[PublishedRow], *, most: int = SHOWN_COUNTS, title: str | None = None) -> Markup:
    """Draw the estimates of one round with their 95 % intervals.

    Args:
        rows: rows of one query, statistic and unit (`hubbub.pages.shown_rows.parts`).
        most: how many are drawn; of more, the largest. The text below the picture says so.
        title: what the picture is called; by default the query and its round.

    A count that noise alone could make is drawn hollow. Rows that are withheld are said in words.
    """
    drawn, left = _largest([row for row in rows if _numbered(row)], most)
    if not drawn:
        return _withheld(rows)
    scale, ticks = _across(drawn)
    height = _ROW * len(drawn) + _FOOT
    lines = [
        Markup('<path class="{}" d="M{:.1f} 0V{}"/>').format(kind, scale(at), height - _FOOT) for at, kind in ticks
    ]
    numbers = [shown(row) for row in drawn]
    lines += [_estimate(row, numbers[place], place * _ROW, scale) for place, row in enumerate(drawn)]
    lines += list(_foot(scale, [at for at, _ in ticks], height))
    name = title or f"{short(drawn[0].query)}, round {drawn[0].round}"
    pairs = zip(drawn, numbers, strict=True)
    said = "; ".join(f"{short(row.label)} {each.estimate} ({each.interval})" for row, each in pairs)
    return _figure(name, f"Estimates with 95 % intervals: {said}", height, lines, _about(drawn, left))


def series(rows: Sequence[PublishedRow], *, most: int = MOST_SERIES) -> Markup:
    """Draw how estimates changed over rounds: for each category one picture, with its 95 % intervals.

    Args:
        rows: rows of one query, statistic and unit of several rounds, its withheld ones too (`parts`).
        most: how many categories are drawn; of more, those that are largest in the newest round.

    The band holds for all that is drawn at once, with a probability of 95 %. A round that is withheld is a cross on a
    gray ground; a line ends there, and where a round is not in `rows`.
    """
    numbered = [row for row in rows if _numbered(row)]
    if not numbered:
        return _withheld(rows)
    by_key: dict[object, list[PublishedRow]] = {}
    for row in sorted(numbered, key=lambda row: row.round):
        by_key.setdefault(row.key, []).append(row)
    chosen, left = _largest([each[-1] for each in by_key.values()], most)
    drawn = [by_key[row.key] for row in chosen]
    ends = iter(band([row for each in drawn for row in each]))
    places = _Places.of({row.round: row.round_begins.timestamp() for row in rows})
    lost = sorted({row.round for row in rows if row.withheld})
    pictures = [_one_series(each, {row.round: next(ends) for row in each}, places, lost) for each in drawn]
    return Markup("\n").join([*pictures, *_series_about(lost, left, len(drawn))])


def budget(spent: float, whole: float | None, *, about: str = "all rounds so far") -> Markup:
    """Draw how much ε is spent of what the task allows, and what is left; in words alone if it has no limit.

    Args:
        spent: ε of all rounds so far, as the newest certificate states it.
        whole: the task's `epsilon_total`; None if it has none.
        about: what spent it.
    """
    used = Markup('ε spent in {}: <data value="{!r}">{:.6g}</data>').format(about, spent, spent)
    if whole is None:
        return Markup("<p>{}. The task states no limit for all rounds together.</p>").format(used)
    left = max(whole - spent, 0.0)
    end = WIDTH * min(spent / whole, 1.0)
    bars = [
        Markup('<rect class="left" x="0" y="2" width="{}" height="20"/>').format(WIDTH),
        Markup('<rect class="spent" x="0" y="2" width="{:.1f}" height="20"/>').format(end),
    ]
    said = Markup('{} of <data value="{!r}">{:.6g}</data>; left: <data value="{!r}">{:.6g}</data>.').format(
        used, whole, whole, left, left
    )
    words = f"ε spent in {about}: {spent:.6g} of {whole:.6g}; left: {left:.6g}"
    return _figure("Privacy budget", words, 24, bars, said)


def _numbered(row: PublishedRow) -> bool:
    return None not in (row.estimate, row.lower, row.upper)


def _largest(rows: list[PublishedRow], most: int) -> tuple[list[PublishedRow], int]:
    """Return the rows with the largest estimates, in the order in which they came, and how many are left out."""
    if len(rows) <= most:
        return rows, 0
    chosen = set(sorted(range(len(rows)), key=lambda place: -(rows[place].estimate or 0.0))[:most])
    return [row for place, row in enumerate(rows) if place in chosen], len(rows) - most


def _figure(title: str, description: str, height: int, inside: Sequence[Markup], caption: str | Markup = "") -> Markup:
    said = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    whole = Markup(
        '<figure><svg class="chart" role="img" viewBox="0 0 {} {}" width="{}" height="{}">'
        "<title>{}</title><desc>{}</desc>\n{}\n</svg>{}</figure>"
    )
    return whole.format(WIDTH, height, WIDTH, height, plain(title), description, Markup("\n").join(inside), said)


def _withheld(rows: Sequence[PublishedRow]) -> Markup:
    reasons = dict.fromkeys(f"round {row.round}: {row.reason}" for row in rows if row.withheld)
    lines = Markup("").join(Markup("<li>{}</li>").format(plain(each)) for each in reasons)
    return Markup('<p class="quiet">Withheld, so there is nothing to draw.</p><ul>{}</ul>').format(lines)


# Estimates of one round


def _across(rows: Sequence[PublishedRow]) -> tuple[Scale, list[tuple[float, str]]]:
    """Return the scale across a picture and its ticks, each with its class; 0 is there if numbers count people."""
    counts = all(row.unit == "" for row in rows)
    ticks, low, high = _ticks(*_reach(rows, counts), 4)
    span = high - low

    def scale(value: float) -> float:
        return 8 + (WIDTH - 16) * (value - low) / span

    return scale, [(at, "zero" if at == 0 else "axis") for at in ticks]


def _reach(rows: Sequence[PublishedRow], with_zero: bool) -> tuple[float, float]:
    # An estimate without bias may be outside its own interval, which has possible values only.
    every = [value for row in rows for value in (row.estimate, row.lower, row.upper) if value is not None]
    return min(every + [0.0] * with_zero), max(every + [0.0] * with_zero)


def _ticks(low: float, high: float, about: int) -> tuple[list[float], float, float]:
    """Return round numbers that span at least from `low` to `high`, and the first and last of them."""
    # A step has to be a number too.
    span = max(high - low or abs(high) or 1.0, SMALLEST_SPAN)
    unit = 10.0 ** floor(log10(span / about))
    step = next(unit * factor for factor in (1, 2, 5, 10, 20) if span <= unit * factor * about)
    first, last = floor(low / step), ceil(high / step)
    last = last if last > first else first + 1
    decimals = max(0, -floor(log10(step)))
    found = [round(place * step, decimals) + 0.0 for place in range(first, last + 1)]
    return found, found[0], found[-1]


def _estimate(row: PublishedRow, numbers: ShownNumbers, top: int, scale: Scale) -> Markup:
    untold = " untold" if row.significant is False else ""
    low, high, middle = (scale(value or 0.0) for value in (row.lower, row.upper, row.estimate))
    said = f"{numbers.estimate} ({numbers.interval})"
    # Both stand in one line, so that a long number leaves less room for the name; wide letters need more of it.
    name, room = short(row.label, max(_COLUMNS - len(said), 12)), WIDTH - 12 - _LETTER * len(said)
    at = top + 28
    # By %, in one piece: `format` takes twice as long, and the page of a round has hundreds of these.
    line = Markup(
        '<svg y="%d" width="%.0f" height="22"><text x="4" y="15">%s</text></svg>'
        '<text x="%d" y="%d" text-anchor="end">%s</text>'
        '<path class="error%s" d="M%.1f %dH%.1fM%.1f %dv8M%.1f %dv8"/><circle class="dot%s" cx="%.1f" cy="%d" r="4"/>'
    )
    beside = (top, max(room, 0), name, WIDTH - 4, top + 15, said)
    bar = (untold, low, at, high, low, at - 4, high, at - 4)
    return line % (*beside, *bar, untold, middle, at)


def _foot(scale: Scale, ticks: Sequence[float], height: int) -> Iterator[Markup]:
    for place, at in enumerate(ticks):
        anchor = "start" if place == 0 else "end" if place == len(ticks) - 1 else "middle"
        line = Markup('<text class="quiet" x="{:.1f}" y="{}" text-anchor="{}">{}</text>')
        yield line.format(scale(at), height - 8, anchor, _tick(at))


def _tick(value: float) -> str:
    return f"{value:,.10g}" if abs(value) < 1e10 else f"{value:.3g}"


def _about(drawn: Sequence[PublishedRow], left: int) -> str:
    said = [f"In {short(drawn[0].unit)}."] if drawn[0].unit else []
    said.append("The bars are 95 % intervals: about one in 20 misses the truth.")
    if any(row.significant is False for row in drawn):
        said.append(f"Hollow ({MAY_BE_ZERO}): noise alone could make this count.")
    if left:
        said.append(f"These are the largest {len(drawn)} of {len(drawn) + left}; the table has all.")
    return " ".join(said)


# Series over rounds


@dataclass(frozen=True)
class _Places:
    """Where rounds are on the line of time, by when they began: found once for all pictures of a series."""

    of_round: dict[int, float]

    @cached_property
    def written(self) -> dict[int, str]:
        """The same as a picture has it: written once, as each picture has it in five lines."""
        return {number: f"{x:.1f}" for number, x in self.of_round.items()}

    @classmethod
    def of(cls, times: dict[int, float]) -> _Places:
        first, last = min(times.values()), max(times.values())
        width = WIDTH - _LEFT - 12
        long = last > first
        return cls(
            {
                each: _LEFT + (width * (time - first) / (last - first) if long else width / 2)
                for each, time in times.items()
            }
        )


@dataclass(frozen=True)
class _Scales:
    """The scales of one picture of a series: rounds by when they began, and values."""

    places: _Places
    low: float
    high: float

    def x(self, number: int) -> float:
        return self.places.of_round[number]

    def y(self, value: float) -> float:
        return _TOP + _PLOT * (self.high - value) / (self.high - self.low)

    def point(self, number: int, value: float) -> str:
        """Return both as a path has them."""
        return f"{self.places.written[number]} {self.y(value):.1f}"


def _one_series(
    rows: list[PublishedRow], ends: dict[int, tuple[float, float]], places: _Places, lost: list[int]
) -> Markup:
    reach = _reach(rows, False)
    low = min(reach[0], *(each for each, _ in ends.values()))
    high = max(reach[1], *(each for _, each in ends.values()))
    ticks, low, high = _ticks(low, high, 3)
    plot = _Scales(places, low, high)
    name, first, last = short(rows[0].label), rows[0], rows[-1]
    inside = [Markup('<text x="4" y="15">{}</text>').format(name), *_grid(plot, ticks), *_gaps(plot, lost)]
    runs = list(_runs(rows))
    inside += [_band(plot, run, ends) for run in runs]
    inside += [_path("trace", [plot.point(row.round, row.estimate or 0.0) for row in run]) for run in runs]
    inside += [_errors(plot, rows), _dots(plot, rows)]
    inside += list(_dates(plot, rows))
    said = f"{name}: {shown(first).estimate} in round {first.round}, {shown(last).estimate} in round {last.round}"
    gone = f"; withheld: round {', '.join(map(str, lost))}" if lost else ""
    return _figure(f"{short(first.query)}: {name}", said + gone, _TOP + _PLOT + _FOOT, inside)


def _runs(rows: list[PublishedRow]) -> Iterator[list[PublishedRow]]:
    """Yield rows of rounds that follow each other: a line is not drawn over a round without a number."""
    run: list[PublishedRow] = []
    for row in rows:
        if run and row.round != run[-1].round + 1:
            yield run
            run = []
        run.append(row)
    yield run


def _grid(plot: _Scales, ticks: Sequence[float]) -> Iterator[Markup]:
    for at in ticks:
        line = Markup(
            '<path class="{}" d="M{} {:.1f}H{}"/><text class="quiet" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
        )
        kind, y = "zero" if at == 0 else "axis", plot.y(at)
        yield line.format(kind, _LEFT, y, WIDTH - 12, _LEFT - 6, y + 4, _tick(at))


def _gaps(plot: _Scales, lost: Sequence[int]) -> Iterator[Markup]:
    for number in lost:
        x, foot = plot.x(number), _TOP + _PLOT - 6
        yield Markup('<rect class="gap" x="{:.1f}" y="{}" width="8" height="{}"/>').format(x - 4, _TOP, _PLOT)
        cross = Markup('<path class="cross" d="M{:.1f} {}l6 6m0 -6l-6 6"><title>round {}: withheld</title></path>')
        yield cross.format(x - 3, foot - 3, number)


def _path(kind: str, points: Sequence[str], closed: str = "") -> Markup:
    return Markup('<path class="{}" d="M{}{}"/>').format(kind, "L".join(points), closed)


def _band(plot: _Scales, run: list[PublishedRow], ends: dict[int, tuple[float, float]]) -> Markup:
    above = [plot.point(row.round, ends[row.round][1]) for row in run]
    below = [plot.point(row.round, ends[row.round][0]) for row in reversed(run)]
    return _path("band", above + below, "Z")


def _errors(plot: _Scales, rows: Sequence[PublishedRow]) -> Markup:
    bars = [f"M{plot.point(row.round, row.lower or 0.0)}V{plot.y(row.upper or 0.0):.1f}" for row in rows]
    return Markup('<path class="error" d="{}"/>').format("".join(bars))


def _dots(plot: _Scales, rows: Sequence[PublishedRow]) -> Markup:
    dots = [f"M{plot.point(row.round, row.estimate or 0.0)}h0" for row in rows]
    return Markup('<path class="dots" d="{}"/>').format("".join(dots))


def _dates(plot: _Scales, rows: Sequence[PublishedRow]) -> Iterator[Markup]:
    begun = {row.round: row.round_begins for row in rows}
    text = Markup('<text class="quiet" x="{:.1f}" y="{}" text-anchor="{}">round {}, {:%Y-%m-%d}</text>')
    ends = (min(begun), max(begun))
    first, last = map(plot.x, ends)
    # Two dates that would stand on each other are one: the newest.
    for number in ends if last - first > 2 * _DATE else ends[1:]:
        x = plot.x(number)
        anchor = "start" if x < _DATE else "end" if x > WIDTH - _DATE else "middle"
        yield text.format(x, _TOP + _PLOT + 18, anchor, number, begun[number])


def _series_about(lost: Sequence[int], left: int, drawn: int) -> Iterator[Markup]:
    said = ["Bars are 95 % intervals of one round. With a probability of 95 %, the truth is in the band everywhere."]
    if lost:
        said.append(f"Withheld, marked by a cross: round {', '.join(map(str, lost))}.")
    if left:
        said.append(f"These are the {drawn} that are largest in their newest round; {left} more are in the table.")
    yield Markup('<p class="quiet">{}</p>').format(" ".join(said))
