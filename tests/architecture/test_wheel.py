"""The wheel holds what git tracks in the folders: nothing is forgotten, nothing strays in."""

import zipfile
from email import message_from_bytes
from pathlib import Path, PurePosixPath

from support.tree import FOLDERS


def in_folders(source: Path) -> dict[str, Path]:
    """The files of the folders, by the names they have in the wheel."""
    files = (path for folder in FOLDERS for path in (source / folder).rglob("*") if path.is_file())
    return {f"hubbub/{path.relative_to(source)}": path for path in files}


def test_wheel_holds_exactly_what_git_tracks(source: Path, wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = set(in_folders(source))
    assert expected
    assert held - expected == set(), "in the wheel, not in git"
    assert expected - held == set(), "in git, not in the wheel"


def test_wheel_puts_nothing_beside_its_own_package(wheel: zipfile.ZipFile) -> None:
    tops = {PurePosixPath(name).parts[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"hubbub"}
    assert "hubbub/__init__.py" not in wheel.namelist()


def test_wheel_holds_the_same_bytes(source: Path, wheel: zipfile.ZipFile) -> None:
    assert [name for name, path in in_folders(source).items() if wheel.read(name) != path.read_bytes()] == []


def test_wheel_names_its_command_and_its_extras(wheel: zipfile.ZipFile) -> None:
    def read(name: str) -> bytes:
        (path,) = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
        return wheel.read(path)

    assert b"hubbub = hubbub.cli.main:main" in read("entry_points.txt")
    metadata = message_from_bytes(read("METADATA"))
    assert metadata["Name"] == "hubbub"
    assert set(metadata.get_all("Provides-Extra", [])) >= {"accountant", "services", "demo", "dev"}
