"""Exact versions with hashes, which fit what pyproject.toml asks for, and lack nothing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.deployment_files import CONTAINERS, ROOT, stages

TEXT = (CONTAINERS / "requirements.txt").read_text()
BLOCK = re.compile(r"^(\S+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)
LOCKED = {canonicalize_name(name): version for name, version, _ in BLOCK.findall(TEXT)}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux", "platform_system": "Linux"}
"""What markers are asked about: the image's Python, not the one that runs the tests."""


def of_hubbub(extra: str) -> Iterator[Requirement]:
    """What hubbub with one of its extras asks for."""
    for each in map(Requirement, PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]):
        if each.name == "hubbub":
            for more in each.extras:
                yield from of_hubbub(more)
        else:
            yield each


EXTRAS = ("", "postgres", "traces", "uvloop")
"""What the settings of a service may ask for: a store, traces, an event loop. Only Spark is left out: it needs Java."""


def direct() -> list[Requirement]:
    """What hubbub itself asks for in an image."""
    return [each for extra in EXTRAS for each in of_hubbub(extra)]


def asked_for() -> Iterator[Requirement]:
    """What an image holds asks for, directly or through another, but for hubbub itself."""
    left = [*direct(), Requirement((CONTAINERS / "build.in").read_text().strip())]
    seen: set[str] = set()
    while left:
        each = left.pop()
        yield each
        for extra in ("", *each.extras):
            if f"{each.name}[{extra}]" in seen:
                continue
            seen.add(f"{each.name}[{extra}]")
            more = map(Requirement, distribution(each.name).requires or [])
            left += [one for one in more if one.marker is None or one.marker.evaluate({**IMAGE, "extra": extra})]


def test_every_line_is_a_version_with_hashes_and_names_no_place_to_get_it() -> None:
    assert len(LOCKED) > 20
    assert [line for line in BLOCK.sub("", TEXT).splitlines() if line and not line.startswith("#")] == []
    assert "://" not in TEXT
    assert "--index" not in TEXT


def test_versions_fit_what_is_asked_for() -> None:
    assert [str(each) for each in direct() if LOCKED[canonicalize_name(each.name)] not in each.specifier] == []


def test_nothing_is_missing_and_nothing_is_too_much() -> None:
    assert set(LOCKED) == {canonicalize_name(each.name) for each in asked_for()}


def test_the_lock_is_made_for_the_extras_of_an_image() -> None:
    (rule,) = re.findall(r"(?m)^lock:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text())
    assert tuple(re.findall(r"--extra (\w+)", rule)) == EXTRAS[1:]


def test_images_install_them_alone_before_the_code() -> None:
    kinds = [(name, value) for name, value in stages()["build"].instructions if name in ("COPY", "RUN")]
    assert [name for name, _ in kinds] == ["COPY", "RUN", "COPY", "RUN"]
    copied, required, code, package = (value for _, value in kinds)
    assert copied.startswith("deploy/containers/requirements.txt ")
    assert "--require-hashes --only-binary :all: --requirement /requirements.txt" in required
    assert code == ". /source"
    assert f"--no-deps --no-build-isolation --no-index '/source[{','.join(EXTRAS[1:])}]'" in package
    assert f"python:{IMAGE['python_version']}-" in stages()["build"].base
