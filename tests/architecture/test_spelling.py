"""Words are spelled in one way, the American one, in code, pages and messages: a search for a word finds all of it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_tree import ROOT

OTHER = re.compile(
    r"neighbour|\bcent(?:re|red)s?\b|colour|behaviour|catalogue|licence|favour|honour|artefact|"
    r"(?:initial|recogn|normal|optim(?!is[mt])|serial|author|organ|summar|minim|maxim|random|anonym)is(?:e|ing|ation|able)|"
    r"labelled|modelled|aeroplane|\bgrey\b|analyse",
    re.IGNORECASE,
)
"""How words are spelled elsewhere. `cancelled` is not among them: Python and gRPC spell it so."""

WRITTEN = {".py", ".md", ".toml", ".html", ".css", ".proto", ".ts", ".yaml"}
"""Ends of the names of what people write."""

NOT_OURS = {"node_modules", "dist", "site", "build", "gen", "vectors", "hubbub"}
"""Folders that others wrote, or programs, or whose bytes are held; and links to folders that are looked at anyway."""

STILL = {"accountant/divergence/noise_atoms.py", "clients/typescript/verify/results/normal.ts"}
"""Files that still have such a word. The list only gets shorter."""


def written() -> Iterator[Path]:
    """Every text of the repository that people write."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.startswith(".")]
        yield from (
            Path(folder, name) for name in files if Path(name).suffix in WRITTEN and name != Path(__file__).name
        )


def test_words_are_spelled_in_one_way() -> None:
    found = {
        str(path.relative_to(ROOT)): sorted(set(words))
        for path in written()
        if (words := OTHER.findall(f"{path.name}\n{path.read_text()}"))
    }
    assert {name: words for name, words in found.items() if name not in STILL} == {}


@pytest.mark.parametrize("word", ["Neighbours", "centre", "_with_colours", "test_catalogue", "randomise", "labelled"])
def test_the_check_itself_sees_a_word(word: str) -> None:
    assert OTHER.search(word)
    assert not OTHER.search("neighbors center color catalog randomize labeled optimism optimistic precise concise")
