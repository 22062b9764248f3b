"""`make costs`: which tests are slow, written to `tests/costs.txt`.

    python tests/loop/costs.py MEASURED

`MEASURED` is what `pytest --cost MEASURED` wrote. Lines of tests that were not measured stay as they are, and lines of
tests that are no longer there go. So one folder, or one new test, can be measured alone.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from support.cost import COSTS, recorded  # noqa: E402

SLOW = 0.1
"""CPU seconds from which a test is slow, or what its cases take in the mean."""

SLOW_CASE = 1.0
"""CPU seconds from which one case is slow, if its test is not."""


def measured(lines: Iterable[str]) -> dict[str, float]:
    """CPU seconds by the names of tests; of what was measured more than once, the least."""
    found: dict[str, float] = {}
    for line in lines:
        what, _, seconds = line.rpartition("\t")
        if what.startswith("test "):
            name = what.removeprefix("test ")
            found[name] = min(float(seconds), found.get(name, float("inf")))
    return found


def slow(costs: Mapping[str, float]) -> dict[str, float]:
    """Tests that are slow, with what their cases take in the mean; and cases that are slow by themselves."""
    cases: dict[str, list[float]] = defaultdict(list)
    for name, seconds in costs.items():
        cases[name.partition("[")[0]].append(seconds)
    means = {test: sum(each) / len(each) for test, each in cases.items()}
    found = {test: mean for test, mean in means.items() if mean >= SLOW}
    alone = {name: seconds for name, seconds in costs.items() if seconds >= SLOW_CASE}
    return found | {name: seconds for name, seconds in alone.items() if name.partition("[")[0] not in found}


def is_there(name: str) -> bool:
    """Whether the file of a test has a function of its name."""
    file, *_, function = name.partition("[")[0].split("::")
    return (ROOT / file).is_file() and f"def {function}(" in (ROOT / file).read_text()


def main(arguments: list[str]) -> None:
    """Bring the file up to date with what was measured."""
    costs = measured(Path(arguments[0]).read_text().splitlines())
    tests = {name.partition("[")[0] for name in costs}
    kept = {name: cost for name, cost in recorded().items() if name.partition("[")[0] not in tests}
    found = {name: cost for name, cost in (kept | slow(costs)).items() if is_there(name)}
    COSTS.write_text("".join(f"{found[name]:.2g} {name}\n" for name in sorted(found)))
    sys.stdout.write(f"{len(found)} tests and cases are slow: {COSTS.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
