"""Sdist and wheel hold what git tracks, no more and no less, and say what they are."""

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest
from packaging.metadata import Metadata

import hubbub
from support.source_tree import FOLDERS, ROOT

BUILD = {"pyproject.toml", "setup.py", "README.md"}
"""What the sdist holds beside the package, to build it."""


def in_folders(source: Path) -> dict[str, Path]:
    """The files of the package, by the names they have in the wheel."""
    files = (path for folder in FOLDERS for path in (source / folder).rglob("*") if path.is_file())
    own = {f"hubbub/{path.name}": path for path in (source / "src" / "hubbub").iterdir()}
    return {f"hubbub/{path.relative_to(source)}": path for path in files} | own


def metadata_file(wheel: zipfile.ZipFile, name: str) -> bytes:
    (path,) = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return wheel.read(path)


@pytest.fixture
def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(metadata_file(wheel, "METADATA"))


def test_wheel_holds_exactly_what_git_tracks(source: Path, wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = set(in_folders(source))
    assert {"hubbub/__init__.py", "hubbub/py.typed", "hubbub/client/__init__.py"} <= expected
    assert held - expected == set(), "in the wheel, not in git"
    assert expected - held == set(), "in git, not in the wheel"


def test_wheel_puts_nothing_beside_its_own_package(wheel: zipfile.ZipFile) -> None:
    tops = {PurePosixPath(name).parts[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"hubbub"}


def test_wheel_holds_the_same_bytes(source: Path, wheel: zipfile.ZipFile) -> None:
    assert [name for name, path in in_folders(source).items() if wheel.read(name) != path.read_bytes()] == []


def test_sdist_holds_the_package_and_what_builds_it(source: Path, sdist: tarfile.TarFile) -> None:
    (top,) = {PurePosixPath(name).parts[0] for name in sdist.getnames()}
    held = {str(PurePosixPath(each.name).relative_to(top)) for each in sdist.getmembers() if each.isfile()}
    expected = {str(path.relative_to(source)) for path in in_folders(source).values()} | BUILD
    assert top == f"hubbub-{hubbub.__version__}"
    assert {name for name in held - expected if ".egg-info/" not in name} == {"PKG-INFO", "setup.cfg"}
    assert expected - held == set(), "in git, not in the sdist"


def test_wheel_of_the_sdist_is_that_of_the_source(source: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """`python -m build` makes the wheel from the sdist; `pip install .` makes it from the source."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(source)], check=True, capture_output=True)
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as direct:
        assert {name: direct.read(name) for name in direct.namelist()} == {
            name: wheel.read(name) for name in wheel.namelist()
        }


def test_wheel_names_its_command_and_its_extras(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert b"hubbub = hubbub.cli.main:main" in metadata_file(wheel, "entry_points.txt")
    assert metadata["Name"] == "hubbub"
    assert set(metadata.get_all("Provides-Extra", [])) >= {"accountant", "services", "demo", "dev"}


def test_metadata_is_what_an_index_accepts(wheel: zipfile.ZipFile) -> None:
    Metadata.from_email(metadata_file(wheel, "METADATA"), validate=True)


def test_version_is_written_once(metadata: Message) -> None:
    assert metadata["Version"] == hubbub.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", hubbub.__version__)


def test_metadata_says_who_what_and_for_which_python(metadata: Message) -> None:
    assert metadata["Author"] == "The hubbub authors"
    classifiers = metadata.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    assert f"Programming Language :: Python :: {metadata['Requires-Python'].removeprefix('>=')}" in classifiers
    assert metadata["Keywords"]


def test_no_license_and_no_address_is_invented(metadata: Message) -> None:
    """Its owner chooses a license, and where it is published, before it is; README says so."""
    claims = ("License", "License-Expression", "License-File", "Home-page", "Project-URL")
    assert [name for name in claims if name in metadata] == []
    assert [each for each in metadata.get_all("Classifier", []) if each.startswith("License")] == []
    assert "no license yet" in " ".join((ROOT / "README.md").read_text().split())
