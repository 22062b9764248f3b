"""Shapes of the pictures as SVG text: the same calls give the same bytes, in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 15px; fill: #1f2328; }
.title { font-size: 19px; font-weight: 700; }
.head { font-size: 15px; font-weight: 700; }
.small { font-size: 13px; fill: #59636e; }
.page { fill: #ffffff; stroke: #d1d9e0; }
.box { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.2; }
.line { stroke: #59636e; stroke-width: 1.6; fill: none; }
.thin { stroke: #d1d9e0; stroke-width: 1; fill: none; }
.tip { fill: #59636e; }
.device { fill: #0072b2; }
.shuffler { fill: #d55e00; }
.analyzer { fill: #007d5a; }
.anyone { fill: #a8508a; }
.chance { fill: #8c959f; }
.on { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .small { fill: #9198a1; }
  .page { fill: #0d1117; stroke: #3d444d; }
  .box { fill: #151b23; stroke: #656c76; }
  .line { stroke: #9198a1; }
  .thin { stroke: #3d444d; }
  .tip { fill: #9198a1; }
  .on { fill: #ffffff; }
}
"""
"""Colors for a light page, and for a dark one; the parties' own colors are readable on both."""

WIDTH = 960
"""Width of every picture; its height is its own."""


class Canvas:
    """A picture under construction."""

    def __init__(self, height: int, title: str, description: str) -> None:
        self._height = height
        self._shapes = [
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>',
        ]

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Write one line; `y` is its base line."""
        self._shapes.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>')

    def lines(self, x: float, y: float, lines: Sequence[str], kind: str = "", step: float = 21) -> None:
        """Write lines below each other."""
        for index, words in enumerate(lines):
            self.text(x, y + index * step, words, kind)

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str = "box", radius: float = 6) -> None:
        """Draw a box."""
        self._shapes.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'
        )

    def dot(self, x: float, y: float, kind: str) -> None:
        """Draw a filled circle."""
        self._shapes.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="6"/>')

    def rule(self, x: float, y: float, width: float) -> None:
        """Draw a thin horizontal line."""
        self._shapes.append(f'<path class="thin" d="M{x:g} {y:g}h{width:g}"/>')

    def arrow(self, x: float, y: float, length: float) -> None:
        """Draw an arrow to the right."""
        end = x + length
        self._shapes.append(f'<path class="line" d="M{x:g} {y:g}H{end - 8:g}"/>')
        self._shapes.append(f'<path class="tip" d="M{end:g} {y:g}l-11 -6v12z"/>')

    def svg(self) -> str:
        """Return the picture."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" role="img">'
        return "\n".join([head, *self._shapes, "</svg>", ""])
