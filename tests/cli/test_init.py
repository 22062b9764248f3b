"""`hubbub init`, `identity` and `demo --out`: what cannot be used is refused before anything is made."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from pathlib import Path

import pytest
from cryptography import x509

from hubbub.client import read_settings
from hubbub.deploy.init import folders as initializing
from hubbub.deploy.init.folders import Placement, initialize
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.new_folder import new_folder
from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.task import Draft, Identities
from hubbub.protos.task.trusted_keys import identities_in
from hubbub.service.settings import load
from hubbub.shuffler.hop import settings as hop_settings
from support.cli import hubbub, hubbub_here


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--shuffler-host", "https://x/"),
        ("--shuffler-host", "host:7301"),
        ("--analyzer-host", ""),
        ("--analyzer-host", "a b"),
        ("--analyzer-host", "0.0.0.0"),
        ("--shuffler-listen", "127.0.0.1:7301"),
    ],
)
def test_a_host_that_is_none_is_bad_use_and_nothing_is_made(tmp_path: Path, option: str, value: str) -> None:
    ran = hubbub("init", "new/deployment", option, value, folder=tmp_path)
    assert ran.status == 2
    assert ran.err.startswith(f"error: {option}: ")
    assert list(tmp_path.iterdir()) == []


def test_international_names_stand_in_settings_and_certificates_as_they_are_called(tmp_path: Path) -> None:
    hosts = {Role.SHUFFLER: ["münchen.example"], Role.ANALYZER: ["[2001:DB8::7]"]}
    folder = initialize(tmp_path / "deployment", Placement(hosts))
    settings = read_settings(folder.of("client") / "client.toml", {})
    assert settings.shuffler == "xn--mnchen-3ya.example:7301"
    certificate = x509.load_pem_x509_certificate((folder.of("shuffler") / "tls/shuffler.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["xn--mnchen-3ya.example", "localhost"]


def test_a_chain_has_a_folder_for_each_hop_and_everyone_knows_whom_to_deliver_to(tmp_path: Path) -> None:
    Identity.generate().save_public(tmp_path / "second.pub.pem")
    words = ("--hops", "3", "--hop-key", "second.pub.pem", "--hop-host", "b.example", "--hop-host", "c.example")
    words += ("--hop-listen", "0.0.0.0")
    ran = hubbub("init", "new", *words, "--analyzer-host", "a.example", "--json", folder=tmp_path)
    assert list(ran.json["fingerprints"]) == ["operator", "shuffler", "analyzer", "hop-2", "hop-3"]
    root = tmp_path / "new"
    assert 'analyzer = "b.example:7501"' in (root / "shuffler" / "shuffler.toml").read_text()
    operator = load(root / "operator" / "operator.toml", OperatorSettings, "operator")
    assert operator.hops == ("b.example:7501", "c.example:7511")
    second, third = (hop_settings.load(root / name / "hop.toml") for name in ("hop-2", "hop-3"))
    assert (second.next, third.next) == ("c.example:7511", "a.example:7401")
    assert (second.listen, third.listen) == ("0.0.0.0:7501", "127.0.0.1:7511")
    # Who handed over a public key keeps the private one.
    assert [each.identity.exists() for each in (second, third)] == [False, True]
    named = identities_in(root / "operator" / "trust").hops
    assert named[0] == load_public(tmp_path / "second.pub.pem")
    assert named[1] == Identity.load(third.identity).public
    assert {path.stat().st_mode & 0o777 for path in (root / "hop-3", third.identity, third.tls.key)} == {0o700, 0o600}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--hops", "0"), "--hops is 0"),
        (("--hops", "9"), "--hops is 9"),
        (("--hop-host", "b.example"), "--hop-host is given 1 times"),
        (("--hops", "2", "--hop-key", "x", "--hop-key", "y"), "--hop-key is given 2 times"),
        (("--hops", "2", "--hop-host", "b:1"), "--hop-host: "),
        (("--hop-listen", "0.0.0.0"), "--hop-listen is given 1 times"),
    ],
    ids=range(6),
)
def test_a_chain_that_cannot_be_is_bad_use_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    ran = hubbub("init", "new", *words, folder=tmp_path)
    assert ran.status == 2
    assert problem in ran.err
    assert list(tmp_path.iterdir()) == []


def test_one_key_for_two_hops_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    Identity.generate().save_public(tmp_path / "one.pub.pem")
    ran = hubbub("init", "new", "--hops", "3", "--hop-key", "one.pub.pem", "--hop-key", "one.pub.pem", folder=tmp_path)
    assert ran.status == 1
    assert "hop-2 and hop-3 have the same key" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["one.pub.pem"]


def test_one_key_for_two_parties_is_refused(tmp_path: Path) -> None:
    Identity.generate().save_public(tmp_path / "one.pub.pem")
    words = ("init", "deployment", "--shuffler-key", "one.pub.pem", "--analyzer-key", "one.pub.pem")
    ran = hubbub(*words, folder=tmp_path)
    assert ran.status == 2
    assert "are the same key, but shuffler and analyzer must be different parties" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["one.pub.pem"]


@pytest.mark.parametrize("equal", [(0, 1), (0, 2), (1, 2)])
def test_no_task_names_one_key_for_two_parties(equal: tuple[int, int]) -> None:
    keys = [bytes([number]) * 32 for number in range(3)]
    keys[equal[1]] = keys[equal[0]]
    with pytest.raises(TaskError, match="have the same key, but must be two parties"):
        Identities(*keys)


@pytest.mark.parametrize("there", ["nothing", "an empty folder"])
def test_a_failure_leaves_what_was_there_before(tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "a" / "b"
    if there == "an empty folder":
        root.mkdir(parents=True)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(initializing, "_write_settings", full)
    with pytest.raises(OSError, match="No space"):
        initialize(root)
    assert list(tmp_path.rglob("*")) == ([] if there == "nothing" else [tmp_path / "a", root])


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    for words in (("init", tmp_path), ("demo", "--devices", "100", "--out", tmp_path)):
        ran = hubbub(*words)
        assert ran.status == 1
        assert "is not an empty folder" in ran.err
        assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(HubbubError, match=r"is a link to .*gone, which does not exist"):
        initialize(tmp_path / "link")


def test_a_demo_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    ran = hubbub("demo", "--devices", "100", "--epsilon", "-1", "--out", tmp_path / "new" / "demo")
    assert ran.status != 0
    assert list(tmp_path.iterdir()) == []


def fill(root: Path, names: list[str]) -> None:
    """Begin a folder with logs, and fail."""
    with new_folder(root, keep="logs"):
        (root / "logs").mkdir()
        for name in names:
            (root / name).touch()
        (root / "missing").read_bytes()


def test_what_is_to_be_kept_of_a_failure_is_kept(tmp_path: Path) -> None:
    for content, left in (([], []), (["logs/a.log", "results.csv"], ["logs", "logs/a.log"])):
        root = tmp_path / "out"
        with pytest.raises(FileNotFoundError):
            fill(root, content)
        assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == left


def test_a_draft_that_cannot_be_planned_leaves_no_pipeline_behind(tmp_path: Path) -> None:
    async def run(draft: Draft) -> None:
        async with LocalPipeline(draft, tmp_path / "pipeline"):
            pass

    text = initializing.sample("task.toml").replace("@START@", "2026-01-01T00:00:00Z")
    draft = read_draft(text.replace("epsilon = 1.0", "epsilon = 1e-9"))
    with pytest.raises(HubbubError):
        asyncio.run(run(draft))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", [True, False])
def test_the_name_of_a_public_key_is_no_place_for_a_private_one(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "x.pub.pem").write_text("kept")
    ran = hubbub("identity", "x.pub.pem", folder=tmp_path)
    assert ran.status == 1
    assert "x.pub.pem is a name for the public key" in ran.err
    assert "such as x.pem" in ran.err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"] * there


SHAPES: dict[str, tuple[str, ...]] = {
    "one machine": (),
    "hops and a proxy": ("--hops", "3", "--proxy"),
    "cluster": ("--cluster", "--frontends", "3", "--shuffler-store", "postgresql://hubbub@db.example:7432/hubbub"),
    "two parties": ("--shuffler-host", "a.example", "--analyzer-host", "b.example", "--shuffler-listen", "0.0.0.0"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_port_of_every_settings_file_counts_from_the_base(tmp_path: Path, shape: str) -> None:
    """But for these numbers the files are those of a deployment without a base; a database keeps its port."""
    port = re.compile(r":([0-9]{4,5})\b")

    def settings_of(name: str, *words: str) -> dict[str, str]:
        ran = hubbub_here("init", tmp_path / name, *SHAPES[shape], *words)
        assert ran.status == 0, ran.err
        files = [path for ending in ("toml", "cfg") for path in (tmp_path / name).rglob(f"*.{ending}")]
        return {str(path.relative_to(tmp_path / name)): path.read_text() for path in sorted(files)}

    usual, moved = settings_of("usual"), settings_of("moved", "--port-base", "2e4")
    assert usual.keys() == moved.keys()
    seen = set()
    for name, text in usual.items():
        if name.endswith("task.toml"):
            continue
        for before, after in zip(text.splitlines(), moved[name].splitlines(), strict=True):
            if "postgresql://" in before:
                assert after.replace("moved", "usual") == before
                continue
            was, now = port.findall(before), port.findall(after)
            assert [int(each) - 7300 + 20_000 for each in was] == [int(each) for each in now], (name, before)
            seen |= {*was}
    assert len(seen) >= 6, "settings have ports that were not read"


def test_a_base_that_leaves_no_room_for_the_ports_is_bad_use_and_nothing_is_made(tmp_path: Path) -> None:
    for base in ("65500", "10", "-1"):
        ran = hubbub_here("init", tmp_path / "new", "--port-base", base)
        assert ran.status == 2
        assert "--port-base" in ran.err
        assert list(tmp_path.iterdir()) == []


def test_grace_has_a_default() -> None:
    text = initializing.sample("task.toml").replace("@START@", "2030-01-01T00:00:00Z")
    without = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("grace"))
    assert without != text
    assert read_draft(without) == read_draft(text)


def test_who_fills_a_folder_second_is_refused_and_removes_nothing(tmp_path: Path) -> None:
    """Two at once saw the same empty folder; the one that failed then removed the keys of the other."""
    with new_folder(tmp_path / "new"):
        # The folder is still empty, as the second one sees it.
        ran = hubbub("init", tmp_path / "new")
        assert (ran.status, ran.err) == (
            1,
            f"error: another command fills the folder {tmp_path}/new now; name another one\n",
        )
        (tmp_path / "new" / "kept").touch()
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["kept"]


def test_a_full_disk_is_named_by_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for words, named in ((("init", "new"), "new/operator/identity.pem"), (("identity", "k.pem"), "k.pem")):
        ran = hubbub_here(*words, folder=tmp_path)
        assert ran.err == f"error: {named}: No space left on device; make room on its disk\n"
    # No half of a key is in the way of the next attempt.
    assert list(tmp_path.iterdir()) == []
