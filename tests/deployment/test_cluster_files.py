"""Everybody has the files of its folder alone, hardened as the others are."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hubbub.deploy.init.cluster import STANDBY, Cluster
from hubbub.deploy.init.folders import Folder, Placement, initialize
from hubbub.protos.identity.keys import Role
from hubbub.service.settings import checked_database
from support.deployment_files import FRONTENDS, SYSTEMD, Unit, command_of, compose, compose_cluster, stages

LEADERS = (Role.SHUFFLER.value, STANDBY)
SERVICES = (*LEADERS, *FRONTENDS, Role.ANALYZER.value)
DATABASES = {"shuffler-database": "rounds", "analyzer-database": "counts"}
PASSWORDS = "/etc/hubbub/pgpass"
HARDENED = {"user", "read_only", "cap_drop", "security_opt", "tmpfs", "ulimits", "pids_limit", "stop_grace_period"}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """What the guide has made."""
    hosts = {Role.SHUFFLER: ["shuffler"], Role.ANALYZER: ["analyzer"]}
    stores = {
        role: f"postgresql://hubbub_{role.value}@{role.value}-database/hubbub_{role.value}?passfile={PASSWORDS}"
        for role in hosts
    }
    cluster = Cluster(len(FRONTENDS), standby_hosts=["standby"], stores=stores)
    listen = dict.fromkeys(hosts, "0.0.0.0")
    placement = Placement(hosts, listen, Path("/var/lib/hubbub"), cluster=cluster)
    return initialize(tmp_path_factory.mktemp("made") / "deployment", placement)


def settings_name(service: str) -> str:
    return "frontend.toml" if service in FRONTENDS else "analyzer.toml" if service == "analyzer" else "shuffler.toml"


def settings_of(deployment: Folder, service: str) -> dict[str, Any]:
    return tomllib.loads((deployment.of(service) / settings_name(service)).read_text())


@pytest.mark.parametrize("service", [STANDBY, *FRONTENDS])
def test_units_run_what_is_in_the_folder_and_are_hardened_as_the_shufflers(deployment: Folder, service: str) -> None:
    unit, shuffler = Unit.of(service), Unit.of("shuffler")
    own = {"Description", "User", "Group", "ExecStart", "StateDirectory", "StateDirectoryMode"}
    assert [each for each in unit.entries if each[1] not in own] == [
        each for each in shuffler.entries if each[1] not in own
    ]
    settings = f"/etc/hubbub/{service}/{settings_name(service)}"
    assert unit.command == ["/opt/hubbub/bin/hubbub", "shuffler", settings]
    accounts = [line.split() for line in (SYSTEMD / "hubbub.sysusers.conf").read_text().splitlines() if line[:1] == "u"]
    assert unit.one("User") == unit.one("Group") == f"hubbub-{'frontend' if service in FRONTENDS else 'shuffler'}"
    assert unit.one("User") in {words[1] for words in accounts}
    # A front end has nothing to write; who stands by has its keyring in a folder of its own.
    folders = (
        [] if service in FRONTENDS else [str(Path(settings_of(deployment, service)["data"]).relative_to("/var/lib"))]
    )
    assert unit.all("StateDirectory") == folders
    assert unit.all("StateDirectoryMode") == ["0700"] * len(folders)


@pytest.mark.parametrize("service", SERVICES)
def test_containers_have_exactly_the_files_of_their_folder(deployment: Folder, service: str) -> None:
    content = compose_cluster()
    box, folder = content["services"][service], deployment.of(service)
    mounted: dict[str, set[str]] = {}
    for kind in ("secrets", "configs"):
        mounted[kind] = {each["target"] for each in box[kind]}
        for each in box[kind]:
            place = content[kind][each["source"]]["file"].removeprefix("./")
            party = "analyzer" if service == "analyzer" else "shuffler"
            expected = PASSWORDS if place == f"passwords/{party}.pgpass" else f"/etc/hubbub/{place}"
            assert each["target"] == expected
    made = {path for path in folder.rglob("*") if path.is_file() and path.name != "database.sql"}
    private = {path for path in made if not path.stat().st_mode & stat.S_IRGRP}
    named = [
        {f"/etc/hubbub/{path.relative_to(deployment.root)}" for path in some} for some in (private, made - private)
    ]
    assert mounted == {"secrets": named[0] | {PASSWORDS}, "configs": named[1]}
    stores = [] if service in FRONTENDS else [f"{service}-keyring:{settings_of(deployment, service)['data']}"]
    shared = [f"./{service}/{name}:/etc/hubbub/{service}/{name}:ro" for name in ("tasks", "successions")]
    assert box["volumes"] == stores + shared
    owned = " ".join(stages()["operator"].all("RUN"))
    assert all(f" {store.partition(':')[2]}" in owned for store in stores)
    if service != "analyzer":
        assert box["command"] == ["shuffler", f"/etc/hubbub/{service}/{settings_name(service)}"]


@pytest.mark.parametrize("service", [*SERVICES, "operator"])
def test_containers_are_hardened_as_those_of_one_shuffler(service: str) -> None:
    same = compose()["services"]["analyzer"]
    box = compose_cluster()["services"][service]
    assert {key: box[key] for key in HARDENED} == {key: same[key] for key in HARDENED}
    assert not {"environment", "env_file", "privileged", "cap_add", "network_mode", "pid"} & set(box)
    kind = "shuffler" if service in (*LEADERS, *FRONTENDS) else service
    assert box["image"] == f"hubbub-{command_of(kind)}"


@pytest.mark.parametrize("name", DATABASES)
def test_databases_are_hardened_and_reached_by_their_party_alone(deployment: Folder, name: str) -> None:
    content, party = compose_cluster(), name.partition("-")[0]
    box = content["services"][name]
    assert (box["user"], box["read_only"], box["cap_drop"]) == ("postgres", True, ["ALL"])
    assert box["networks"] == [DATABASES[name]]
    assert content["networks"][DATABASES[name]] == {"internal": True}
    assert "ports" not in box
    # The account and the database that the settings name, and a password that is in a file.
    account = box["environment"]["POSTGRES_USER"]
    store = settings_of(deployment, party)["store"]
    assert (
        checked_database(store)
        == f"postgresql://{account}@{name}/{box['environment']['POSTGRES_DB']}?passfile={PASSWORDS}"
    )
    assert box["environment"]["POSTGRES_PASSWORD_FILE"] == f"/run/secrets/{party}-password"
    assert box["secrets"] == [f"{party}-password"]


def test_each_network_is_one_trust_boundary() -> None:
    content = compose_cluster()
    boxes = content["services"].items()
    on = {name: {each for each, box in boxes if name in box["networks"]} for name in content["networks"]}
    assert on == {
        "devices": {*FRONTENDS},
        "rounds": {*LEADERS, *FRONTENDS, "shuffler-database"},
        "leaders": {*LEADERS, *FRONTENDS},
        "delivery": {*LEADERS, "analyzer"},
        "counts": {"analyzer", "analyzer-database"},
        "operator": {*LEADERS, "analyzer", "operator"},
    }
    ways_out = {name for name, network in content["networks"].items() if network != {"internal": True}}
    assert ways_out == {"devices", "operator"}


def test_ports_are_those_of_the_settings_and_devices_reach_frontends_alone(deployment: Folder) -> None:
    everywhere = set()
    for service in SERVICES:
        settings = settings_of(deployment, service)
        ports = {value.rpartition(":")[2] for key, value in settings.items() if key.endswith("listen") and value}
        for entry in compose_cluster()["services"][service]["ports"]:
            *address, outer, inner = entry.split(":")
            assert outer == inner
            assert inner in ports
            everywhere |= set() if address == ["127.0.0.1"] else {service}
    assert everywhere == set(FRONTENDS)


@pytest.mark.parametrize("service", LEADERS)
def test_a_leader_is_asked_whether_its_port_is_open(deployment: Folder, service: str) -> None:
    """Who stands by does not serve, and must not be taken for ill."""
    (_, program, _, code) = compose_cluster()["services"][service]["healthcheck"]["test"]
    port = settings_of(deployment, service)["control_listen"].rpartition(":")[2]
    assert program == "/opt/hubbub/bin/python"
    assert f"('127.0.0.1', {port})" in code


def test_everything_that_is_named_is_used_and_there() -> None:
    content = compose_cluster()
    boxes = content["services"].values()
    for kind in ("secrets", "configs"):
        given = [each if isinstance(each, str) else each["source"] for box in boxes for each in box.get(kind, [])]
        assert set(given) == set(content[kind])
    volumes = {each.partition(":")[0] for box in boxes for each in box.get("volumes", []) if each[0] != "."}
    assert volumes == set(content["volumes"])
