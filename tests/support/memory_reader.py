"""A program without privileges that tries to read other processes of its account, by all ways that Linux has.

Run with a secret in hex and the ids of processes, it prints JSON: by process what it got to read, "the secret" among it
where that stands in its memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

UNPRIVILEGED = (sys.executable, str(Path(__file__).with_name("unprivileged.py")))
"""Words before those of a command, which then runs without privileges."""
_ATTACH, _DETACH = 16, 17
"""Of sys/ptrace.h."""
_LARGEST = 1 << 30
"""Bytes of one mapping at most; larger ones are reserved and empty."""


def spied(secret: bytes, processes: Sequence[int]) -> dict[int, list[str]]:
    """Run the spy; return what it got of each process."""
    # Here: the program itself runs where the tests' modules are not on the path.
    from support.patience import PATIENCE

    done = subprocess.run(
        [*UNPRIVILEGED, sys.executable, __file__, secret.hex(), *map(str, processes)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return {int(process): found for process, found in json.loads(done.stdout).items()}


def read_by(process: int, secret: bytes) -> Iterator[str]:
    """Yield each thing of a process that can be read."""
    place = Path(f"/proc/{process}")
    for name in ("maps", "environ", "auxv", "stack"):
        with contextlib.suppress(OSError):
            if (place / name).read_bytes():
                yield name
    with contextlib.suppress(OSError):
        (place / "fd" / "0").readlink()
        yield "open files"
    with contextlib.suppress(OSError):
        found = any(secret in part for part in _memory(place))
        yield "memory"
        if found:
            yield "the secret"
    libc = ctypes.CDLL(None)
    if libc.ptrace(_ATTACH, process, 0, 0) == 0:
        os.waitpid(process, 0x40000000)  # __WALL: it need not be a child
        libc.ptrace(_DETACH, process, 0, 0)
        yield "tracing"


def _memory(place: Path) -> Iterator[bytes]:
    with (place / "mem").open("rb", buffering=0) as memory:
        for line in (place / "maps").read_text().splitlines():
            start, end = (int(each, 16) for each in re.findall(r"[0-9a-f]+", line)[:2])
            if " r" in line and end - start <= _LARGEST:
                with contextlib.suppress(OSError, ValueError, OverflowError):
                    memory.seek(start)
                    yield memory.read(end - start)


def main(words: Sequence[str]) -> None:
    """Try all there is to try."""
    (held,) = re.findall(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    if int(held, 16):
        sys.exit("this process has privileges, so that what it may read says nothing; run the tests as another account")
    secret = bytes.fromhex(words[0])
    print(json.dumps({process: list(read_by(int(process), secret)) for process in words[1:]}))


if __name__ == "__main__":
    main(sys.argv[1:])
