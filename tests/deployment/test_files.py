"""What the files of a deployment name is there: commands, options, paths, ports, accounts; and they are hardened."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.deploy.init.cluster import STANDBY, Cluster
from hubbub.deploy.init.folders import Folder, Placement, initialize, sample
from hubbub.deploy.init.hops import Hops
from hubbub.protos.identity.keys import Identity, Role
from hubbub.service.transport.ports import DRAIN_SECONDS
from support.commands import misunderstood
from support.deployment_files import (
    CONTAINERS,
    FRONTENDS,
    GUIDE,
    GUIDES,
    HOPS,
    HOWTO,
    SERVICES,
    SYSTEMD,
    Unit,
    command_of,
    commands_in,
    compose,
    stages,
)
from support.source_tree import FOLDERS

CONTAINERS_PAGE = HOWTO / "containers.md"
PROGRAM = "/opt/hubbub/bin/hubbub"
PATHS = re.compile(r"(?!\S*\*)/etc/hubbub/[A-Za-z0-9_./-]*[A-Za-z0-9_]|/var/lib/hubbub/[A-Za-z0-9_./-]*[A-Za-z0-9_]")
RUNNING = (*SERVICES, *HOPS)
TEXTS = [*GUIDES, *sorted(SYSTEMD.iterdir()), *sorted(CONTAINERS.iterdir())]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """What the guide has made, with the services' own identities put in their places and a task given out."""
    folder = tmp_path_factory.mktemp("made")
    keys = {}
    for role in (Role.SHUFFLER, Role.ANALYZER):
        identity = Identity.generate()
        identity.save(folder / f"{role.value}.pem")
        keys[role] = folder / f"{role.value}.pub.pem"
        identity.save_public(keys[role])
    hops = Hops(len(HOPS))
    placement = Placement(data=Path("/var/lib/hubbub"), public_keys=keys, hops=hops, proxy=True)
    made = initialize(folder / "deployment", placement)
    for role in keys:
        shutil.move(folder / f"{role.value}.pem", made.identity(role))
    # What a cluster has beside them, and the files of passwords that its operator makes: one in containers.
    cluster = initialize(folder / "cluster", Placement(data=Path("/var/lib/hubbub"), cluster=Cluster(len(FRONTENDS))))
    for name in (STANDBY, *FRONTENDS):
        shutil.copytree(cluster.of(name), made.of(name))
    for name in ("pgpass", "hubbub-shuffler.pgpass", "hubbub-frontend.pgpass", "hubbub-analyzer.pgpass"):
        (made.root / name).touch(0o600)
    (made.root / "database-authority.pem").touch()
    # The front end that is added later.
    shutil.copytree(made.of(FRONTENDS[0]), made.of("frontend-3"))
    # Where the next TLS certificate waits.
    for name in (Role.SHUFFLER.value, STANDBY, *FRONTENDS, *HOPS):
        (made.of(name) / "tls" / "next").mkdir()
    return made


# Commands


def commands() -> Iterator[tuple[str, list[str]]]:
    """Everything that is said to be run, with where it stands."""
    for path in (*GUIDES, *sorted(CONTAINERS.glob("compose*.yaml"))):
        for words in commands_in(path.read_text()):
            yield path.name, words
    for service in RUNNING:
        assert Unit.of(service).command[0] == PROGRAM
        yield f"{service}'s unit", Unit.of(service).command[1:]
    for name, stage in stages().items():
        if stage.all("CMD"):
            yield f"{name}'s image", stage.words("CMD")
        if stage.all("HEALTHCHECK"):
            assert stage.words("HEALTHCHECK")[0] == PROGRAM
            yield f"{name}'s health", stage.words("HEALTHCHECK")[1:]


COMMANDS = list(commands())


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[f"{where}: {words[0]}" for where, words in COMMANDS])
def test_every_command_with_its_options_exists(where: str, words: list[str]) -> None:
    assert not misunderstood(words), where


@pytest.mark.parametrize(
    "words",
    [
        ["shufler", "x.toml"],
        ["health", "shuffler", "x.toml", "--timeout", "3"],
        ["sign", "--key", "identity.pem"],
        ["keys", "turn", "identity"],
        ["keys", "add", "identity"],
    ],
    ids=["command", "option", "missing", "part", "missing from a part"],
)
def test_the_check_itself_sees_what_does_not_exist(words: list[str]) -> None:
    assert misunderstood(words)


def test_the_guide_uses_every_command_that_a_deployment_needs() -> None:
    named = {words[0] for where, words in COMMANDS if where == GUIDE.name}
    assert named >= {"identity", "init", "plan", "sign", "health", "submit", "status", "close", "results", "verify"}


# Paths


def named_paths(text: str) -> set[str]:
    return set(PATHS.findall(text))


@pytest.mark.parametrize("path", TEXTS, ids=[path.name for path in TEXTS])
def test_every_path_is_one_that_init_made_or_settings_name(path: Path, deployment: Folder) -> None:
    stores = {stores_of(deployment, service) for service in RUNNING} | {f"/var/lib/hubbub/{STANDBY}"}
    for named in named_paths(path.read_text()):
        below = Path(named)
        if named.startswith("/etc/hubbub/"):
            assert (deployment.root / below.relative_to("/etc/hubbub")).exists(), named
        else:
            assert named in stores


def stores_of(deployment: Folder, service: str) -> str:
    return str(tomllib.loads((deployment.of(service) / f"{command_of(service)}.toml").read_text())["data"])


@pytest.mark.parametrize("service", RUNNING)
def test_the_units_state_directory_is_the_store_of_the_settings(deployment: Folder, service: str) -> None:
    assert f"/var/lib/{Unit.of(service).one('StateDirectory')}" == stores_of(deployment, service)
    name = command_of(service)
    assert Unit.of(service).command == [PROGRAM, name, f"/etc/hubbub/{service}/{name}.toml"]


@pytest.mark.parametrize("service", RUNNING)
def test_containers_are_given_exactly_the_files_of_their_party(deployment: Folder, service: str) -> None:
    """Private files as secrets, others as configs, each at the path that the same party's systemd host has it."""
    content = compose(service)
    mounted = mounts(content, service)
    folder = deployment.of(service)
    made = {path for path in folder.rglob("*") if path.is_file()}
    private = {path for path in made if path.stat().st_mode & stat.S_IRGRP == 0}
    assert private == {folder / "identity.pem", folder / "tls" / f"{service}.key"}
    assert mounted["secrets"] == {f"/etc/hubbub/{path.relative_to(deployment.root)}" for path in private}
    assert mounted["configs"] == {f"/etc/hubbub/{path.relative_to(deployment.root)}" for path in made - private}
    (store, *folders) = content["services"][command_of(service)]["volumes"]
    # A hop's folder has the name of its place, so the folder around it is the volume.
    volume, data = store.split(":")
    assert volume == f"{command_of(service)}-store"
    assert stores_of(deployment, service) == (f"{data}/{service}" if service in HOPS else data)
    owned = [run for run in stages()["operator"].all("RUN") if f" {data}" in run]
    assert owned, f"a volume at {data} would belong to root"
    names = ("tasks", "successions")
    assert folders == [f"./{service}/{name}:/etc/hubbub/{service}/{name}:ro" for name in names]


def mounts(content: dict[str, Any], service: str) -> dict[str, set[str]]:
    """Where a service's secrets and configs are mounted, each checked to come from the like-named file of its party."""
    found: dict[str, set[str]] = {}
    for kind in ("secrets", "configs"):
        given = content["services"][command_of(service)][kind]
        found[kind] = {each["target"] for each in given}
        for each in given:
            assert each["target"] == "/etc/hubbub/" + content[kind][each["source"]]["file"].removeprefix("./")
            assert each["target"].startswith(f"/etc/hubbub/{service}/")
    return found


def test_the_operators_container_has_what_its_settings_name_and_no_identity(deployment: Folder) -> None:
    mounted = mounts(compose(), "operator")
    tls = tomllib.loads((deployment.of("operator") / "operator.toml").read_text())["tls"]
    assert mounted["secrets"] == {f"/etc/hubbub/operator/{tls['key']}"}
    assert mounted["configs"] == {
        "/etc/hubbub/operator/operator.toml",
        f"/etc/hubbub/operator/{tls['authority']}",
        f"/etc/hubbub/operator/{tls['certificate']}",
    }


@pytest.mark.parametrize(
    ("service", "volumes"),
    [("shuffler", ["analyzer-store", "shuffler-store"]), ("hop-2", ["hop-store"])],
    ids=["compose.yaml", "compose.hop.yaml"],
)
def test_every_secret_and_config_is_used_by_one_party(service: str, volumes: list[str]) -> None:
    content = compose(service)
    for kind in ("secrets", "configs"):
        used = [each["source"] for service in content["services"].values() for each in service[kind]]
        assert sorted(used) == sorted(content[kind])
    assert sorted(content["volumes"]) == volumes


# Ports


def ports_in_settings(service: str) -> set[int]:
    settings = tomllib.loads(sample(f"{command_of(service)}.toml"))
    # An empty one opens no port: devices that show certificates have one only where the settings say so.
    return {int(value.rpartition(":")[2]) for key, value in settings.items() if key.endswith("listen") and value}


@pytest.mark.parametrize("service", [*SERVICES, "hop-2"])
def test_images_expose_and_the_compose_file_publishes_the_ports_of_the_settings(service: str) -> None:
    (exposed,) = stages()[command_of(service)].all("EXPOSE")
    assert {int(port) for port in exposed.split()} == ports_in_settings(service)
    published = [entry.split(":") for entry in compose(service)["services"][command_of(service)]["ports"]]
    assert {int(entry[-1]) for entry in published} <= ports_in_settings(service)
    everywhere = {int(entry[-1]) for entry in published if len(entry) == 2}
    # The analyzer's shuffler is beside it in that file, and the proxy beside the shuffler; a hop's is elsewhere.
    assert everywhere == {"shuffler": set(), "analyzer": set(), "hop-2": {7501}}[service]
    assert all(entry[0] == "127.0.0.1" for entry in published if len(entry) == 3)


def test_a_later_hop_publishes_the_port_of_its_settings(deployment: Folder) -> None:
    for service in HOPS:
        listen = tomllib.loads((deployment.of(service) / "hop.toml").read_text())["listen"].rpartition(":")[2]
        assert compose(service)["services"]["hop"]["ports"] == [f"{listen}:{listen}"]


def test_the_guide_lists_exactly_the_ports_there_are() -> None:
    listed = re.findall(r"^\| (shuffler|analyzer|hop-2) \| ([0-9]+) \|", GUIDE.read_text(), re.M)
    services = (*SERVICES, "hop-2")
    assert sorted(listed) == sorted((service, str(port)) for service in services for port in ports_in_settings(service))


# Units


def box(service: str) -> dict[str, Any]:
    """A service's container."""
    found: dict[str, Any] = compose(service)["services"][command_of(service)]
    return found


@pytest.mark.parametrize("service", RUNNING)
def test_units_run_hardened_under_an_account_of_their_own(service: str) -> None:
    unit = Unit.of(service)
    accounts = [line.split() for line in (SYSTEMD / "hubbub.sysusers.conf").read_text().splitlines() if line[:1] == "u"]
    assert unit.one("User") == unit.one("Group") == f"hubbub-{command_of(service)}"
    assert unit.one("User") in {words[1] for words in accounts}
    expected = {
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "LimitCORE": "0",
        "MemoryDenyWriteExecute": "yes",
        "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
        "Restart": "on-failure",
        "UMask": "0077",
        "StateDirectoryMode": "0700",
    }
    assert {key: unit.one(key) for key in expected} == expected
    assert not unit.all("Environment")
    assert not unit.all("EnvironmentFile")


@pytest.mark.parametrize("service", SERVICES)
def test_the_page_on_spark_lets_a_unit_start_a_jvm(service: str) -> None:
    """Java needs memory that is writable and executable; the units forbid it to every other process."""
    assert Unit.of(service).all("MemoryDenyWriteExecute") == ["yes"]
    assert "MemoryDenyWriteExecute=no" in (GUIDE.parent / "spark.md").read_text()


def test_a_hop_is_as_hardened_as_the_first_shuffler() -> None:
    """All that is not the service's name is the same, in the unit and in the container."""
    own = {"Description", "User", "Group", "ExecStart", "StateDirectory"}
    units = [[each for each in Unit.of(service).entries if each[1] not in own] for service in ("shuffler", "hop-2")]
    assert units[0] == units[1]
    own = {"image", "command", "healthcheck", "networks", "ports", "volumes", "configs", "secrets"}
    first, hop = ({key: value for key, value in box(each).items() if key not in own} for each in ("shuffler", "hop-2"))
    assert first == hop


@pytest.mark.parametrize("service", RUNNING)
def test_sigterm_reaches_the_service_alone_and_leaves_time_to_drain(service: str) -> None:
    """Signalled too, the processes that open envelopes would end before the calls that need them."""
    unit = Unit.of(service)
    assert (unit.one("KillMode"), unit.one("KillSignal")) == ("mixed", "SIGTERM")
    assert int(unit.one("TimeoutStopSec")) >= 3 * DRAIN_SECONDS
    assert int(box(service)["stop_grace_period"].removesuffix("s")) >= 3 * DRAIN_SECONDS
    assert stages()[command_of(service)].all("STOPSIGNAL") == ["SIGTERM"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
@pytest.mark.parametrize("service", [*SERVICES, "hop-2"])
def test_systemd_takes_the_unit_and_finds_little_exposed(tmp_path: Path, service: str) -> None:
    name = "hop@hop-2" if service == "hop-2" else service
    unit = tmp_path / f"hubbub-{name}.service"
    unit.write_text(Unit.of(service).path.read_text().replace(PROGRAM, str(Path(sys.executable).parent / "hubbub")))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(unit)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "").replace("NoNewPrivileges=yes", "Bad=1"))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "Bad" in verified.stderr


@pytest.mark.parametrize("path", sorted(SYSTEMD.glob("*.service")), ids=lambda path: path.name)
def test_a_units_page_has_the_place_of_the_unit_and_of_its_settings(path: Path) -> None:
    text = path.read_text()
    (page,) = re.findall(r"docs/howto/([\w-]+)\.md has the place of each file", text)
    shown = (HOWTO / f"{page}.md").read_text()
    assert path.stem.rstrip("@") in shown
    folder = re.findall(r"/etc/hubbub/([\w-]+|%i)/", text)[0].replace(
        "%i", {"hop": "hop-2"}.get(path.name[7:10], "frontend-1")
    )
    assert f"/etc/hubbub/{folder}" in shown


# Images and networks


def test_images_are_without_root_and_without_secrets() -> None:
    built = stages()
    assert list(built) == ["build", "operator", "shuffler", "analyzer", "hop"]
    for name in ("build", "operator"):
        assert re.fullmatch(r"python:3\.[0-9]+-slim-[a-z]+", built[name].base)
    assert built["operator"].all("USER") == ["10001:10001"]
    assert all(built[command_of(service)].base == "operator" for service in RUNNING)
    assert not any(stage.all("ARG") or stage.all("ADD") for stage in built.values())
    assert [copied for stage in built.values() for copied in stage.all("COPY")] == [
        "deploy/containers/requirements.txt /requirements.txt",
        ". /source",
        "--from=build /opt/hubbub /opt/hubbub",
    ]
    assert built["operator"].words("ENTRYPOINT") == [PROGRAM]


def test_the_build_sees_the_sources_of_the_wheel_and_nothing_else() -> None:
    lines = [line for line in (CONTAINERS / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] != "#"]
    taken = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    assert taken == {*FOLDERS, "src", "pyproject.toml", "setup.py", "README.md"}
    assert {"**/*.pem", "**/*.key"} <= set(lines)


@pytest.mark.parametrize("service", [*RUNNING, "operator"])
def test_containers_run_hardened(service: str) -> None:
    container = box(service)
    assert container["user"] == stages()["operator"].all("USER")[0]
    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert container["ulimits"]["core"] == 0
    assert all("noexec" in entry for entry in container["tmpfs"])
    assert not {"environment", "env_file", "privileged", "cap_add", "network_mode", "pid"} & set(container)
    assert container["image"] == f"hubbub-{command_of(service)}"


@pytest.mark.parametrize("hop", HOPS)
def test_a_hops_container_runs_and_is_asked_with_the_settings_of_its_place(hop: str) -> None:
    settings = f"/etc/hubbub/{hop}/hop.toml"
    assert box(hop)["command"] == ["hop", settings]
    assert box(hop)["healthcheck"]["test"] == ["CMD", PROGRAM, "health", "hop", settings]


def test_each_network_is_one_trust_boundary() -> None:
    content = compose()
    on = {
        name: {each for each, box in content["services"].items() if name in box["networks"]}
        for name in content["networks"]
    }
    assert on == {
        "devices": {"proxy"},
        "inside": {"proxy", "shuffler"},
        "delivery": {"shuffler", "analyzer"},
        "operator": {"shuffler", "analyzer", "operator"},
    }
    assert content["networks"]["delivery"] == content["networks"]["inside"] == {"internal": True}


def test_the_page_names_who_reaches_the_shuffler_past_the_proxy() -> None:
    """In its container it listens on every network that it is on."""
    services = compose()["services"]
    near = {name for name, each in services.items() if set(each["networks"]) & set(services["shuffler"]["networks"])}
    assert near - {"shuffler"} == {"proxy", "analyzer", "operator"}
    text = " ".join(CONTAINERS_PAGE.read_text().split())
    assert "So the analyzer's and the operator's containers reach port 7305 too" in text
    assert "No other container" not in text


def test_no_party_gives_containers_more_than_its_own_containers_read() -> None:
    """The operator's identity and the authority's key are kept offline; on two hosts a party lacks others' folders."""
    private = {each["file"].removeprefix("./") for each in compose()["secrets"].values()}
    given = re.findall(r"(?m)^chown (?:-R )?10001:10001 (.+)$", CONTAINERS_PAGE.read_text())
    operators = [path for line in given for path in line.split() if "operator" in path]
    assert {path.removeprefix("deployment/") for path in operators} == {
        path for path in private if path.startswith("operator/")
    }
    # The hop's block and the cluster's, which is on one host, run inside of `deployment`.
    parties = [{path.split("/")[1] for path in line.split()} for line in given if line.startswith("deployment/")]
    assert parties == [{"shuffler", "proxy"}, {"analyzer"}, {"operator"}]


def test_the_proxys_numbers_are_where_the_page_opens_them(tmp_path: Path) -> None:
    made = initialize(tmp_path / "made", Placement(proxy=True)).of("proxy") / "haproxy.cfg"
    ((old, new),) = re.findall(r"replace `(bind [\d.:]+)` by `(bind [\d.:]+)`", CONTAINERS_PAGE.read_text())
    assert made.read_text().count(f"    {old}\n") == 1
    assert new == old.replace("127.0.0.1", "0.0.0.0")
    port = new.rpartition(":")[2]
    assert f'"127.0.0.1:{port}:{port}"' in CONTAINERS_PAGE.read_text()


def test_settings_are_restored_into_a_folder_and_for_an_account_that_a_new_host_has() -> None:
    text = (HOWTO / "back-up-and-restore.md").read_text()
    step = text.partition("## Restore a host")[2].partition("\n2. ")[0]
    assert "(deploy-two-parties.md#1-install-on-both-hosts)" in step.partition("```sh")[0]
    lines = [line.strip() for line in step.partition("```sh\n")[2].splitlines()]
    assert lines[0] == "install --directory /etc/hubbub"
    assert lines[1].startswith("tar --extract")


def test_a_new_stores_ports_are_closed_without_a_proxy_too() -> None:
    """The shuffler is started before all that were revoked are revoked again."""
    text = (HOWTO / "back-up-and-restore.md").read_text().partition("## A new store forgets")[2]
    first = text.partition("\n2. ")[0]
    rows = (HOWTO / "deploy-two-parties.md").read_text()
    for port in re.findall(r"(?m)^\| shuffler \| (\d+) \| devices", rows):
        assert port in first, port
