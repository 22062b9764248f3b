"""`hubbub keys`: every key with its state, and how TLS certificates and authorities are rotated in files."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import shutil
import ssl
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hubbub.cli.commands.keys import Name
from hubbub.cli.main import main
from hubbub.deploy.init.folders import Folder, Placement, initialize
from hubbub.deploy.pki import authority
from hubbub.deploy.pki.authority import CERTIFICATE_DAYS, Authority
from hubbub.deploy.pki.rotation.key import location_of
from hubbub.deploy.pki.rotation.registry import ROTATIONS
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import CORE_ROLES, Identity, Role, load_public
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities
from hubbub.protos.transport.channels import TLS
from hubbub.service.rpc.revoked_readers import RevokedReaders
from hubbub.service.transport.grpc_server import listen
from support.cli import Ran
from support.ended_with_test import opened_server
from support.messages import NOT_ISSUED_BY_AUTHORITY
from support.samples import Parties, sample_task


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return initialize(tmp_path / "deployment", Placement({Role.SHUFFLER: ["shuffler.example.org"]}))


def settings(folder: Folder, party: str) -> Path:
    return folder.of(party) / f"{party}.toml"


def run_any(*words: str | Path) -> Ran:
    """As `hubbub` does, in this process: a new one would take a second each time."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(list(map(str, words)))
    assert isinstance(ended.value.code, int)
    return Ran(ended.value.code, out.getvalue(), err.getvalue())


def run(*words: str | Path) -> Ran:
    return run_any("keys", *words)


def keys(*words: str | Path) -> dict[str, Any]:
    ran = run(*words, "--json")
    assert ran.status == 0, ran.err
    found: dict[str, Any] = ran.json
    return found


def states(found: dict[str, Any], kind: str) -> dict[str, str]:
    """Fingerprints by state; there is one of each state in these tests."""
    return {key["state"]: key["fingerprint"] for key in found["keys"] if key["kind"] == kind}


def test_the_command_knows_exactly_the_kinds_of_keys() -> None:
    assert list(Name) == list(ROTATIONS)


@pytest.mark.parametrize("party", ["shuffler", "analyzer"])
def test_a_service_s_keys_are_listed_with_state_fingerprint_and_end(folder: Folder, party: str) -> None:
    found = keys("list", settings(folder, party))
    assert (found["party"], found["errors"]) == (party, {})
    assert [(key["kind"], key["state"]) for key in found["keys"]] == [
        ("identity", "active"),
        ("certificate", "active"),
        ("authority", "active"),
    ]
    public = load_public(folder.trusted("operator", Role(party)))
    assert states(found, "identity") == {"active": fingerprint(public)}
    identity, certificate, _authority = found["keys"]
    assert identity["until"] is None
    assert certificate["since"] < certificate["until"]
    shown = run("list", settings(folder, party))
    assert "certificate" in shown.out
    assert str(certificate["fingerprint"]) in shown.out


def test_the_operator_s_keys_are_listed_although_the_shuffler_is_down(folder: Folder) -> None:
    ran = run("list", settings(folder, "operator"), "--json")
    assert ran.status == 1
    assert [key["kind"] for key in ran.json["keys"]] == ["identity", "certificate", "authority"]
    assert list(ran.json["errors"]) == ["master"]
    assert "error: master: " in ran.err


def test_a_certificate_is_added_activated_and_removed_and_each_step_may_be_repeated(folder: Folder) -> None:
    shuffler, operator = settings(folder, "shuffler"), folder.of("operator")
    first = states(keys("list", shuffler), "certificate")["active"]
    for _ in range(2):
        added = states(keys("add", "certificate", shuffler, "--authority", operator), "certificate")
        assert added["active"] == first
    for _ in range(2):
        turned = states(keys("activate", "certificate", shuffler), "certificate")
        assert turned == {"active": added["pending"], "retired": first}
    pair = folder.of("shuffler") / "tls"
    for path in (pair / "shuffler.key", pair / "retired" / "shuffler.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    place = location_of(shuffler)
    assert place.tls.check(time.time(), own=True)["own"].hosts[0] == "shuffler.example.org"
    for _ in range(2):
        assert states(keys("remove", "certificate", shuffler), "certificate") == {"active": added["pending"]}
    assert not list((pair / "retired").iterdir())


def test_an_activation_that_was_cut_between_the_files_is_ended_by_the_next(folder: Folder) -> None:
    shuffler, tls = settings(folder, "shuffler"), folder.of("shuffler") / "tls"
    added = states(keys("add", "certificate", shuffler, "--authority", folder.of("operator")), "certificate")
    (tls / "next" / "shuffler.key").replace(tls / "shuffler.key")
    turned = states(keys("activate", "certificate", shuffler), "certificate")
    assert turned["active"] == added["pending"]
    assert location_of(shuffler).tls.check(time.time(), own=True)["own"].party == "shuffler"


def test_a_pending_certificate_that_a_service_could_not_use_is_not_put_in_place(folder: Folder, tmp_path: Path) -> None:
    shuffler = settings(folder, "shuffler")
    other = initialize(tmp_path / "other").of("shuffler") / "tls"
    shutil.copytree(other, folder.of("shuffler") / "tls" / "next")
    before = (folder.of("shuffler") / "tls" / "shuffler.pem").read_bytes()
    ran = run("activate", "certificate", shuffler)
    assert ran.status == 1
    assert NOT_ISSUED_BY_AUTHORITY in ran.err
    assert (folder.of("shuffler") / "tls" / "shuffler.pem").read_bytes() == before


def test_a_key_that_was_not_put_beside_its_certificate_is_named(folder: Folder) -> None:
    shuffler, following = settings(folder, "shuffler"), folder.of("shuffler") / "tls" / "next"
    keys("add", "certificate", shuffler, "--authority", folder.of("operator"))
    (following / "shuffler.key").unlink()
    ran = run("activate", "certificate", shuffler)
    assert ran.status == 1
    assert f"there is no {following / 'shuffler.key'}: put both new files there" in ran.err


def test_a_client_has_no_such_keys(folder: Folder) -> None:
    ran = run("list", settings(folder, "client"))
    assert ran.status == 1
    assert "client.toml is the client's settings file, and a client has no such keys; give the operator's" in ran.err


@pytest.mark.parametrize("name", ["", "ana"])
def test_no_key_of_the_operator_is_made_for_a_reader(folder: Folder, tmp_path: Path, name: str) -> None:
    reader, authority = settings(folder, "reader"), folder.of("operator")
    if name:
        words = ("reader", "--name", name, "--authority", authority, "--out", tmp_path / name)
        assert run_any("certificate", *words).status == 0
        shutil.copy(tmp_path / name / "reader.pem", reader.parent / "tls" / "reader.pem")
    before = sorted(reader.parent.rglob("*"))
    for said in (
        ("list", reader),
        ("add", "certificate", reader, "--authority", authority),
        ("add", "master", reader),
        ("revoke", reader, "--reader", "ben"),
    ):
        ran = run(*said)
        assert ran.status == 1
        assert "has a reader's certificate, and a reader has no such keys" in ran.err
    assert sorted(reader.parent.rglob("*")) == before


def test_without_the_authority_it_is_said_who_makes_a_certificate(folder: Folder) -> None:
    ran = run("add", "certificate", settings(folder, "shuffler"))
    assert ran.status == 1
    assert "have the operator run `hubbub certificate shuffler`" in ran.err


def test_a_key_that_a_crash_left_without_its_certificate_never_takes_the_place_of_the_authority(folder: Folder) -> None:
    operator, root = settings(folder, "operator"), folder.of("operator")
    left, before = root / "authority.next.key", (root / "authority.key").read_bytes()
    Authority.generate().save_key(left)
    refused = run("activate", "authority", operator)
    assert refused.status == 1
    assert "has no certificate; `hubbub keys add authority` makes a new one" in refused.err
    assert (root / "authority.key").read_bytes() == before
    assert "pending" in states(keys("add", "authority", operator), "authority")
    assert "retired" in states(keys("activate", "authority", operator), "authority")


def test_a_certificate_s_key_that_a_crash_left_alone_is_made_anew(folder: Folder) -> None:
    following = folder.of("shuffler") / "tls" / "next"
    following.mkdir()
    (following / "shuffler.key").write_text("left behind")
    added = keys("add", "certificate", settings(folder, "shuffler"), "--authority", folder.of("operator"))
    assert "pending" in states(added, "certificate")
    assert "retired" in states(keys("activate", "certificate", settings(folder, "shuffler")), "certificate")


@pytest.mark.parametrize("days", [CERTIFICATE_DAYS + 1, -2])
def test_a_certificate_that_nobody_accepts_is_not_shown_as_active_alone(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    shuffler, now = settings(folder, "shuffler"), time.time()
    assert {key["validity"] for key in keys("list", shuffler)["keys"]} == {None, "valid"}
    keys("add", "certificate", shuffler, "--authority", folder.of("operator"))
    monkeypatch.setattr(time, "time", lambda: now + days * 86_400)
    found = {(key["kind"], key["state"]): key["validity"] for key in keys("list", shuffler)["keys"]}
    wrong = "expired" if days > 0 else "not valid yet"
    assert found["certificate", "active"] == found["certificate", "pending"] == wrong
    assert found["authority", "active"] == ("valid" if days > 0 else wrong)
    assert f"active, {wrong}" in run("list", shuffler).out


def test_a_pending_certificate_that_expired_is_made_anew(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    shuffler, now = settings(folder, "shuffler"), time.time()
    first = states(keys("add", "certificate", shuffler, "--authority", folder.of("operator")), "certificate")
    later = now + (CERTIFICATE_DAYS + 1) * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    second = states(keys("add", "certificate", shuffler, "--authority", folder.of("operator")), "certificate")
    assert second["active"] == first["active"]
    assert second["pending"] != first["pending"]


def test_a_revoked_reader_may_look_again_with_a_later_certificate_only(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = settings(folder, "operator")

    def certified(name: str) -> bytes:
        words = ("reader", "--name", "ana", "--authority", folder.of("operator"), "--out", tmp_path / name)
        assert run_any("certificate", *words).status == 0
        return (tmp_path / name / "reader.pem").read_bytes()

    before = certified("before")
    told = keys("revoke", operator, "--reader", "ana", "--reader", "")
    assert told["file"] == str(operator.parent / "revoked-readers.txt")
    assert set(told["readers"]) == {"reader", "reader:ana"}
    assert set(keys("revoke", operator, "--reader", "ben")["readers"]) == {"reader", "reader:ana", "reader:ben"}
    assert (
        "the analyzer: they take it at the next call, without a restart"
        in run("revoke", operator, "--reader", "ben").out
    )
    readers = RevokedReaders(Path(told["file"]))
    for name, pem in (("reader:ana", before), ("reader", (folder.of("reader") / "tls" / "reader.pem").read_bytes())):
        with pytest.raises(Refusal, match=f"this certificate of {name} was revoked"):
            readers.check(name, pem)
    moment = datetime.now(UTC) + timedelta(seconds=2)
    monkeypatch.setattr(authority, "datetime", type("Later", (datetime,), {"now": staticmethod(lambda _: moment)}))
    readers.check("reader:ana", certified("after"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--reader", "Ana"), "a reader cannot be called 'Ana'"),
        (("ab" * 16, "--reader", "ana"), "leave out devices and --tickets"),
    ],
)
def test_readers_are_revoked_by_their_names_alone(folder: Folder, words: tuple[str, ...], says: str) -> None:
    ran = run("revoke", settings(folder, "operator"), *words)
    assert (ran.status, says in ran.err) == (2, True)
    assert run("revoke", settings(folder, "shuffler"), "--reader", "ana").status == 1


def with_shuffler_at(folder: Folder, port: int) -> Path:
    """Return the operator's settings, with the shuffler at that port of loopback, and an analyzer that is away."""
    path = settings(folder, "operator")
    text = re.sub(r'(?m)^shuffler_control = "[^"]*"', f'shuffler_control = "127.0.0.1:{port}"', path.read_text())
    path.write_text(re.sub(r'(?m)^analyzer_results = "[^"]*"', 'analyzer_results = "127.0.0.1:1"', text))
    return path


def turned(folder: Folder, *renewed: str) -> None:
    """Make a new authority the active one, and renew these parties' certificates."""
    operator = settings(folder, "operator")
    keys("add", "authority", operator)
    for party in ("shuffler", "analyzer"):
        shutil.copy(folder.of("operator") / "tls" / "authority.pem", folder.of(party) / "tls" / "authority.pem")
    keys("activate", "authority", operator)
    for party in renewed:
        keys("add", "certificate", settings(folder, party), "--authority", folder.of("operator"))
        keys("activate", "certificate", settings(folder, party))


def test_an_authority_is_not_removed_while_a_party_beside_the_operator_uses_it(folder: Folder) -> None:
    operator, bundle = with_shuffler_at(folder, 1), folder.of("operator") / "tls" / "authority.pem"
    turned(folder, "operator", "shuffler")
    both = bundle.read_bytes()
    refused = run("remove", "authority", operator)
    assert refused.status == 1
    for party in ("analyzer", "reader"):
        assert f"{party} in {folder.of(party)}/tls/{party}.pem" in refused.err
    assert "shuffler.pem" not in refused.err
    assert bundle.read_bytes() == both
    removed = keys("remove", "authority", operator, "--force")
    assert [key["state"] for key in removed["keys"]] == ["active"]
    # Nobody listens there: whoever does not answer was not looked at, and that is said.
    assert removed["next"].startswith("not looked at: the shuffler at 127.0.0.1:1 (")
    assert run("remove", "master", operator, "--force").status == 2


def test_a_copy_that_the_operator_keeps_is_replaced_before_its_authority_is_removed(
    folder: Folder, tmp_path: Path
) -> None:
    operator = with_shuffler_at(folder, 1)
    for party in ("shuffler", "analyzer", "reader"):  # as on two hosts: the keys went there
        (folder.of(party) / "tls" / f"{party}.key").unlink()
    turned(folder, "operator")
    assert "also in the place of copies that you keep" in run("remove", "authority", operator).err
    for party in ("shuffler", "analyzer", "reader"):
        made = run_any("certificate", party, "--authority", folder.of("operator"), "--out", tmp_path / "new")
        assert made.status == 0, made.err
        shutil.copy(tmp_path / "new" / f"{party}.pem", folder.of(party) / "tls")
    assert [key["state"] for key in keys("remove", "authority", operator)["keys"]] == ["active"]


async def test_an_authority_is_not_removed_while_a_service_shows_a_certificate_of_it(folder: Folder) -> None:
    tls = folder.of("shuffler") / "tls"
    shown = TLS(*(tls / name for name in ("authority.pem", "shuffler.pem", "shuffler.key")))
    async with opened_server() as server:
        # The service has its files in memory: what its folder has is not what it shows.
        port = listen(server, "127.0.0.1:0", shown.server(mutual=True))
        await server.start()
        operator = with_shuffler_at(folder, port)
        turned(folder, "operator", "shuffler", "analyzer")
        (folder.of("reader") / "tls" / "reader.pem").unlink()
        refused = await asyncio.to_thread(run, "remove", "authority", operator)
    assert f"would be cut off: the shuffler at 127.0.0.1:{port}." in refused.err


def test_an_authority_is_turned_over_with_both_trusted_meanwhile(folder: Folder) -> None:
    operator, shuffler = with_shuffler_at(folder, 1), settings(folder, "shuffler")
    bundle = folder.of("operator") / "tls" / "authority.pem"
    old_bundle, old = bundle.read_bytes(), states(keys("list", shuffler), "authority")["active"]
    for _ in range(2):
        told = keys("add", "authority", operator)
        # The proxy trusts the shuffler by a copy of this file, and does not look at it again by itself.
        assert "also that of the proxy, if there is one: reload it" in told["next"]
        added = states(told, "authority")
        assert added["active"] == old
    shutil.copy(bundle, folder.of("shuffler") / "tls" / "authority.pem")
    assert states(keys("list", shuffler), "authority") == added
    for _ in range(2):
        turned = states(keys("activate", "authority", operator), "authority")
        assert turned == {"active": added["pending"], "retired": old}
    assert not (folder.of("operator") / "authority.next.key").exists()
    # The operator's own certificate is of the old one still: without it, nobody would talk to the operator.
    refused = run("remove", "authority", operator)
    assert refused.status == 1
    assert f"{NOT_ISSUED_BY_AUTHORITY} the authorities that would remain" in refused.err
    shutil.copy(bundle, folder.of("shuffler") / "tls" / "authority.pem")
    for party in ("operator", "shuffler"):
        keys("add", "certificate", settings(folder, party), "--authority", folder.of("operator"))
        used = "the operator's next command uses it" if party == "operator" else "a running service loads it"
        assert used in run("activate", "certificate", settings(folder, party)).out
    assert states(keys("remove", "authority", operator, "--force"), "authority") == {"active": added["pending"]}
    # Nobody trusts the operator's old certificate any more, so it is not listed either, and its key is gone.
    assert set(states(run("list", operator, "--json").json, "certificate")) == {"active"}
    assert not list((folder.of("operator") / "tls" / "retired").iterdir())
    assert len(ssl.PEM_cert_to_DER_cert(bundle.read_text())) > 100
    own = TLS(bundle, *(folder.of("shuffler") / "tls" / f"shuffler.{end}" for end in ("pem", "key")))
    assert own.check(time.time(), own=True)["own"].party == "shuffler"
    bundle.write_bytes(old_bundle)
    assert run("activate", "certificate", operator).status == 0


@pytest.mark.parametrize("kind", ["authority", "master"])
def test_what_is_the_operator_s_is_refused_to_others(folder: Folder, kind: str) -> None:
    for verb in ("add", "activate", "remove"):
        ran = run(verb, kind, settings(folder, "shuffler"))
        assert ran.status == 1
        assert "; give the operator's settings file" in ran.err


def test_options_of_a_certificate_are_refused_for_other_kinds(folder: Folder) -> None:
    ran = run("add", "master", settings(folder, "operator"), "--authority", folder.of("operator"))
    assert ran.status == 2
    assert "are for a certificate" in ran.err


def test_settings_of_nobody_are_refused(tmp_path: Path) -> None:
    ran = run("list", tmp_path / "missing.toml")
    assert ran.status == 1
    assert "cannot read" in ran.err


# Identities


def draft_of(folder: Folder, party: str) -> Path:
    (found,) = folder.of(party).glob("succession-*.json")
    return found


def signed_by(folder: Folder, draft: Path, party: Role) -> Ran:
    return run_any("sign", draft, "--key", folder.identity(party), "--json")


def test_an_identity_is_succeeded_by_one_that_three_have_signed(folder: Folder) -> None:
    shuffler = settings(folder, "shuffler")
    before = states(keys("list", shuffler), "identity")["active"]
    for _ in range(2):
        added = keys("add", "identity", shuffler, "--begins", "2096-01-01T00:00:00Z")
        assert added["next"].startswith("the new identity signs from 2096-01-01T00:00:00Z on; have the operator sign")
        # It is shown before anybody else has signed it.
        assert [key["since"] for key in added["keys"] if key["state"] == "pending"] == ["2096-01-01T00:00:00Z"]
    draft = draft_of(folder, "shuffler")
    again = run("add", "identity", shuffler, "--begins", "2097-01-01T00:00:00Z")
    says = f"a succession that begins 2096-01-01T00:00:00Z is pending; remove {draft} first to set another time"
    assert (again.status, says in again.err) == (1, True)
    early = run("activate", "identity", shuffler)
    assert (early.status, "is not signed by the operator; sign it with `hubbub sign`" in early.err) == (1, True)
    other = signed_by(folder, draft, Role.ANALYZER)
    assert (other.status, "is not one of the three signers of" in other.err) == (1, True)
    signed = signed_by(folder, draft, Role.OPERATOR)
    assert (signed.status, signed.json["begins"], signed.json["missing"]) == (0, "2096-01-01T00:00:00Z", [])
    told = keys("activate", "identity", shuffler)["next"]
    assert "into the `successions` of every other party, of front ends and of a standby too" in told
    assert "give a standby the new private key" in told
    assert keys("activate", "identity", shuffler)["next"].startswith("nothing changed: no succession is pending")
    found = keys("list", shuffler)["keys"][:2]
    assert [(key["state"], key["since"], key["until"]) for key in found] == [
        ("active", None, "2096-01-01T00:00:00Z"),
        ("pending", "2096-01-01T00:00:00Z", None),
    ]
    assert (found[0]["fingerprint"], found[1]["fingerprint"]) == (before, signed.json["new"])
    private = next(each for each in folder.of("shuffler").glob("identity-*.pem") if ".pub" not in each.name)
    assert private.stat().st_mode & 0o777 == 0o600
    # The next one follows the one that is pending, and so may not begin before it.
    backward = run("add", "identity", shuffler, "--begins", "2095-01-01T00:00:00Z")
    assert (backward.status, "let the next one begin later" in backward.err) == (1, True)


def test_a_succession_does_not_begin_in_the_past(folder: Folder) -> None:
    ran = run("add", "identity", settings(folder, "analyzer"), "--begins", "2020-01-01T00:00:00Z")
    assert (ran.status, "--begins is 2020-01-01T00:00:00Z, which is past; give a later time" in ran.err) == (2, True)
    assert not list(folder.of("analyzer").glob("succession-*"))


def test_a_retired_identity_is_removed_once_no_round_is_left_that_it_signs(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyzer = settings(folder, "analyzer")
    with monkeypatch.context() as earlier:
        earlier.setattr(time, "time", lambda: 1_577_800_000.0)
        keys("add", "identity", analyzer, "--begins", "2020-01-01T00:00:00Z")
    assert signed_by(folder, draft_of(folder, "analyzer"), Role.OPERATOR).status == 0
    keys("activate", "identity", analyzer)
    found = states(keys("list", analyzer), "identity")
    assert set(found) == {"active", "retired"}
    parties = Identities(*(load_public(folder.trusted("operator", role)) for role in CORE_ROLES))
    long_ago, now = Schedule(1_500_000_000, 3600, 600, 2), Schedule(1_577_836_800 - 3600, 300_000_000, 600, 2)
    for schedule, status in ((now, 1), (long_ago, 0)):
        task = replace(sample_task(Parties.generate()), schedule=schedule, identities=parties)
        (folder.of("analyzer") / "tasks" / "task.json").write_bytes(SignedTask(task).encode())
        ran = run("remove", "identity", analyzer, "--json")
        assert ran.status == status, ran.err
        if status:
            assert "the retired identity signs rounds of" in ran.err
    assert states(ran.json, "identity") == {"active": found["active"]}
    assert fingerprint(Identity.load(folder.identity(Role.ANALYZER)).public) == found["active"]


def test_the_operator_s_succession_is_witnessed_by_the_shuffler(folder: Folder) -> None:
    operator = settings(folder, "operator")
    ran = run("add", "identity", operator)
    assert (ran.status, "the shuffler signs the succession too; name its public key with --witness" in ran.err) == (
        1,
        True,
    )
    keys("add", "identity", operator, "--witness", folder.trusted("operator", Role.SHUFFLER))
    assert signed_by(folder, draft_of(folder, "operator"), Role.SHUFFLER).json["missing"] == []


def test_options_of_an_identity_are_checked(folder: Folder) -> None:
    shuffler = settings(folder, "shuffler")
    ran = run("add", "certificate", shuffler, "--begins", "2096-01-01T00:00:00Z")
    assert (ran.status, "are for an identity" in ran.err) == (2, True)
    ran = run("add", "identity", shuffler, "--begins", "tomorrow")
    assert (ran.status, "give a time in UTC" in ran.err) == (2, True)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    stores = ("--shuffler-store", "postgresql://s@localhost/a", "--analyzer-store", "postgresql://a@localhost/b")
    assert run_any("init", tmp_path / "cluster", "--cluster", "--frontends", "1", *stores).status == 0
    return tmp_path / "cluster"


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    assert run_any("init", tmp_path / "chain", "--hops", "2").status == 0
    return tmp_path / "chain"


@pytest.mark.parametrize(
    ("deployment", "party", "file"),
    [
        ("chain", "hop-2", "hop-2/hop.toml"),
        ("cluster", "frontend", "frontend-1/frontend.toml"),
        ("cluster", "shuffler", "standby/shuffler.toml"),
    ],
)
def test_the_certificate_of_every_service_is_turned_over_as_the_page_says(
    deployment: str, party: str, file: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    top: Path = request.getfixturevalue(deployment)
    service, tls = top / file, (top / file).parent / "tls"
    first = states(keys("list", service), "certificate")["active"]
    old, new = tls / f"{party}.pem", tmp_path / "new"
    assert run_any("certificate", party, "--authority", top / "operator", "--old", old, "--out", new).status == 0
    shutil.copytree(new, tls / "next")
    turned = states(keys("activate", "certificate", service), "certificate")
    assert turned["retired"] == first
    assert states(keys("remove", "certificate", service), "certificate") == {"active": turned["active"]}
    assert keys("list", service)["party"] == party


def test_a_front_end_has_no_identity(cluster: Path) -> None:
    ran = run("add", "identity", cluster / "frontend-1" / "frontend.toml")
    assert (ran.status, ran.err) == (
        1,
        "error: a front end has no identity; give the settings file of the shuffler that it works for\n",
    )
