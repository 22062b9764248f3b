"""`make fuzz`: the targets, guided by coverage. A process for each; what was found is kept, and what leads further too.

    python tests/fuzz/search.py                       every target, a minute each
    python tests/fuzz/search.py --seconds 600 draft   one of them, longer

`.fuzz/TARGET/corpus` keeps the inputs that reached new code, `.fuzz/TARGET/finding-*` those that broke a promise: fix
the code, cut the input down, and put it into tests/vectors/fuzz.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"

MEMORY_MEGABYTES = 1024
"""A process that takes more is a finding."""

HANG_SECONDS = 20
"""An input that takes longer is a finding."""

LONGEST_INPUT = 16_384
"""Bytes of an input, at most."""


def search(name: str, seconds: int) -> bool:
    """Search one target in a process of its own; return whether it held."""
    folder = KEPT / name.replace(" ", "-")
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    limits = (f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MEGABYTES}", f"-timeout={HANG_SECONDS}")
    shape = (f"-max_len={LONGEST_INPUT}", f"-artifact_prefix={folder}/finding-", "-print_final_stats=1", "-verbosity=0")
    command = [sys.executable, __file__, "--inside", name, "--", *limits, *shape, str(corpus)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    units = [line.split(":")[-1].strip() for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    held = done.returncode == 0
    said = "held" if held else f"FOUND, see {folder}"
    sys.stdout.write(f"{name:<20} {units[0] if units else '?':>9} inputs, {len(list(corpus.iterdir()))} kept: {said}\n")
    if not held:
        sys.stdout.write(done.stderr[-3000:])
    sys.stdout.flush()
    return held


def search_inside(name: str, words: list[str]) -> None:
    """Search one target in this process, which ends with it."""
    import atheris

    sys.path.insert(0, str(ROOT / "tests"))
    with atheris.instrument_imports(include=["hubbub"]):
        from fuzz.targets import TARGETS
    target = TARGETS[name]
    corpus = Path(words[-1])
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)

    def mutate(data: bytes, most: int, number: int) -> bytes:
        draw = Random(number)
        if draw.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return target.mutate(data, draw)[:most]

    atheris.Setup([sys.argv[0], *words], target.run, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> None:
    """Search the targets named, or all."""
    parser = argparse.ArgumentParser(description="Fuzz everything that parses bytes from outside.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target; default: %(default)s")
    parser.add_argument("--inside", metavar="TARGET", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", help="default: every target")
    arguments = parser.parse_args()
    if arguments.inside:
        search_inside(arguments.inside, arguments.targets)
        return
    sys.path.insert(0, str(ROOT / "tests"))
    from fuzz.targets import TARGETS

    unknown = set(arguments.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    held = [search(name, arguments.seconds) for name in arguments.targets or TARGETS]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
