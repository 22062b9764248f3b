"""Writes the dictionary's files: an index, and a page, the signed task and a registry entry for each task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hubbub.deploy.files import check_own, save
from hubbub.pages.dictionary.entry import Entry
from hubbub.pages.environment import environment

INDEX = "index.html"

TITLE = "<title>What devices are asked</title>"
"""By this an index of an earlier run is known."""


def written(entries: Sequence[Entry], folder: Path) -> list[Path]:
    """Write the files of a dictionary into a folder, made if it is not there; return them, the index first.

    Files of an earlier run are written over; others in the folder stay as they are.

    Raises:
        UsageError: if the folder has the index of something else.
    """
    check_own(folder / INDEX, "index of tasks", lambda content: TITLE.encode() in content)
    pages = environment("hubbub.pages.dictionary")
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(entries, key=lambda entry: (entry.task.schedule.start, entry.file_name))
    files = {folder / INDEX: pages.get_template("index.html").render(entries=ordered).encode()}
    for entry in ordered:
        files[folder / f"{entry.file_name}.html"] = pages.get_template("task.html").render(entry=entry).encode()
        files[folder / f"{entry.file_name}.task.json"] = entry.signed.encode()
        registered = json.dumps(entry.registered(), indent=2, ensure_ascii=False)
        files[folder / f"{entry.file_name}.registry.json"] = f"{registered}\n".encode()
    for path, content in files.items():
        save(path, content)
    return list(files)
