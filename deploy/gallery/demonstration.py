"""Demonstration: what one demo shows, as a value. The demo runs any of them, and asks none which it is.

To add one: a module with a function that makes its dataset, and its line in `registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hubbub.deploy.data import Dataset
from hubbub.deploy.gallery.panels import by_category
from hubbub.deploy.pictures.comparison import Comparison, Panel


@dataclass(frozen=True)
class Demonstration:
    """A task to demonstrate.

    Attributes:
        name: how `--task` asks for it; its task and its files are named so.
        about: what its devices are and what is asked of them, in a sentence.
        dataset: makes the questions, and the answers of every device in every round.
        devices: how many devices take part where nothing else is said; about a minute's work on two cores.
        rounds: how many rounds they answer in.
        panels: what its picture shows, made of the demo's JSON document.
    """

    name: str
    about: str
    dataset: Callable[[], Dataset]
    devices: int = 20_000
    rounds: int = 1
    panels: Callable[[Mapping[str, Any]], tuple[Panel, ...]] = by_category

    def picture(self, document: Mapping[str, Any]) -> Comparison:
        """Return the picture of a demo that was run: truth, estimates and their intervals."""
        said = f"{document['devices']} devices, ε ≤ {document['epsilon']:g} at δ = {document['delta']:g} a round"
        return Comparison(f"hubbub demo: {document['task']}", f"{self.about}; {said}", self.panels(document))
