"""`hubbub log`: what each command prints and refuses; how the log itself works is tested beside its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.deploy.transparency_log.append import add_documents
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint
from hubbub.protos.transparency_log.proofs import SplitViewProof
from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole
from support.cli import Ran, hubbub_here
from support.logged_tasks import demanding
from support.messages import HAS_NOT_SIGNED_CHECKPOINT, TOO_FEW_WITNESSES
from support.samples import sample_task, signed
from support.transparency_logs import LOG, LOG_KEY, NAME, NOW, WITNESS_KEYS, WITNESSES, MemoryDisk, log_of, saved
from vectors.make_signed import FOLDER, PARTIES

TASK, CERTIFICATE, SUCCESSION = (FOLDER / f"hubbub-{kind}-1.json" for kind in ("task", "certificate", "succession"))
KEY, WITNESS = LOG_KEY.encode(), WITNESS_KEYS[0].encode()
LOOK = ("--log-key", KEY, "--name", "w0.example", "--key", "witness.pem", "--state", "state")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log with a task and a certificate, its key, and that of a witness."""
    saved(LOG, tmp_path / "log.pem")
    saved(WITNESSES[0], tmp_path / "witness.pem")
    add_documents(log_of(tmp_path / "log"), LOG, [TASK.read_bytes(), CERTIFICATE.read_bytes()], MemoryDisk())
    return tmp_path


def log(folder: Path, *words: str | Path) -> Ran:
    return hubbub_here("log", *words, folder=folder)


def test_a_log_is_made_with_its_key_and_name(folder: Path) -> None:
    made = log(folder, "init", "new", "--name", NAME, "--key", "log.pem", "--json")
    assert made.json == {"log": "new", "name": NAME, "key": KEY}
    again = log(folder, "init", "new", "--name", NAME, "--key", "log.pem")
    assert (again.status, again.err) == (
        2,
        "error: new is not empty, and a log is made in an empty folder; name a new one\n",
    )


def test_documents_are_added_all_or_none(folder: Path) -> None:
    before = (folder / "log" / "checkpoint").read_bytes()
    ticket = FOLDER / "hubbub-ticket-1.json"
    refused = log(folder, "add", "log", SUCCESSION, ticket, "--key", "log.pem")
    assert refused.status == 1
    assert f"{ticket}: " in refused.err
    assert (folder / "log" / "checkpoint").read_bytes() == before
    added = log(folder, "add", "log", SUCCESSION, TASK, "--key", "log.pem", "--json").json
    assert (added["size"], added["new"], [each["index"] for each in added["entries"]]) == (3, 1, [2, 0])
    other = log(folder, "add", "log", SUCCESSION, "--key", "witness.pem")
    assert HAS_NOT_SIGNED_CHECKPOINT in other.err
    for words in ((), ("--key", "log.pem", "--witness", WITNESS)):
        both = log(folder, "add", "log", SUCCESSION, *words)
        assert (both.status, both.err) == (
            2,
            (
                "error: --key and --witness are for two uses; give --key to add documents, or --witness to add "
                "signatures\n"
            ),
        )


def test_a_witnessed_proof_is_made_and_checked(folder: Path) -> None:
    first = log(folder, "witness", "log", *LOOK, "--out", "witnessed", "--first", "--json")
    assert first.json == {"size": 2, "before": None, "key": WITNESS, "state": "state"}
    assert log(folder, "add", "log", "witnessed", "--witness", WITNESS, "--json").json["witnesses"] == ["w0.example"]
    log(folder, "prove", "log", TASK, "--out", "proof")
    checked = log(folder, "check", "proof", TASK, "--log-key", KEY, "--witness", WITNESS, "--json").json
    assert (checked["verified"], checked["index"], list(checked["witnesses"])) == (True, 0, ["w0.example"])
    another = log(folder, "check", "proof", CERTIFICATE, "--log-key", KEY)
    assert (another.status, another.out) == (1, "")
    assert "error: proof: the document is not entry 0 of the log stats.example/log" in another.err
    two = ("--witness", WITNESS, "--witness", WITNESS_KEYS[1].encode())
    assert f"1 {TOO_FEW_WITNESSES}" in log(folder, "check", "proof", TASK, "--log-key", KEY, *two).err
    assert log(folder, "check", "proof", TASK, "--log-key", KEY, *two, "--witnesses", "1").status == 0
    for words in (("check", "proof", "--log-key", KEY), ("check", "log", TASK, "--log-key", KEY)):
        assert log(folder, *words).status == 2
    assert log(folder, "prove", "log", "--out", "proof").status == 2


def test_a_proof_that_no_witness_signed_is_made_with_a_warning(folder: Path) -> None:
    told = log(folder, "prove", "log", CERTIFICATE, "--out", "proof")
    assert (told.status, told.out) == (0, "written to proof\n")
    assert told.err.startswith("warning: no witness has signed this checkpoint, and whoever asks for one refuses the")
    assert log(folder, "prove", "log", "--since", "log/checkpoint", "--out", "proof", "--json").json["warning"]
    log(folder, "witness", "log", *LOOK, "--out", "witnessed", "--first")
    log(folder, "add", "log", "witnessed", "--witness", WITNESS)
    assert log(folder, "prove", "log", CERTIFICATE, "--out", "proof").err == ""
    assert log(folder, "prove", "log", CERTIFICATE, "--out", "proof", "--json").json["warning"] is None


def test_a_proof_with_fewer_witnesses_than_its_task_asks_for_is_made_with_a_warning(folder: Path) -> None:
    """POLICY asks for two of three."""
    (folder / "task.json").write_bytes(signed(demanding(sample_task(PARTIES)), PARTIES).encode())
    log(folder, "add", "log", "task.json", "--key", "log.pem")
    for number in (0, 1):
        saved(WITNESSES[number], folder / f"w{number}.pem")
        look = (
            "--log-key",
            KEY,
            "--name",
            f"w{number}.example",
            "--key",
            f"w{number}.pem",
            "--state",
            f"state{number}",
        )
        log(folder, "witness", "log", *look, "--out", "witnessed", "--first")
        log(folder, "add", "log", "witnessed", "--witness", WITNESS_KEYS[number].encode())
        told = log(folder, "prove", "log", "task.json", "--out", "proof").err
        lacks = "warning: the task asks for another proof: 1 of the known witnesses have signed the checkpoint of 3"
        assert told.startswith(lacks) if number == 0 else told == ""


def test_a_witness_is_counted_by_its_key(folder: Path) -> None:
    """In `check` of a proof and of a whole log, and in `add`; `show` counts nobody, and has the id of each key."""
    alias = NoteKey("other.example", NoteRole.WITNESS, WITNESSES[0].public)
    twin = NoteKey(WITNESS_KEYS[0].name, NoteRole.WITNESS, WITNESSES[1].public)
    signed = SignedCheckpoint.decode((folder / "log" / "checkpoint").read_bytes())
    note = signed.witnessed(WITNESS_KEYS[0], WITNESSES[0], NOW).witnessed(alias, WITNESSES[0], NOW + 1)
    (folder / "witnessed").write_bytes(note.witnessed(twin, WITNESSES[1], NOW).encode())
    both = ("--witness", WITNESS, "--witness", alias.encode())
    assert log(folder, "add", "log", "witnessed", *both, "--json").json["witnesses"] == ["other.example"]
    log(folder, "add", "log", "witnessed", "--witness", twin.encode())
    names = [f"{each.name}+{each.id.hex()}" for each in (LOG_KEY, WITNESS_KEYS[0], alias, twin)]
    assert log(folder, "show", "log", "--json").json["signers"] == names
    log(folder, "prove", "log", TASK, "--out", "proof")
    for what in (("proof", TASK), ("log",)):
        words = ("check", *what, "--log-key", KEY)
        assert log(folder, *words, *both, "--json").json["witnesses"] == {"other.example": NOW + 1}
        two = log(folder, *words, *both, "--witnesses", "2")
        assert (two.status, two.out) == (1, "")
        assert "2 witnesses must have signed, but 1 are known, each by its key; give the key of each" in two.err
        twins = log(folder, *words, "--witness", WITNESS, "--witness", twin.encode(), "--witnesses", "1")
        assert "two keys are given for witness w0.example, and one party counts once" in twins.err


def test_two_views_are_reported_with_both_checkpoints(folder: Path) -> None:
    log(folder, "witness", "log", *LOOK, "--first")
    add_documents(log_of(folder / "other"), LOG, [CERTIFICATE.read_bytes(), TASK.read_bytes()], MemoryDisk())
    found = log(folder, "witness", "other", *LOOK)
    assert found.status == 1
    assert "error: log stats.example/log shows two views: its 2 entries do not begin with the 2 that" in found.err
    (evidence,) = folder.glob("state.views-2-2-*")
    assert f"both checkpoints are in {evidence.name}" in found.err
    proof = SplitViewProof.decode(evidence.read_bytes())
    assert proof.newer == SignedCheckpoint.decode((folder / "other" / "checkpoint").read_bytes())
    told = log(folder, "check", evidence.name, "--log-key", KEY, "--json")
    assert told.status == 1
    assert told.json["error"].endswith(
        "log stats.example/log has shown two views: its checkpoints of 2 and 2 entries contradict each other, and it "
        "has signed both"
    )


def test_a_log_is_shown_and_checked_whole(folder: Path) -> None:
    shown = log(folder, "show", "log", "--last", "1", "--json").json
    assert (shown["log"], shown["size"], shown["signers"]) == (NAME, 2, [f"{NAME}+{LOG_KEY.id.hex()}"])
    assert [each["index"] for each in shown["entries"]] == [1]
    assert log(folder, "show", "log").out.splitlines()[2].startswith("entry 0: task flights (")
    assert log(folder, "check", "log", "--log-key", KEY).out.splitlines() == [
        "all 2 entries of log stats.example/log are as its checkpoint has them",
        "no witness was asked for: the log may show others another view",
    ]
    (folder / "log" / "entry" / "001.json").write_bytes(SUCCESSION.read_bytes())
    assert (
        "entry/001.json is not the document that was logged there" in log(folder, "check", "log", "--log-key", KEY).err
    )


def test_bad_words_are_refused_before_anything_is_done(folder: Path) -> None:
    for place in ("http://stats.example/log", "https://"):
        assert "is no address of a log; give one as https://stats.example/log" in log(folder, "show", place).err
    assert "is not the key of a log" in log(folder, "check", "log", "--log-key", "log.pem").err
    assert "is the key of a witness, not of a log" in log(folder, "check", "log", "--log-key", WITNESS).err
    assert "there is no state, so what was signed last is not known" in log(folder, "witness", "log", *LOOK).err
    assert "the log has no file nothing/checkpoint" in log(folder, "show", "nothing").err


def test_a_server_needs_a_log_and_a_certificate(folder: Path) -> None:
    words = ("--certificate", "log.pem", "--private-key", "log.pem")
    assert "the log has no file nothing/checkpoint" in log(folder, "serve", "nothing", *words).err
    assert "are no certificate and its private key" in log(folder, "serve", "log", *words).err
