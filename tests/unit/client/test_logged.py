"""A task that demands a log: whoever is given it without its proof does nothing, by whichever way it was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Device, Fleet, NotLogged, SignatureError, UsageError
from hubbub.protos.identity.keys import save_public
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.transparency_log.proofs import LoggedProof
from support.fake_shuffler import FakeShuffler
from support.logged_tasks import demanding, proof_of
from support.messages import DEMANDS_LOG, NOT_SHOWN_TO_BE_IN_LOG
from support.samples import Parties, sample_task, signed

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}


@pytest.fixture(scope="module")
def task(parties: Parties) -> Task:
    """The fake shuffler's task, too."""
    return demanding(sample_task(parties))


@pytest.fixture(scope="module")
def document(task: Task, parties: Parties) -> SignedTask:
    return signed(task, parties)


@pytest.fixture(scope="module")
def proof(document: SignedTask) -> bytes:
    return proof_of(document.encode()).encode()


async def test_without_its_proof_nothing_is_drawn_stored_or_asked(
    device: Callable[..., Device], fleet: Callable[..., Fleet], shuffler: FakeShuffler, settings: dict[str, Any]
) -> None:
    for make in (device, fleet):
        with pytest.raises(NotLogged, match=rf"task flights {DEMANDS_LOG} stats.example/log, signed by 2"):
            make(random=_never)
    assert not settings["state"].exists()
    assert not shuffler.held
    assert issubclass(NotLogged, SignatureError)


def _never(count: int) -> bytes:
    raise AssertionError(f"{count} random bytes were drawn")


async def test_with_its_proof_it_counts(device: Callable[..., Device], shuffler: FakeShuffler, proof: bytes) -> None:
    receipt = await device(log_proof=proof).submit(ANSWERS)
    assert receipt.submission_id in shuffler.held


async def test_a_fleet_counts_with_the_proof(fleet: Callable[..., Fleet], shuffler: FakeShuffler, proof: bytes) -> None:
    assert (await fleet(log_proof=proof).submit_many([("a", ANSWERS)])).accepted == 1
    assert len(shuffler.held) == 1


async def test_a_proof_is_bytes_and_of_these_very_bytes(
    device: Callable[..., Device], proof: bytes, parties: Parties, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="log_proof is of type PosixPath"):
        device(log_proof=tmp_path)
    with pytest.raises(NotLogged, match=rf"{NOT_SHOWN_TO_BE_IN_LOG} .*: the document is not entry 1"):
        device(log_proof=proof_of(b"another").encode())
    with pytest.raises(NotLogged, match="not a proof"):
        device(log_proof=b"no proof")
    # Beside a task that demands none it is not looked at: an application hands on what it was given.
    plain = signed(sample_task(parties), parties).encode()
    assert device(task=plain, log_proof=proof).task.log is None


@pytest.fixture
def files(settings: dict[str, Any], proof: bytes, tmp_path: Path) -> dict[str, str]:
    """The variables of a device, by which files have what it is made of."""
    (tmp_path / "task.json").write_bytes(settings["task"])
    (tmp_path / "task.tlog-proof").write_bytes(proof)
    for role in ("operator", "shuffler"):
        save_public(tmp_path / f"{role}.pem", settings[f"{role}_key"])
    given = {name: str(tmp_path / f"{name}.pem") for name in ("operator", "shuffler")}
    return {
        "HUBBUB_TASK": str(tmp_path / "task.json"),
        "HUBBUB_OPERATOR_KEY": given["operator"],
        "HUBBUB_SHUFFLER_KEY": given["shuffler"],
        "HUBBUB_STATE": str(tmp_path / "state.db"),
        "HUBBUB_AUTHORITY": str(settings["authority"]),
        "HUBBUB_SHUFFLER": "127.0.0.1:1",
    }


def test_a_variable_or_a_key_of_the_settings_file_names_the_proof(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NotLogged, match="give it as log_proof"):
        Device.from_settings(environment=files)
    by_variable = files | {"HUBBUB_LOG_PROOF": str(tmp_path / "task.tlog-proof")}
    assert Device.from_settings(environment=by_variable).task.log is not None
    (tmp_path / "client.toml").write_text('log_proof = "task.tlog-proof"\n')
    assert Device.from_settings(tmp_path / "client.toml", environment=files).task.log is not None
    assert Fleet.from_settings(tmp_path / "client.toml", environment=files).task.log is not None


def test_a_file_that_is_no_proof_is_named(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match=r"HUBBUB_LOG_PROOF: .*task.json: not a proof"):
        Device.from_settings(environment=files | {"HUBBUB_LOG_PROOF": files["HUBBUB_TASK"]})
    assert LoggedProof.decode((tmp_path / "task.tlog-proof").read_bytes()).index == 1
