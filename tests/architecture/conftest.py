"""The wheel, built from what git tracks, for the tests that look into it and that install it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.tree import FOLDERS, ROOT


def tracked(*paths: str) -> set[str]:
    """The files git tracks, or would if they were added now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in listed if name and (ROOT / name).is_file()}


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)
