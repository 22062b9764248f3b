"""A layer sealed and opened in each other suite, beside the same in the default one."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cores import INFO
from row import Outcome, Row

from hubbub.protos.sealing.suites import DEFAULT, SUITES, Suite

LAYERS = 50
"""Layers sealed or opened in one run: few, so that a machine that slows down slows both suites alike."""

RUNS = 101
"""Runs of both suites, by turns."""

PLAIN = bytes(4)
"""As long as a report of kRR."""


def suites() -> Iterator[Outcome]:
    """One layer after the other, on one core; the keys are made beforehand."""
    for suite in SUITES.values():
        if suite is not DEFAULT:
            yield from _beside(suite)


def _beside(suite: Suite) -> Iterator[Row]:
    pairs = [(_seconds(suite), _seconds(DEFAULT)) for _ in range(RUNS)]
    for place, what in enumerate(("seal", "open")):
        values, limits = ([1e6 * each[which][place] for each in pairs] for which in (0, 1))
        yield Row.of(f"{what}_{suite.name.lower()}", "µs", values, limits)


def _seconds(suite: Suite) -> tuple[float, float]:
    """Seconds of the processor to seal and to open one layer."""
    private, public = suite.generate_key()
    opening, sealing = suite.private_key(private), suite.public_key(public)
    started = time.process_time()
    sealed = [suite.encrypt(PLAIN, sealing, INFO) for _ in range(LAYERS)]
    between = time.process_time()
    for envelope in sealed:
        suite.decrypt(envelope, opening, INFO)
    return (between - started) / LAYERS, (time.process_time() - between) / LAYERS


ROWS = (suites,)
