"""The API's schema, and that what one object names is there in another."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from hubbub.analyzer import settings as analyzer
from hubbub.service.transport.ports import DRAIN_SECONDS
from hubbub.shuffler import settings as shuffler
from support.deployment_files import HOWTO, stages
from support.kubernetes_manifests import (
    KUBERNETES,
    VERSIONS,
    containers,
    manifests,
    of_kind,
    one,
    pod,
    ports,
    settings,
    workload,
)

PARTIES = ("shuffler", "frontends", "analyzer")
LOADS: dict[str, Any] = {"shuffler": shuffler.load, "frontends": shuffler.load_frontend, "analyzer": analyzer.load}
PREFIXES = {"frontends": "frontend"}
"""Of the names of keys and files, where it is not the party's name."""
SUCCESSIONS = {party: f"{'analyzer' if party == 'analyzer' else 'shuffler'}-successions" for party in PARTIES}
PAGE = HOWTO / "run-on-kubernetes.md"
NAME = "app.kubernetes.io/name"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("party", PARTIES)
def test_every_object_is_as_the_api_has_it(party: str, version: str) -> None:
    for each in manifests(party):
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("party", PARTIES)
def test_the_check_itself_sees_an_unknown_field(party: str) -> None:
    wrong = copy.deepcopy(workload(party))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenessProb"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


@pytest.mark.parametrize("party", PARTIES)
def test_all_is_in_the_partys_namespace_which_keeps_to_the_restricted_standard(party: str) -> None:
    owner = "shuffler" if party == "frontends" else party
    space = one(owner, "Namespace")["metadata"]
    assert space["name"] == f"hubbub-{owner}"
    assert space["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert {each["metadata"].get("namespace", space["name"]) for each in manifests(party)} == {space["name"]}


@pytest.mark.parametrize("party", PARTIES)
def test_pods_run_hardened(party: str) -> None:
    spec = pod(party)["spec"]
    assert spec["automountServiceAccountToken"] is False
    user = int(stages()["operator"].all("USER")[0].partition(":")[0])
    assert spec["securityContext"].items() >= {"runAsNonRoot": True, "runAsUser": user, "fsGroup": user}.items()
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["terminationGracePeriodSeconds"] >= 3 * DRAIN_SECONDS
    for each in containers(party):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(each["resources"]["requests"])
        assert "memory" in each["resources"]["limits"]
        assert each["image"] == ("hubbub-analyzer" if party == "analyzer" else "hubbub-shuffler")
        # Nothing secret is in the environment, where other processes and crash reports have it.
        assert [entry["name"] for entry in each.get("env", ()) if "value" in entry or "secretKeyRef" in entry] == []


@pytest.mark.parametrize("party", PARTIES)
def test_secrets_are_only_referred_to_and_seen_by_one_container(party: str) -> None:
    assert not of_kind(party, "Secret")
    volumes = {each["name"]: each for each in pod(party)["spec"]["volumes"]}
    secret = [name for name, each in volumes.items() if "secret" in each]
    assert secret == ["secret"]
    seen = [each["name"] for each in containers(party) for mount in each["volumeMounts"] if mount["name"] in secret]
    assert seen == ["keys"]
    # What it is copied to is memory.
    assert volumes["keys"]["emptyDir"]["medium"] == "Memory"
    mounted = {mount["name"] for each in containers(party) for mount in each["volumeMounts"]}
    claimed = {each["metadata"]["name"] for each in workload(party)["spec"].get("volumeClaimTemplates", ())}
    assert bool(claimed) is (party != "frontends")
    assert mounted == set(volumes) | claimed


@pytest.mark.parametrize("party", PARTIES)
def test_what_has_to_be_there_before_is_listed_at_the_top(party: str) -> None:
    top = (KUBERNETES / f"{party}.yaml").read_text().partition("apiVersion")[0]
    lines = re.findall(r"^#   (?:Secret|ConfigMap) +(\S+) +(\S.*)$", top, re.M)
    listed = {name: set(files.split(", ")) for name, files in lines}
    made = {each["metadata"]["name"] for each in of_kind(party, "ConfigMap")}
    named = {each["configMap"]["name"] for each in pod(party)["spec"]["volumes"] if "configMap" in each}
    named |= {each["secret"]["secretName"] for each in pod(party)["spec"]["volumes"] if "secret" in each}
    assert named - made - {SUCCESSIONS[party]} == set(listed)
    assert SUCCESSIONS[party] in top
    prefix = PREFIXES.get(party, party)
    text = "\n".join(one(party, "ConfigMap")["data"].values())
    assert set(re.findall(r"/etc/hubbub/keys/([\w.-]+)", text)) == listed[f"{prefix}-keys"]
    assert set(re.findall(r"/etc/hubbub/public/([\w.-]+)", text)) == listed[f"{prefix}-public"]
    # The page makes each of them, of these files.
    kinds = "secret generic|configmap"
    given = re.findall(rf"create (?:{kinds}) (\S+) \\\n +(\S.*?) \\\n", PAGE.read_text())
    for name, files in listed.items():
        said = next(words for found, words in given if found == name)
        assert {path.rpartition("/")[2] for path in re.findall(r"--from-file=(\S+[^/\s])(?=\s|$)", said)} == (
            set() if "*.json" in "".join(files) else files
        )
    assert (SUCCESSIONS[party], "--from-file=successions/") in given


@pytest.mark.parametrize("party", PARTIES)
def test_a_certificate_and_its_key_are_of_one_time_and_never_of_two(party: str, tmp_path: Path) -> None:
    """A ConfigMap is updated in a pod that runs, and a Secret's copy is not: the two would not fit any more."""
    for path in settings(party, tmp_path):
        tls = LOADS[party](path).tls
        assert Path(tls.certificate).parent == Path(tls.key).parent == Path("/etc/hubbub/keys")
    # All of the Secret: a party that renews its identity has a further file there for a while.
    command = "install --mode=0400 --target-directory=/etc/hubbub/keys /run/secrets/hubbub/*"
    assert containers(party)[0]["command"] == ["sh", "-ec", command]


@pytest.mark.parametrize("party", PARTIES)
def test_a_succession_has_a_place_and_none_is_needed(party: str, tmp_path: Path) -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in containers(party)[-1]["volumeMounts"]}
    for path in settings(party, tmp_path):
        loaded = LOADS[party](path)
        assert [str(each) for each in loaded.successions] == [mounts["successions"]]
        # A list of a folder that is mounted is taken without a restart.
        if party != "frontends":
            assert str(loaded.revoked_readers) == f"{mounts['successions']}/revoked-readers.txt"
    volumes = {each["name"]: each for each in pod(party)["spec"]["volumes"]}
    assert volumes["successions"]["configMap"] == {"name": SUCCESSIONS[party], "optional": True}


def test_the_page_updates_what_it_makes() -> None:
    """`kubectl create` alone is refused the second time."""
    commands = re.findall(r"(?m)^kubectl.* create (?:secret|configmap)(?:.*\\\n)*.*$", PAGE.read_text())
    assert len(commands) == 12
    for command in commands:
        assert command.endswith("--dry-run=client --output yaml | kubectl apply --server-side --filename -")


@pytest.mark.parametrize("party", PARTIES)
def test_settings_load_and_are_for_the_pods_ports_and_folders(party: str, tmp_path: Path) -> None:
    written = settings(party, tmp_path)
    pods = [f"shuffler-{number}" for number in range(one("shuffler", "StatefulSet")["spec"]["replicas"])]
    assert [path.stem for path in written] == (pods if party == "shuffler" else [PREFIXES.get(party, party)])
    mounts = {mount["mountPath"] for mount in containers(party)[-1]["volumeMounts"]}
    for path in written:
        loaded = LOADS[party](path)
        given = loaded.model_dump()
        listening = {int(value.rpartition(":")[2]) for key, value in given.items() if key.endswith("listen") and value}
        # A leader leaves devices to front ends.
        listening -= {int(given["listen"].rpartition(":")[2])} if given.get("role") == "leader" else set()
        assert listening == set(ports(party).values())
        own = (loaded.shuffler_key,) if party == "frontends" else (loaded.data, loaded.identity)
        for file in (*own, loaded.operator_key, loaded.tls.key, loaded.tls.certificate, *loaded.tasks):
            assert any(str(file).startswith(mount) for mount in mounts), file


def test_each_shuffler_follows_the_other_and_waits_for_it(tmp_path: Path) -> None:
    written = settings("shuffler", tmp_path)
    service = next(each for each in of_kind("shuffler", "Service") if each["metadata"]["name"] == "leaders")
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert one("shuffler", "StatefulSet")["spec"]["serviceName"] == "leaders"
    for path, other in zip(written, reversed(written), strict=True):
        loaded = shuffler.load(path)
        assert [str(each) for each in loaded.leaders] == [f"{other.stem}.leaders.hubbub-shuffler.svc:7309"]
        assert loaded.standbys == 1
    texts = [re.sub(r"^leaders = .*$", "", path.read_text(), flags=re.M) for path in written]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("party", PARTIES)
def test_what_selects_pods_finds_them_and_the_ports_it_names(party: str) -> None:
    labels, named = pod(party)["metadata"]["labels"].items(), ports(party)
    for each in of_kind(party, "Service"):
        assert each["spec"]["selector"].items() <= labels
        for port in each["spec"]["ports"]:
            assert port["port"] == named[port["targetPort"]]
    for each in (*of_kind(party, "PodDisruptionBudget"), workload(party)):
        assert each["spec"]["selector"]["matchLabels"].items() <= labels
    for probe in ("readinessProbe", "livenessProbe"):
        assert containers(party)[-1][probe]["tcpSocket"]["port"] in named


def reached(party: str, way: str) -> dict[str, set[Any]]:
    """Whom a policy lets in or out, by name, with the ports; everyone is \"\"."""
    *nothing, policy = of_kind(party, "NetworkPolicy")
    # The front ends' namespace is the shuffler's.
    assert [each["spec"] for each in nothing or of_kind("shuffler", "NetworkPolicy")[:1]] == [
        {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    ]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod(party)["metadata"]["labels"].items()
    found: dict[str, set[Any]] = {}
    for rule in policy["spec"][way]:
        (peer,) = rule.get("from" if way == "ingress" else "to", [{}])
        selected = [peer[key]["matchLabels"] for key in ("podSelector", "namespaceSelector") if key in peer]
        name = next((labels.get(NAME) or labels["kubernetes.io/metadata.name"] for labels in selected), "")
        found[name] = {port["port"] for port in rule["ports"]}
    return found


def test_who_talks_to_whom_and_nothing_else() -> None:
    assert reached("shuffler", "ingress") == {
        "hubbub-frontend": {"leader"},
        "hubbub-shuffler": {"leader"},
        "monitoring": {"metrics"},
    }
    assert reached("frontends", "ingress") == {"": {"submission"}, "monitoring": {"metrics"}}
    assert reached("analyzer", "ingress") == {"hubbub-shuffler": {"delivery"}, "monitoring": {"metrics"}}
    both = {"databases": {5432}, "kube-system": {53}}
    assert reached("shuffler", "egress") == {"hubbub-shuffler": {7309}, "hubbub-analyzer": {7401}, **both}
    assert reached("frontends", "egress") == {"hubbub-shuffler": {7309}, **both}
    assert reached("analyzer", "egress") == both
    for party, way in (("shuffler", "ingress"), ("analyzer", "ingress")):
        assert {port for each in reached(party, way).values() for port in each} <= set(ports(party))
    assert {7309, 7401} <= set(ports("shuffler").values()) | set(ports("analyzer").values())


def test_frontends_ask_each_of_the_shufflers_pods(tmp_path: Path) -> None:
    (path,) = settings("frontends", tmp_path)
    loaded = shuffler.load_frontend(path)
    assert list(loaded.leaders) == [f"shuffler-{number}.leaders.hubbub-shuffler.svc:7309" for number in (0, 1)]
    assert {shuffler.load(each).store for each in settings("shuffler", tmp_path)} == {loaded.store}


def test_the_shuffler_delivers_where_the_analyzers_service_is(tmp_path: Path) -> None:
    service = one("analyzer", "Service")
    name, space = service["metadata"]["name"], service["metadata"]["namespace"]
    address = f"{name}.{space}.svc:{service['spec']['ports'][0]['port']}"
    assert {shuffler.load(path).analyzer for path in settings("shuffler", tmp_path)} == {address}
