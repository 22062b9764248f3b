"""The limits that the README states are those that the code holds."""

import math
import re

from hubbub.accountant.mechanisms.exact import EPSILON_LOCAL_LIMIT
from hubbub.accountant.numbers import DELTA_LEAST, REPORTS_LIMIT
from hubbub.accountant.pairs.composition_part import ROUNDS_LIMIT
from hubbub.protos.task.draft import MAXIMUM_EPSILON_LOCAL, MAXIMUM_QUERIES, MAXIMUM_ROUNDS, MINIMUM_DELTA
from hubbub.protos.task.task import MAXIMUM_DUMMIES, MAXIMUM_REPORTS
from support.source_tree import ROOT

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def written(value: float) -> str:
    """A power of ten as the README writes it."""
    exponent = round(math.log10(value))
    assert math.isclose(10.0**exponent, value)
    return f"10{str(exponent).translate(RAISED)}"


def limits() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("## Limits")[1].split("##")[0]
    return re.sub(r"\s+", " ", text)


def test_a_tasks_limits_are_stated() -> None:
    assert (
        f"A task: at most {MAXIMUM_QUERIES} queries, {written(MAXIMUM_ROUNDS)} rounds, 10⁶ symbols and "
        f"{written(MAXIMUM_DUMMIES)} dummies a query; n up to {written(MAXIMUM_REPORTS)}, "
        f"δ from {written(MINIMUM_DELTA)}, ε_local up to {MAXIMUM_EPSILON_LOCAL}."
    ) in limits()


def test_the_accountants_limits_are_stated() -> None:
    assert (
        f"The accountant by itself: n and dummies up to {written(REPORTS_LIMIT)}, δ from {written(DELTA_LEAST)}, "
        f"ε_local up to {EPSILON_LOCAL_LIMIT:g}, {written(ROUNDS_LIMIT)} rounds of each part."
    ) in limits()
