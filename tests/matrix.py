"""Tries hubbub on every Python from 3.11 on that this machine has, and names what lacks wheels: `make matrix`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = ("tests/unit/protos", "tests/unit/queries", "tests/architecture/test_portable.py")
UV = str(Path(sys.executable).parent / "uv")


def required() -> list[str]:
    """All that pyproject.toml asks for, once each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    return sorted({line for line in lines if Requirement(line).name != "hubbub"})


def lacks(version: str, line: str) -> bool:
    """Whether a requirement has no wheel for this Python on Linux."""
    command = [UV, "pip", "compile", "--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", version]
    command += ["--python-platform", "linux", "-"]
    done = subprocess.run(command, input=line, capture_output=True, text=True)
    # uv ends with 1 if no version fits, and with 2 if it cannot ask.
    if done.returncode not in (0, 1):
        raise SystemExit(f"the wheels of {line} for Python {version} cannot be looked up: {done.stderr}")
    return done.returncode == 1


def lacking(version: str) -> list[str]:
    """The requirements that have no wheel for this Python on Linux."""
    lines = required()
    # A look-up waits for the package index most of the time.
    with ThreadPoolExecutor(8) as pool:
        return [line for line, no in zip(lines, pool.map(lambda line: lacks(version, line), lines), strict=True) if no]


def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or among pyenv's."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")


def tried(version: str, python: str) -> bool:
    """Install hubbub for this Python, check its types and run a small set of the tests."""
    folder = ROOT / ".venv-matrix" / version
    own = str(folder / "bin" / "python")
    steps = (
        [UV, "venv", "--quiet", "--clear", "--python", python, str(folder)],
        [UV, "pip", "install", "--quiet", "--python", own, "--editable", ".[dev,demo]"],
        [own, "-m", "mypy", "--python-version", version, "-p", "hubbub"],
        [own, "-m", "pytest", "-q", "-m", "not slow", *TESTS],
    )
    return all(subprocess.run(step, cwd=ROOT, check=False).returncode == 0 for step in steps)


def main() -> None:
    """Print a line for each version; end with 1 where one that is here fails."""
    failed = False
    for version in VERSIONS:
        python = interpreter(version)
        passed = python is not None and "--wheels" not in sys.argv and tried(version, python)
        failed |= python is not None and "--wheels" not in sys.argv and not passed
        print(
            f"{version}: {'passed' if passed else 'not tried' if python is None else 'failed' if failed else 'here'}; "
            f"without wheels: {', '.join(lacking(version)) or 'nothing'}",
            flush=True,
        )
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
