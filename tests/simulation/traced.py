"""The simulated pipeline in a folder, whose promises are written down beside what it writes to its files.

Each line of the file `marks` is said at the moment when a party relies on it. Its argument is the folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from simulation import operations as ops
from simulation import world

STORY = (
    *(ops.Submit(number, carrier, 42.25) for number, carrier in enumerate(("AA", "B6", "UA"))),
    ops.SubmitMany((0, 1, 2), 2),
    ops.Misbehave("copied", 1),
    ops.Misbehave("garbled", 1),
    ops.Wait(3.0),
    ops.Submit(3, "AA", 0.0),
    ops.Restart("shuffler"),
    ops.Submit(4, "AA", 0.0),
    ops.Close(),
    ops.Wait(30.0),
    ops.Restart("analyzer"),
    ops.Wait(600.0),
    ops.Submit(0, "AA", None),
    ops.Submit(1, "AA", 0.0),
    ops.Cut("devices"),
    ops.Submit(2, "UA", 1.0),
    ops.Wait(50.0),
    ops.Restart("device 2"),
    ops.Heal("devices"),
    ops.Resend(2),
    ops.Wait(700.0),
)


def main(folder: Path) -> None:
    """Run the story, and leave the task beside the marks."""
    marks = os.open(folder / "marks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def witness(name: str, facts: dict[str, Any]) -> None:
        os.write(marks, json.dumps({"name": name, **facts}).encode() + b"\n")

    simulation = world.simulate(folder, STORY, witness=witness)
    (folder / "task.json").write_bytes(simulation.signed.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
