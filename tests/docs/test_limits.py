"""The limits that the reference states are those that the code holds."""

import math
import re

from hubbub.accountant.mechanisms.exact import EPSILON_LOCAL_LIMIT
from hubbub.accountant.numbers import DELTA_LEAST, REPORTS_LIMIT
from hubbub.accountant.pairs.composition_part import ROUNDS_LIMIT
from hubbub.protos.task.draft import MAXIMUM_EPSILON_LOCAL, MAXIMUM_QUERIES, MAXIMUM_ROUNDS, MINIMUM_DELTA
from hubbub.protos.task.task import MAXIMUM_DUMMIES, MAXIMUM_HOPS, MAXIMUM_REPORTS
from hubbub.queries.fields import MAXIMUM_SYMBOLS
from hubbub.queries.randomizers.unary import MAXIMUM_BITS
from support.source_tree import ROOT

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def written(value: float) -> str:
    """A power of ten as the page writes it."""
    exponent = round(math.log10(value))
    assert math.isclose(10.0**exponent, value)
    return f"10{str(exponent).translate(RAISED)}"


def rows() -> dict[str, str]:
    text = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|$", text))


def test_a_tasks_limits_are_stated() -> None:
    most = {
        "queries of a task": str(MAXIMUM_QUERIES),
        "rounds of a task": written(MAXIMUM_ROUNDS),
        "symbols of a query": f"{written(MAXIMUM_SYMBOLS)}; with unary encoding {MAXIMUM_BITS:,}",
        "dummies of a query": written(MAXIMUM_DUMMIES),
        "people in a batch, in a task": written(MAXIMUM_REPORTS),
        "ε_local of a round, over all queries of a task": str(MAXIMUM_EPSILON_LOCAL),
        "ε_local of one query": f"{EPSILON_LOCAL_LIMIT:g}",
        "hops behind the first shuffler": str(MAXIMUM_HOPS),
    }
    stated = {name: f"at most {limit}" for name, limit in most.items()}
    assert {**stated, "δ in a task": f"at least {written(MINIMUM_DELTA)}"}.items() <= rows().items()


def test_the_accountants_limits_are_stated() -> None:
    text = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
    assert (
        f"up to {written(REPORTS_LIMIT)} reports and dummies, δ from {written(DELTA_LEAST)}, "
        f"ε_local up to {EPSILON_LOCAL_LIMIT:g}, and {written(ROUNDS_LIMIT)} rounds of each part."
    ) in re.sub(r"\s+", " ", text)
