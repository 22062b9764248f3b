"""The wheel holds what git tracks in the folders: nothing is forgotten, nothing strays in."""

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path, PurePosixPath

import pytest

from support.tree import FOLDERS, ROOT


def tracked(*paths: str) -> set[str]:
    """The files git tracks, or would if they were added now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in listed if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git tracks: setuptools keeps `build/` in a source folder from one run to the next."""
    source = tmp_path_factory.mktemp("source")
    for name in tracked(*FOLDERS, "pyproject.toml", "README.md"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    (source / "src" / "hubbub").mkdir(parents=True)
    for name in FOLDERS:
        (source / "src" / "hubbub" / name).symlink_to(f"../../{name}", target_is_directory=True)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


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

    assert b"hubbub = hubbub.deploy.cli:main" in read("entry_points.txt")
    metadata = message_from_bytes(read("METADATA"))
    assert metadata["Name"] == "hubbub"
    assert set(metadata.get_all("Provides-Extra", [])) >= {"demo", "dev"}
