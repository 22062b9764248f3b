"""Writes the pages of docs/reference that are made from the code: `make reference`; with --check names those stale."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from reference.making.pages import stale, write


def main(words: Sequence[str]) -> None:
    """Write the pages, or check them."""
    if list(words) not in ([], ["--check"]):
        raise SystemExit(f"error: {' '.join(words)!r} is no option; there is --check alone")
    if not words:
        write()
        return
    found = stale()
    if found:
        raise SystemExit(f"error: {', '.join(found)} are not what the code says; run make reference")


if __name__ == "__main__":
    main(sys.argv[1:])
