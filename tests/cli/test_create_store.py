"""`hubbub shuffler|analyzer SETTINGS.toml --create-store`: the one way to a new store; without it none is made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hubbub.deploy.init.folders import Placement, initialize
from hubbub.deploy.init.hops import Hops, change
from hubbub.service.postgres.server_errors import shown
from support import postgres
from support.cli import hubbub, hubbub_here

SERVICES = ("shuffler", "hop", "analyzer")


@pytest.mark.parametrize("service", SERVICES)
def test_a_store_is_made_once_and_not_replaced(tmp_path: Path, service: str) -> None:
    party = "hop-2" if service == "hop" else service
    folder = initialize(tmp_path / "deployment", Placement(hops=Hops(1))).of(party)
    words, store = (service, folder / f"{service}.toml", "--create-store"), folder / "data" / f"{service}.db"
    made = hubbub(*words, "--json")
    assert (made.status, made.err) == (0, "")
    assert made.json == {"service": service, "store": str(store)}
    again = hubbub(*words)
    assert again.status == 1
    assert f"error: {store} exists, so nothing was created" in again.err
    shutil.rmtree(folder / "data")
    assert f"created the empty store {store}; now start the {service}" in hubbub(*words).out


@pytest.mark.parametrize("service", ["shuffler", "analyzer"])
def test_of_a_database_the_tables_and_the_keyring_are_named(tmp_path: Path, service: str) -> None:
    folder, address = initialize(tmp_path / "deployment", Placement()).of(service), postgres.new_database()
    settings, keyring = folder / f"{service}.toml", folder / "data" / "keyring.db"
    change(settings, "store", address)
    database = shown(address)
    made = hubbub_here(service, settings, "--create-store")
    told = f"{database} has the tables of the store now; created its empty keyring {keyring}; now start the {service}\n"
    assert (made.status, made.out) == (0, told)
    if service == "shuffler":  # an analyzer's needs its tasks
        checked = hubbub_here(service, settings, "--check-store")
        assert (checked.status, checked.out) == (0, f"{database} is whole, and so is its keyring {keyring}\n")


def test_check_store_says_what_is_whole_and_what_is_not(tmp_path: Path) -> None:
    folder = initialize(tmp_path / "deployment", Placement()).of("analyzer")
    settings, store = folder / "analyzer.toml", folder / "data" / "analyzer.db"
    hubbub("analyzer", settings, "--create-store")
    assert f"{store} is whole" in hubbub("analyzer", settings, "--check-store").out
    content = bytearray(store.read_bytes())
    content[8192:8200] = b"\xff" * 8
    store.write_bytes(content)
    checked = hubbub("analyzer", settings, "--check-store")
    assert (checked.status, f"error: {store} is damaged" in checked.err) == (1, True)
