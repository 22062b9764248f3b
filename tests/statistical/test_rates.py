"""All false alarms of one run together are rare, and every test that states a rate is among them."""

import math
import re
from pathlib import Path

from statistical.false_alarms import MOST, RATES, SEEDED

TESTS = Path(__file__).parents[1]

STATED = re.compile(
    r"[Ff]alse.alarms?(?: rate| below)|FALSE_ALARM = |standard errors with probability|accused (?:once|with)|"
    r"missed less than once|\(1e-6 a check\)"
)
"""How comments and docstrings of tests state a rate."""


def test_a_run_fails_by_chance_once_in_a_thousand_at_most() -> None:
    assert 0 < math.fsum(RATES.values()) <= MOST
    assert all(0 < rate < MOST / 10 for rate in RATES.values())


def test_every_test_that_states_a_rate_is_counted() -> None:
    files = {path.relative_to(TESTS).as_posix(): path.read_text() for path in TESTS.rglob("test_*.py")}
    stating = {name for name, text in files.items() if name != "statistical/test_rates.py" and STATED.search(text)}
    assert stating - RATES.keys() - SEEDED == set()
    assert (RATES.keys() | SEEDED) - files.keys() == set(), "a file is gone"
