"""Defines a scenario as a value; the demo treats all scenarios the same.

To add one, write a module with a function that makes its dataset, and add a line to `registry`. A plot that is not by
category also needs a line in `cli/plots/demo_panels.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hubbub.planning.simulate.dataset import Dataset


@dataclass(frozen=True)
class Scenario:
    """A task to demonstrate.

    Attributes:
        name: how `--task` asks for it; its task and its files are named so.
        about: what its devices are and what is asked of them, in a sentence.
        dataset: makes the questions, and the answers of every device in every round.
        devices: how many devices take part by default; about a minute's work on two cores.
        rounds: how many rounds they answer in.
    """

    name: str
    about: str
    dataset: Callable[[], Dataset]
    devices: int = 20_000
    rounds: int = 1
