"""Those that import it, by whatever name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from loop import affected

HELPER, WORLD = Path("tests/support/helper.py"), Path("tests/unit/shuffler/world.py")
TESTS = {
    HELPER: "from hubbub.protos import codec\n",
    WORLD: "from support.helper import made\n",
    Path("tests/unit/shuffler/test_mix.py"): "from unit.shuffler.world import World\n",
    Path("tests/unit/client/test_device.py"): "from hubbub.client import Device\n",
    Path("tests/unit/protos/test_codec.py"): "import json\n",
    Path("tests/cli/test_lazy.py"): "def test() -> None:\n    import hubbub.shuffler.mix.mix as mix\n",
    Path("tests/cli/test_page.py"): 'PAGE = ROOT / "docs" / "howto" / "embed-a-device.md"\n',
}
EXPORTS = {"hubbub.client.Device": "hubbub.client.device"}


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("shuffler/mix/mix.py", ["tests/cli/test_lazy.py"]),
        ("client/device.py", ["tests/unit/client/test_device.py"]),
        # By where it lies alone; a helper that imports it is not followed.
        ("protos/codec.py", ["tests/unit/protos/test_codec.py"]),
        ("tests/support/helper.py", ["tests/unit/shuffler/test_mix.py"]),
        ("tests/unit/shuffler/conftest.py", ["tests/unit/shuffler/test_mix.py"]),
        ("tests/cli/test_page.py", ["tests/cli/test_page.py"]),
        ("docs/howto/embed-a-device.md", ["tests/cli/test_page.py"]),
        ("service/settings.py", []),
    ],
)
def test_the_tests_that_a_change_may_fail_are_chosen(changed: str, chosen: list[str]) -> None:
    assert affected.affected([Path(changed)], TESTS, EXPORTS) == [Path(name) for name in chosen]


def test_names_that_packages_give_lead_to_the_modules_that_have_them() -> None:
    exports = affected.exported()
    assert "hubbub.client.device" in affected.resolved({"hubbub.client.Device"}, exports)
    # By way of two packages: the accountant loads its public names when they are asked for.
    assert "hubbub.accountant.composition" in affected.resolved({"hubbub.accountant.compose"}, exports)


def test_a_package_that_gives_all_of_a_module_gives_each_name_of_it() -> None:
    exports = {"hubbub.a.*": "hubbub.a.api", "hubbub.a.api.f": "hubbub.a.b"}
    assert {"hubbub.a.api", "hubbub.a.b"} <= affected.resolved({"hubbub.a.f"}, exports)
    assert "hubbub.a.b" not in affected.resolved({"hubbub.a.g"}, exports)


def test_a_module_stays_whole_only_if_it_is_long() -> None:
    lines = {name: len((affected.ROOT / name).read_text().splitlines()) for name in affected.ONE_SUBJECT}
    assert {name: count for name, count in lines.items() if count < affected.LONG} == {}


def test_every_change_is_seen_and_a_long_module_is_told(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    git("init", "--quiet")
    (tmp_path / "client").mkdir()
    for name in ("client/kept.py", "client/long.py", "README.md"):
        (tmp_path / name).write_text("x = 1\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    (tmp_path / "client/long.py").write_text("x = 1\n" * affected.LONG)
    (tmp_path / "client/new.py").write_text("x = 1\n" * (affected.LONG - 1))
    changed = affected.changed_since("HEAD", tmp_path)
    assert changed == {Path("client/long.py"), Path("client/new.py")}
    (tmp_path / "client/device.py").write_text("x = 1\n" * affected.LONG)
    (warning,) = affected.long_modules(changed | {Path("client/device.py")}, tmp_path)
    assert warning.startswith(f"client/long.py has {affected.LONG} lines")
