"""Writes what is made from the code, `make reference`: pages of docs/reference, and Grafana's dashboard.

With --check it names what is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from reference.making import dashboard, pages


def main(words: Sequence[str]) -> None:
    """Write the pages, or check them."""
    if list(words) not in ([], ["--check"]):
        raise SystemExit(f"error: {' '.join(words)!r} is no option; there is --check alone")
    if not words:
        pages.write()
        dashboard.write()
        return
    found = [*pages.stale(), *dashboard.stale()]
    if found:
        raise SystemExit(f"error: {', '.join(found)} are not what the code says; run make reference")


if __name__ == "__main__":
    main(sys.argv[1:])
