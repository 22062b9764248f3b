"""Draws the pictures of the explanations as NAME.svg: `make pictures`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from pictures.gaps import GAPS
from pictures.numbers import NUMBERS
from pictures.parties import PARTIES

FOLDER = Path(__file__).parent

PICTURES: Mapping[str, Callable[[], str]] = MappingProxyType({**PARTIES, **NUMBERS, **GAPS})
"""Every picture, by the name of its file."""


def main() -> None:
    """Write all pictures into this folder."""
    for name, picture in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
