"""Small sizes for every row: `run.py --smoke` runs all of them in a minute, and its figures mean nothing."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hubbub.accountant.mechanisms import Generic
from hubbub.accountant.pairs import Part

FEW_ROUNDS = (("generic", Part(Generic(0.5), 500, 3), 1.0),)
SMALL: dict[str, dict[str, Any]] = {
    "accountant": {"MEMORY_SCALES": (500,), "MEMORY_ROUNDS": 3, "MANY_ROUNDS": FEW_ROUNDS},
    "commanding": {"RUNS": 1},
    "noise": {
        "PROCESSES": 1,
        "ROUNDS": 3,
        "COUNTS": (("k16_1e4_cap8", 4, 10**4, 8.0, 9.0, 9.0),),
        "SUMS": (),
        "DIGITS": 2,
    },
    "starting": {"RUNS": 1, "HELD": 3000, "LARGE": 5000},
    "sealing": {"LAYERS": 2, "RUNS": 3},
    "preparing": {"DEVICES": 2, "RUNS": 2},
    "submitting_https": {
        "RUNS": 1,
        "CALLS": 4,
        "AT_A_TIME": 2,
        "BY_GRPC_AT_A_TIME": 2,
        "BATCHES": 2,
        "DEVICES": 3,
        "BATCHES_AT_A_TIME": 2,
    },
    "submitting": {"RUNS": 1, "CALLS": 4, "AT_A_TIME": 2, "BATCHES": 2, "DEVICES": 3, "BATCHES_AT_A_TIME": 2},
    "oblivious": {"RUNS": 1, "CALLS": 4},
    "polling": {"RUNS": 1, "BATCHES": 2, "DEVICES": 3, "AT_A_TIME": 1},
    "replicating": {"RUNS": 1, "BATCHES": 2, "DEVICES": 3, "AT_A_TIME": 1},
    "overloading": {"RISING": (200.0, 500.0), "SECONDS": 0.5, "PER_CALL": 5},
    "mixing": {"RUNS": 1, "REPORTS": 1500, "LARGE": 3000},
    "waiting": {"REPORTS": 2000, "LARGE": 3000},
    "databases": {"RUNS": 1, "CALLS": 4, "CALL": 5, "AT_ONCE": 2, "ENVELOPES": 100, "CHUNK": 50},
    "counting": {"RUNS": 1, "REPORTS": 1000, "ESTIMATES": 1, "LARGE": 2000},
    "hopping": {"RUNS": 1, "REPORTS": 1000},
    "decoding": {"RUNS": 1, "CANDIDATES": 1000, "REPORTS": 1000},
    "repeating": {},
    "log_proofs": {"RUNS": 1, "ENTRIES": 1000, "PROOFS": 5},
    "engines": {"RUNS": 1, "REPORTS": 1000, "MIXED": 2000, "LARGE": 3000},
    "whole": {"RUNS": 1, "SAMPLE": 20, "DEVICES": "1000"},
}
"""What a module's constants are set to, by the module's name."""


def shrink(module: ModuleType) -> None:
    """Set a module's constants to its small sizes.

    Raises:
        TypeError: a constant is of another type than the one that stands there.
    """
    for constant, value in SMALL[module.__name__].items():
        if type(getattr(module, constant)) is not type(value):
            raise TypeError(f"{module.__name__}.{constant} must be a {type(getattr(module, constant)).__name__}")
        setattr(module, constant, value)
