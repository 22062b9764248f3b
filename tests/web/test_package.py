"""The npm package: what it depends on, how its versions are locked, and what its sources never do."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import tomllib
from typing import Any

import pytest

from support.patience import PATIENCE
from support.source_tree import ROOT
from support.web_client import FOLDER, node

PACKAGE: dict[str, Any] = json.loads((FOLDER / "package.json").read_text())
LOCK: dict[str, Any] = json.loads((FOLDER / "package-lock.json").read_text())
SOURCES = {path: path.read_text() for path in sorted((FOLDER / "src").rglob("*.ts")) if "gen" not in path.parts}
VERIFIER = {path: path.read_text() for path in sorted((FOLDER / "verify").rglob("*.ts"))}
OTHERS = {path: path.read_text() for name in ("sample", "test") for path in (FOLDER / name).glob("*.ts")}
EVERY = {**SOURCES, **VERIFIER, **OTHERS}
MODULE_LINES, FOLDER_ENTRIES = 600, 12


def test_every_version_is_exact_and_every_file_has_a_hash() -> None:
    wanted = {**PACKAGE["dependencies"], **PACKAGE["devDependencies"]}
    assert {name: version for name, version in wanted.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)} == {}
    packages = {name: each for name, each in LOCK["packages"].items() if name}
    assert {name for name, each in packages.items() if not each.get("integrity", "").startswith("sha512-")} == set()


def test_no_registry_is_named() -> None:
    assert [name for name, each in LOCK["packages"].items() if "resolved" in each] == []
    assert "://" not in (FOLDER / ".npmrc").read_text()


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    texts = [*SOURCES.values(), *VERIFIER.values()]
    imported = {name for text in texts for name in re.findall(r'from "([^."][^"]*)"', text)}
    packages = {"/".join(name.split("/")[: 2 if name.startswith("@") else 1]) for name in imported}
    assert {name for name in packages if not name.startswith("node:")} == set(PACKAGE["dependencies"])


def test_only_what_is_for_node_imports_of_node() -> None:
    parts = {**SOURCES, **VERIFIER}
    own = {path.relative_to(FOLDER).as_posix() for path, text in parts.items() if 'from "node:' in text}
    assert own == {"src/node.ts", "src/state/files.ts"}


@pytest.mark.parametrize("never", ["Math.random", "eval(", "innerHTML", "document.write", "localStorage", "as any"])
def test_no_source_does_what_it_never_may(never: str) -> None:
    assert [str(path) for path, text in EVERY.items() if never in text] == []


def test_modules_fit_a_head_and_folders_can_be_taken_in_at_a_glance() -> None:
    assert [str(path) for path, text in EVERY.items() if len(text.splitlines()) >= MODULE_LINES] == []
    assert [f"{path}:{line}" for path, text in EVERY.items() for line in text.splitlines() if len(line) > 120] == []
    folders = {path.parent for path in EVERY}
    assert [folder for folder in folders if len(list(folder.glob("*.ts"))) > FOLDER_ENTRIES] == []


def test_it_has_the_version_of_the_project_and_the_oldest_node_of_the_tests() -> None:
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "src" / "hubbub" / "__init__.py").read_text())
    assert version is not None
    assert PACKAGE["version"] == version[1]
    assert PACKAGE["engines"] == {"node": ">=20"}
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["web"]


def test_sources_sample_and_tests_have_no_error_of_types(built: None) -> None:
    program = FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
    command = [str(node()), str(program), "-p", "tsconfig.test.json"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout


def test_its_bundle_is_as_small_as_the_page_says(built: None) -> None:
    size = len(gzip.compress((FOLDER / "dist" / "bundle" / "browser.js").read_bytes(), 9))
    page = (ROOT / "docs" / "howto" / "embed-in-a-web-page.md").read_text()
    (said,) = re.findall(r"(\d+) kB \(gzip\)", page)
    assert size / 1000 == pytest.approx(int(said), abs=3)
    assert (FOLDER / "dist" / "sample" / "index.html").is_file()


def test_the_verifier_draws_nothing_stores_nothing_and_calls_nobody() -> None:
    never = r"getRandomValues|systemRandom|indexedDB|fetch\(|XMLHttp|WebSocket|sendBeacon|src/(state|calls|device)"
    assert [str(path) for path, text in VERIFIER.items() if re.search(never, text)] == []


def test_the_verifiers_page_is_as_small_as_its_page_says(built: None) -> None:
    size = len(gzip.compress((FOLDER / "dist" / "verify" / "index.html").read_bytes(), 9))
    page = (ROOT / "docs" / "howto" / "verify-as-an-outsider.md").read_text()
    (said,) = re.findall(r"one file of (\d+) kB \(gzip\)", page)
    assert size / 1000 == pytest.approx(int(said), abs=3)
    types = FOLDER / PACKAGE["exports"]["./verify"]["types"]
    assert types.is_file()
