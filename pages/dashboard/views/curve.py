"""Draws how large an error is against ε or against people, on scales of powers, as SVG on the server."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from markupsafe import Markup

from hubbub.pages.charts import WIDTH

_HEIGHT, _LEFT, _RIGHT, _TOP, _FOOT = 200, 66, 20, 14, 30

Point = tuple[float, float]

MOST_TICKS = 8

WIDE = 7
"""Characters of a number from which half as many have room."""


def curve(points: Sequence[Point], *, own: float, across: str, up: str) -> Markup:
    """Draw points as a line, the one at `own` filled; "" if there are fewer than two.

    Both scales are of powers, since an error is nearly proportional to 1/ε, and to the root of people.
    """
    ordered = sorted(points)
    if len(ordered) < 2:
        return Markup("")
    x = _Scale([each for each, _ in ordered], _LEFT, WIDTH - _RIGHT)
    y = _Scale([each for _, each in ordered], _HEIGHT - _FOOT, _TOP)
    inside = [*_grid(x, y, ordered)]
    line = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in ordered)
    inside.append(Markup('<path class="trace" d="M{}"/>').format(line))
    for a, b in ordered:
        kind = "dot" if a == own else "dot untold"
        inside.append(Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(kind, x.at(a), y.at(b)))
    said = "; ".join(f"{a:g}: {b:.4g}" for a, b in ordered)
    whole = Markup(
        '<figure><svg class="chart" role="img" viewBox="0 0 {} {}" width="{}" height="{}">'
        "<title>{} against {}</title><desc>{}</desc>\n{}\n</svg><figcaption>{} against {}</figcaption></figure>"
    )
    drawn = Markup("\n").join(inside)
    return whole.format(WIDTH, _HEIGHT, WIDTH, _HEIGHT, up, across, said, drawn, up, across)


class _Scale:
    """Places numbers by their logarithm."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        low, high = log10(min(values)), log10(max(values))
        margin = max(0.05 * (high - low), 0.02)
        self._low, self._span = low - margin, high - low + 2 * margin
        self._first, self._last = first, last

    def at(self, value: float) -> float:
        return self._first + (self._last - self._first) * (log10(value) - self._low) / self._span


def _grid(x: _Scale, y: _Scale, points: Sequence[Point]) -> list[Markup]:
    """Return the ends of the scale of errors, and a mark for each point across."""
    found = []
    for value in sorted({min(b for _, b in points), max(b for _, b in points)}):
        line = Markup(
            '<path class="axis" d="M{} {:.1f}H{}"/>'
            '<text class="quiet" x="{}" y="{:.1f}" text-anchor="end">{:.3g}</text>'
        )
        found.append(line.format(_LEFT, y.at(value), WIDTH - _RIGHT, _LEFT - 6, y.at(value) + 4, value))
    said = {value: f"{value:,.0f}" if value >= 1000 else f"{value:.4g}" for value, _ in points}
    most = MOST_TICKS if max(map(len, said.values())) < WIDE else MOST_TICKS // 2
    for value in list(said)[:: -(-len(points) // most)]:
        mark = Markup('<text class="quiet" x="{:.1f}" y="{}" text-anchor="middle">{}</text>')
        found.append(mark.format(x.at(value), _HEIGHT - 8, said[value]))
    return found
