"""Runs `hubbub` with a clock that is ahead by the seconds in a file `clock` beside the settings; none is 0.

    python shifted_clock.py shuffler SETTINGS.toml …

The file is read at each look at the clock, so the clock may be put forward while a service runs. Only hubbub's own
looks at the time are shifted, as on a machine without NTP. Seconds are measured as they are, and gRPC makes its
deadlines of a time that it measures by a clock of its own.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

PROGRAM = (sys.executable, "-P", __file__)
"""What runs a service in the place of `hubbub`."""

FILE = "clock"


def set_ahead(folder: Path, seconds: float) -> None:
    """Put the clock of a party's services forward by so many seconds, or back."""
    written = folder / f"{FILE}.new"
    written.write_text(f"{seconds}")
    written.replace(folder / FILE)


def main() -> None:
    """Shift the clock before anything of `hubbub` is loaded, which takes it as it is then."""
    file, real = Path(sys.argv[2]).with_name(FILE), time.time

    def shifted() -> float:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        try:
            return real() + (float(file.read_text()) if caller.startswith("hubbub.") else 0.0)
        except FileNotFoundError:
            return real()

    time.time = shifted
    from hubbub.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
