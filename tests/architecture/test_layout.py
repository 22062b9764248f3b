"""The folders at the top are one package, whatever a checkout can hold and whatever else is on the path."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hubbub.client
from support.patience import PATIENCE
from support.source_tree import FOLDERS, ROOT

LINKS = ROOT / "src" / "links.py"

LOOK = """
import hubbub, hubbub.client, hubbub.deploy.samples
from importlib.resources import files
print(hubbub.client.__file__)
print(files("hubbub.deploy.samples").joinpath("task.toml").is_file())
try:
    import hubbub.stray
except ModuleNotFoundError:
    print("no stray")
"""


def python(*words: str | Path, at: Path, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": ":".join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=at, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.fixture
def checkout(source: Path, tmp_path: Path) -> Path:
    """A checkout as git makes it, where it may hold no links too: see the first test."""
    return Path(shutil.copytree(source, tmp_path / "hubbub"))


def test_git_holds_no_links() -> None:
    """Without them a checkout is the same on every system: `core.symlinks=false` has nothing to leave out."""
    listed = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=True)
    modes = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert "100644" in modes
    assert "120000" not in modes, modes.get("120000")


def test_a_module_has_the_path_of_the_file_that_people_edit() -> None:
    assert Path(hubbub.client.__file__) == ROOT / "client" / "__init__.py"


@pytest.mark.parametrize("linked", [False, True], ids=["without links", "with links"])
def test_a_checkout_is_one_package_and_no_stray_is_merged_in(checkout: Path, tmp_path: Path, linked: bool) -> None:
    if linked:
        assert python(checkout / "src" / "links.py", at=tmp_path).returncode == 0
    stray = tmp_path / "stray"
    (stray / "hubbub" / "stray").mkdir(parents=True)
    (stray / "hubbub" / "stray" / "__init__.py").touch()
    # The folder that the checkout is in is on the path as well, and the checkout's own name is the package's.
    done = python("-c", LOOK, at=tmp_path, path=(stray, tmp_path, checkout / "src"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(checkout / "client" / "__init__.py"), "True", "no stray"]


def test_links_are_made_for_type_checkers_and_kept_true(checkout: Path) -> None:
    package = checkout / "src" / "hubbub"
    (package / "client").write_text("../../client")  # what git leaves of a link where a system has none
    (package / "gone").symlink_to("../../gone", target_is_directory=True)
    for _ in range(2):
        assert python(checkout / "src" / "links.py", at=checkout).returncode == 0
        links = {path.name: path.resolve() for path in package.iterdir() if path.is_symlink()}
        assert links == {name: checkout / name for name in FOLDERS}


def test_where_no_link_can_be_made_it_says_what_does_not_work(checkout: Path) -> None:
    refuse = "import os, runpy, sys\ndef refuse(*_, **__): raise OSError('links are not supported')\n"
    refuse += f"os.symlink = refuse\nrunpy.run_path({str(checkout / 'src' / 'links.py')!r}, run_name='__main__')"
    done = python("-c", refuse, at=checkout)
    assert done.returncode == 1
    assert "src/hubbub can hold no links to folders (links are not supported)" in done.stderr
    assert "type checkers" in done.stderr


def test_the_type_checker_follows_the_links_of_this_checkout() -> None:
    assert python(LINKS, at=ROOT).returncode == 0
    found = {path.name for path in (ROOT / "src" / "hubbub").iterdir() if (path / "__init__.py").is_file()}
    assert found == set(FOLDERS)


def test_no_module_beside_a_script_has_the_name_of_pythons_own() -> None:
    """The folder of a script comes first on Python's path: `http.py` beside it is then the `http` of every library."""
    scripts = [path for path in (ROOT / "tests").rglob("*.py") if '__name__ == "__main__"' in path.read_text()]
    beside = {path for script in scripts for path in script.parent.glob("*.py")}
    assert {path for path in beside if path.stem in sys.stdlib_module_names} == set()
