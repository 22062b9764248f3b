"""Tables and lists of every command are folded in one way: they fit the terminal, and no word or number is broken."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from hubbub.cli.terminal import output
from hubbub.deploy.init.folders import initialize
from support.certificates import content_of, counts, encode
from support.cli import hubbub_here
from support.source_tree import MODULES, ROOT
from vectors.make_kinds import DEVICES, task_of
from vectors.make_signed import PARTIES

KRR = ("--mechanism", "krr", "--categories", "16", "--local-epsilon", "2", "--reports", "1000")
AT = ("--epsilon", "1", "--delta", "1e-6", "--reports", "10000")

COMMANDS = {
    "epsilon": ("account", "epsilon", *KRR, "--delta", "1e-6", "--rounds", "3"),
    "bounds": ("account", "bounds", *KRR, "--delta", "1e-6"),
    "calibrate": ("account", "calibrate", "--query", "histogram", "--categories", "16", *AT, "--compare"),
    "auto": ("account", "calibrate", "--query", "text", "--categories", "1000000", *AT),
    "longitudinal": ("account", "longitudinal", "--periods", "4", "--changes", "1", *AT),
    "plan": ("plan", "deployment/operator/task.toml", "--explain"),
    "capacity": ("plan", "deployment/operator/task.toml", "--capacity", "1e6", "--no-compare"),
    "sign": ("sign", "task.json", "--key", "deployment/operator/identity.pem"),
    "keys": ("keys", "list", "deployment/shuffler/shuffler.toml"),
    "simulate": ("simulate", "--data", "data.csv", "--column", "city"),
    "verify": ("verify", "certificate.json"),
    "history": ("verify", "certificates"),
    "report": ("report", str(ROOT / "docs" / "examples" / "commute")),
}

DRAWN = {"simulate"}
"""Commands whose numbers are drawn in each run."""

BOX = re.compile("[│┃━─┏┡└┓┩┘╇┳┴┛┗┻╋┼]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, task = tmp_path_factory.mktemp("made"), task_of("top")
    initialize(made / "deployment")
    certificate = encode(content_of(task, PARTIES, [counts(task, 0, DEVICES)]), PARTIES)
    (made / "certificates").mkdir()
    for path in (made / "certificate.json", made / "certificates" / "certificate.json"):
        path.write_bytes(certificate)
    cities = ["Amsterdam, its Centrum and its surroundings", "Llanfairpwllgwyngyllgogerychwyrndrobwll", "Rome"]
    (made / "data.csv").write_text("city\n" + "".join(f'"{cities[row % 3]}"\n' for row in range(300)))
    planned = hubbub_here("plan", "deployment/operator/task.toml", "--out", "task.json", folder=made)
    assert planned.status == 0, planned.err
    return made


def printed(name: str, folder: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    ran = hubbub_here(*COMMANDS[name], folder=folder)
    assert ran.status == 0, ran.err
    return ran.out


def words_of(text: str) -> set[str]:
    """All words but those that differ from run to run."""
    return {word for word in BOX.sub(" ", text).split() if not re.fullmatch(r"[▏▎▍▌▋▊▉█]+", word)}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_it_fits_and_no_word_is_broken(name: str, width: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = remember_sentences(monkeypatch)
    text = printed(name, folder, width, monkeypatch)
    for line in text.splitlines():
        whole = line in sentences or len(line.split()) == 1
        assert whole or cell_len(line) <= width, line
    if name not in DRAWN:
        wide = words_of(printed(name, folder, 1000, monkeypatch))
        shown = words_of(text)
        # The seconds that it took differ.
        assert {word for word in shown - wide if not re.fullmatch(r"[0-9.e-]+", word)} == set()


def remember_sentences(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the lines of what commands print as sentences, which a terminal wraps itself."""
    found: set[str] = set()

    class Remembers(output.Printer):
        def print(self, *objects: object, **options: object) -> None:
            if len(objects) == 1 and isinstance(objects[0], str) and options.get("soft_wrap") and not _in_list():
                found.update(objects[0].splitlines())
            super().print(*objects, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(output, "Printer", Remembers)
    return found


def _in_list() -> bool:
    """Whether `cli.tables.printing` prints: its lines are folded already."""
    import sys

    frame = sys._getframe(2)
    return frame.f_globals["__name__"] == "hubbub.cli.tables.printing"


def test_columns_are_aligned_in_one_place() -> None:
    """A width in an f-string is a column that is aligned by hand, and is folded by nobody."""
    found = []
    for path in MODULES:
        # The overview loads nothing, and wraps its two columns itself.
        if path.relative_to(ROOT).parts[0] != "cli" or path.name == "overview.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            padded = isinstance(node, ast.FormattedValue) and node.format_spec is not None
            padded = padded and re.match(r"f?'.*[<>^]", ast.unparse(node.format_spec)) is not None
            padded |= isinstance(node, ast.Attribute) and node.attr in ("ljust", "rjust", "center")
            if padded:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
