"""What `pip install hubbub` and its extra `cli` bring: a device works, and a command that needs more says what."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import hubbub
from hubbub.cli.registry import COMMAND_LINE, FAILURE_STATUS, NEEDS
from hubbub.deploy.init.folders import sample
from hubbub.deploy.local.pipeline import LocalPipeline
from support.patience import PATIENCE

LARGEST_BARE = 50_000_000
"""Most bytes of a bare install, compiled modules aside: 37 MB were measured, and numpy alone would add 60."""

WORDS = {
    "demo": ("--devices", "10"),
    "draft": ("data.csv",),
    "plan": ("task.toml",),
    "dictionary": ("task.json", "--out", "pages"),
    "dashboard": ("reader.toml",),
    "shuffler": ("shuffler.toml",),
    "hop": ("hop.toml",),
    "analyzer": ("analyzer.toml",),
    "health": ("shuffler", "shuffler.toml"),
    "rehearse": ("client.toml",),
    "conformance": ("--no-faults",),
    "load": ("client.toml",),
    "results": ("operator.toml",),
    "report": ("operator.toml",),
    "verify": ("certificate.json",),
    "account": ("epsilon", "--mechanism", "generic", "--local-epsilon", "1", "--reports", "100", "--delta", "1e-6"),
    "simulate": ("task.toml", "--data", "data.csv"),
    "audit": ("task.toml",),
}
"""Words with which each command that needs more than the command line can be called; the files need not be there."""


EMBEDDED = """
from pathlib import Path
from hubbub.client import Device

files = Path({client!r})
device = Device.from_settings(
    files / "client.toml",
    state=files / "application.db",
    shuffler={at!r},
    ticket=files / "application.ticket",
)
print(device.submit_blocking({{"theme": "light", "session": 31.0}}))
"""
"""An application that embeds a device."""


@dataclass(frozen=True)
class Installed:
    """A virtual environment that holds the wheel and what it requires, and nothing else."""

    python: Path
    held: frozenset[str]
    size: int

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter on these words, isolated from this one's folder and settings."""
        command = [str(self.python), "-I", *words]
        return subprocess.run(
            command, cwd=self.python.parent, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def hubbub(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "hubbub.cli.main", *words)


def required(lines: Iterable[str], extra: str = "") -> Iterator[Distribution]:
    """Every distribution that these requirements bring, with one of their extras, as it is installed here."""
    left, seen = [(Requirement(line), extra) for line in lines], set()
    while left:
        each, wanted = left.pop()
        name = canonicalize_name(each.name)
        if name in seen or (each.marker is not None and not each.marker.evaluate({"extra": wanted})):
            continue
        seen.add(name)
        found = distribution(name)
        yield found
        left += [(Requirement(line), "") for line in found.requires or []]


def link(found: Distribution, site: Path) -> int:
    """Put links to a distribution's files into another site-packages; return their size in bytes."""
    size = 0
    for name in found.files or ():
        source, target = Path(str(found.locate_file(name))), site / name
        # Scripts lie outside site-packages, and compiled modules are made anew by whoever imports.
        if ".." in name.parts or name.suffix == ".pyc" or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)
        size += source.stat().st_size
    return size


def install(wheel: zipfile.ZipFile, folder: Path, extra: str = "") -> Installed:
    """Make a virtual environment as `pip install 'hubbub[EXTRA]'` does, from what is installed here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    wheel.extractall(site)
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    found = list(required(message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist", []), extra))
    size = sum(link(each, site) for each in found) + sum(each.file_size for each in wheel.infolist())
    return Installed(folder / "bin" / "python", frozenset(canonicalize_name(each.name) for each in found), size)


@pytest.fixture(scope="module")
def bare(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`pip install hubbub`."""
    return install(wheel, tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="module")
def cli(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`pip install 'hubbub[cli]'`."""
    return install(wheel, tmp_path_factory.mktemp("cli") / "venv", "cli")


def test_the_bare_install_is_what_the_client_needs(bare: Installed) -> None:
    assert bare.held >= {"cryptography", "grpcio", "protobuf"}
    brought_along = {"cffi", "pycparser", "typing-extensions"}
    assert bare.held - brought_along <= {"cryptography", "grpcio", "idna", "protobuf", "pyhpke", "pynacl", "rfc8785"}


def test_the_bare_install_is_small(bare: Installed) -> None:
    assert bare.size < LARGEST_BARE


def test_the_command_line_brings_no_numbers_no_tables_and_no_server(cli: Installed) -> None:
    assert cli.held >= {"pydantic", "rich", "typer"}
    unwanted = {"numpy", "scipy", "pyarrow", "grpcio-health-checking", "prometheus-client"}
    assert cli.held & (unwanted | {"structlog", "pandas"}) == set()


def test_the_client_imports_from_the_bare_install(bare: Installed) -> None:
    modules = ["client", "client.fleet", "client.gateway", "queries", "accountant.mechanisms", "accountant.numbers"]
    done = bare.run("-c", f"import {', '.join(f'hubbub.{module}' for module in modules)}; hubbub.client.Device")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("use", ["from hubbub.accountant import KRR", "import hubbub.accountant as a; a.KRR"])
def test_the_accountant_says_which_extra_it_needs(bare: Installed, use: str) -> None:
    done = bare.run("-c", use)
    said = f"ModuleNotFoundError: hubbub.accountant needs numpy {installing('accountant')}"
    assert done.stderr.splitlines()[-1] == said


def test_every_command_that_needs_more_is_tried() -> None:
    assert set(WORDS) == {name for name, extra in NEEDS.items() if extra is not COMMAND_LINE}


def installing(extra: str) -> str:
    return f"(not installed): pip install 'hubbub[{extra}]', in a checkout pip install '.[{extra}]'"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NEEDS)
def test_a_command_says_which_extra_it_needs(bare: Installed, name: str) -> None:
    done = bare.hubbub(name, *WORDS.get(name, ()))
    extra = NEEDS[name]
    assert done.stderr == f"error: hubbub {name} needs {extra.title} {installing(extra.name)}\n"
    assert (done.returncode, done.stdout) == (FAILURE_STATUS.get(name, 1), "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WORDS)
def test_a_command_says_which_extra_it_needs_beside_the_command_line(cli: Installed, name: str) -> None:
    extra, words = NEEDS[name], WORDS[name]
    done = cli.hubbub(name, *words)
    called = f"{name} {words[0]}" if name == "account" else name
    assert done.stderr == f"error: hubbub {called} needs {extra.title} {installing(extra.name)}\n"
    assert (done.returncode, done.stdout) == (FAILURE_STATUS.get(name, 1), "")


def test_the_bare_install_says_its_version(bare: Installed) -> None:
    done = bare.hubbub("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hubbub {hubbub.__version__}\n", "")
    assert bare.run("-c", "import hubbub; print(hubbub.__version__)").stdout == f"{hubbub.__version__}\n"


@pytest.mark.parametrize("words", [(), ("--help",), ("nothing",)])
def test_the_bare_install_says_that_the_command_line_is_missing(bare: Installed, words: tuple[str, ...]) -> None:
    done = bare.hubbub(*words)
    assert done.stderr == f"error: hubbub needs the command line {installing('cli')}\n"
    assert (done.returncode, done.stdout) == (1, "")


def test_json_says_it_too(bare: Installed, cli: Installed) -> None:
    for installed in (bare, cli):
        done = installed.hubbub("verify", "certificate.json", "--json")
        wanted = f"hubbub verify needs the accountant {installing('accountant')}"
        assert json.loads(done.stdout) == {"error": wanted}
        assert done.returncode == 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["", *NEEDS, "account epsilon", "account plot"])
def test_help_needs_the_command_line_alone(cli: Installed, name: str) -> None:
    done = cli.hubbub(*name.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert "hubbub" in done.stdout


def test_keys_and_folders_are_made_with_the_command_line_alone(cli: Installed, tmp_path: Path) -> None:
    authority = str(tmp_path / "deployment" / "operator")
    shuffler = ("--shuffler-key", f"{authority}/trust/shuffler.pub.pem")
    for words in (
        ("identity", str(tmp_path / "identity.pem")),
        ("init", str(tmp_path / "deployment")),
        ("certificate", "monitor", "--authority", authority, "--out", str(tmp_path / "monitoring")),
        ("enroll", str(tmp_path / "ticket.json"), "--key", f"{authority}/identity.pem", *shuffler),
    ):
        made = cli.hubbub(*words, "--json")
        assert made.returncode == 0, made.stderr


# What the client needs is in the bare install: `test_the_bare_install_is_what_the_client_needs`.
@pytest.mark.exhaustive
async def test_a_device_submits_with_the_bare_install_and_with_the_command_line(
    bare: Installed, cli: Installed, tmp_path: Path
) -> None:
    draft = sample("task.toml").replace("@START@", f"{datetime.now(UTC):%Y-%m-%dT%H:00:00Z}")
    async with LocalPipeline(draft) as pipeline:
        client = pipeline.folder.of("client")
        shutil.copy(pipeline.directory / "task.json", client / "task.json")
        for name in ("application.ticket", "ticket.json"):
            (client / name).write_bytes(pipeline.ticket(name))
        settings = client / "client.toml"
        settings.write_text(settings.read_text().replace("127.0.0.1:7301", pipeline.shuffler))
        done = await asyncio.to_thread(bare.run, "-c", EMBEDDED.format(client=str(client), at=pipeline.shuffler))
        assert done.returncode == 0, done.stderr
        answers = tmp_path / "answers.txt"
        answers.write_text("theme=dark\nsession=12.5\n")
        words = ("submit", str(settings), "--answers", str(answers))
        done = await asyncio.to_thread(cli.hubbub, *words)
        assert done.stdout.startswith("acknowledged: task usage"), done.stderr
        assert sum(status.submissions for status in await pipeline.status()) == 2
        # Signing a task again as its operator gives the same file.
        key = pipeline.folder.of("operator") / "identity.pem"
        signed = await asyncio.to_thread(cli.hubbub, "sign", str(client / "task.json"), "--key", str(key), "--json")
        assert json.loads(signed.stdout)["missing"] == [], signed.stderr
