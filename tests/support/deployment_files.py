"""The files of a real deployment as tests read them: units, the Dockerfile, the compose file, and commands in prose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
CONTAINERS = ROOT / "deploy" / "containers"
HOWTO = ROOT / "docs" / "howto"
GUIDE = HOWTO / "deploy-two-parties.md"
GUIDES = [
    HOWTO / f"{name}.md"
    for name in (
        "add-a-hop",
        "back-up-and-restore",
        "containers",
        "deploy-two-parties",
        "enroll",
        "erase-and-retain",
        "public-port",
        "rotate-keys",
        "run-a-cluster",
        "run-on-kubernetes",
        "upgrade",
    )
]
"""Pages for parties that run a service; the first one that they read is GUIDE."""
SERVICES = ("shuffler", "analyzer")
HOPS = ("hop-2", "hop-3")
"""Shufflers behind the first one, by the names of their folders."""
FRONTENDS = ("frontend-1", "frontend-2")
"""Front ends of a cluster, by the names of their folders."""

_BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.M | re.S)


@dataclass(frozen=True)
class Unit:
    """A unit file: (section, key, value) in order, continued lines joined."""

    path: Path
    entries: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, service: str) -> Unit:
        kind = command_of(service) if service in HOPS else "frontend" if service in FRONTENDS else ""
        path = SYSTEMD / (f"hubbub-{kind}@.service" if kind else f"hubbub-{service}.service")
        entries, section = [], ""
        # A hop's unit is a template, and a front end's: %i is what follows the @ in the name that it is started by.
        for line in path.read_text().replace("\\\n", " ").replace("%i", service).splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith(("#", ";")):
                key, _, value = line.partition("=")
                entries.append((section, key, value))
        return cls(path, tuple(entries))

    def all(self, key: str, section: str = "Service") -> list[str]:
        return [value for where, name, value in self.entries if (where, name) == (section, key)]

    def one(self, key: str, section: str = "Service") -> str:
        (value,) = self.all(key, section)
        return value

    @property
    def command(self) -> list[str]:
        """The words of ExecStart."""
        return shlex.split(self.one("ExecStart"))


@dataclass(frozen=True)
class Stage:
    """A stage of the Dockerfile: what it is built from, its name, and its instructions."""

    base: str
    name: str
    instructions: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        return [value for instruction, value in self.instructions if instruction == name]

    def words(self, name: str) -> list[str]:
        """The words of an instruction in its exec form, such as CMD ["…"]."""
        (value,) = self.all(name)
        return list(yaml.safe_load(value[value.index("[") :]))


def stages() -> dict[str, Stage]:
    """The Dockerfile's stages by name, in order."""
    parser = DockerfileParser(path=str(CONTAINERS / "Dockerfile"))
    found: list[Stage] = []
    for each in parser.structure:
        instruction, value = each["instruction"], each["value"]
        if instruction == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", value).groups()  # type: ignore[union-attr]
            found.append(Stage(base, name, ()))
        elif instruction != "COMMENT":
            last = found.pop()
            found.append(Stage(last.base, last.name, (*last.instructions, (instruction, value))))
    return {stage.name: stage for stage in found}


def command_of(service: str) -> str:
    """The command that runs a service, which its image and its container are called by too."""
    return "hop" if service in HOPS else service


def compose(service: str = "") -> dict[str, Any]:
    """The compose file that a service is in; for a hop with the variables that it is started with."""
    chosen: dict[str, str] = {}
    # Those of hop-2 are the defaults.
    if service in HOPS[1:]:
        chosen = {"HOP": service, "PORT": str(7501 + 10 * HOPS.index(service))}
    text = (CONTAINERS / f"compose{'.hop' * (service in HOPS)}.yaml").read_text()
    # As compose fills them in, with the default behind ":-".
    filled = re.sub(r"\$\{([A-Z]+):-([^}]*)\}", lambda found: chosen.get(found[1], found[2]), text)
    content: dict[str, Any] = yaml.safe_load(filled)
    return content


def compose_cluster() -> dict[str, Any]:
    """The compose file of a cluster."""
    content: dict[str, Any] = yaml.safe_load((CONTAINERS / "compose.cluster.yaml").read_text())
    return content


def commands_in(text: str) -> Iterator[list[str]]:
    """Every `hubbub …` in a text, as words without the program's name."""
    blocks = "\n".join(_BLOCK.findall(text)).replace("\\\n", " ")
    inline = re.findall(r"`(hubbub [^`]*)`", text.replace("\n", " "))
    for line in (*blocks.splitlines(), *inline):
        yield from commands_of_line(line)


def commands_of_line(line: str) -> Iterator[list[str]]:
    """Every `hubbub …` of a shell's line, also one that runuser runs, without what it redirects."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    commands, redirected = [words], False
    for word in lexer:
        if word and not set(word) - set("();|&"):
            commands.append(words := [])
        elif word and not set(word) - set("<>&"):
            redirected = True
        elif redirected:
            redirected = False
        else:
            words.append(word)
    for words in commands:
        if "--" in words and words[0] == "runuser":
            del words[: words.index("--") + 1]
        if len(words) > 1 and words[0].rpartition("/")[2] == "hubbub":
            yield words[1:]
