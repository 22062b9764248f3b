"""The sdist and the wheel, built from what git tracks, for the tests that look into it and that install it."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.source_tree import FOLDERS, ROOT

BUILD = ("pyproject.toml", "setup.py", "README.md")
"""What a build reads beside the folders and src."""


def tracked(*paths: str) -> set[str]:
    """The files git tracks, or would if they were added now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in listed if name and (ROOT / name).is_file()}


@pytest.fixture(scope="package")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git tracks: setuptools keeps `build/` in a source folder from one run to the next."""
    source = tmp_path_factory.mktemp("source")
    for name in tracked(*FOLDERS, "src", *BUILD):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    return source


@pytest.fixture(scope="package")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a release is made in: the sdist, and the wheel that is built from what the sdist holds."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="package")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="package")
def sdist(built: Path) -> tarfile.TarFile:
    (path,) = built.glob("*.tar.gz")
    return tarfile.open(path)
