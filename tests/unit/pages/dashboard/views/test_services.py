"""The operator sees both services and acts in two forms; a reader sees the same and acts not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.service.rpc.test_caller_access import PARTIES, TASK, Everything

from hubbub.deploy.init.folders import initialize
from hubbub.pages.dashboard.access import Access
from hubbub.pages.dashboard.checked_results import CheckedResults
from hubbub.pages.dashboard.site import Site
from hubbub.pages.dashboard.sources import opened
from hubbub.protos.errors import UsageError
from hubbub.protos.messages import (
    CredentialAction,
    CredentialStatus,
    Incident,
    IncidentReport,
    ListedTask,
    RoundState,
    RoundStatus,
)
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, QueryStatus, RoundId
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.tls_files import TlsCertificateError
from support.both_services import served
from support.dashboard import Browser, Looked, at_once, site_of, stub
from support.messages import NO_READABLE_CERTIFICATE
from support.samples import signed

CLOSED_BY_HAND = replace(TASK, schedule=replace(TASK.schedule, close="operator"))
DEVICE = "ab" * 16


class Answering(Everything):
    """Both services with a round that can be closed; `done` is what was done."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.state = RoundState.OPEN
        self.refusal: Refusal | None = None
        self.minimum = 20

    def _status(self) -> RoundStatus:
        refused = {"too_late": 7, "<i>": 1}
        return RoundStatus(CLOSED_BY_HAND.id, 0, self.state, 41, self.minimum, refused, "its end & the operator")

    async def get_status(self, *_: object) -> list[RoundStatus]:
        if self.refusal is not None:
            raise self.refusal
        return [self._status()]

    async def close_round(self, *asked: object) -> RoundStatus:
        self.done.append(("close", *asked))
        self.state = RoundState.CUT
        return self._status()

    async def manage_credentials(self, action: Any, devices: Any, *_: object) -> CredentialStatus:
        if action is CredentialAction.REVOKE:
            self.done.append(("revoke", *devices))
        return CredentialStatus((), 1234, 56)

    async def get_incidents(self) -> IncidentReport:
        return IncidentReport((Incident("disk", "the disk is <b>full</b>", 1_767_225_600, 3),), 2)

    async def list_tasks(self) -> list[ListedTask]:
        return [ListedTask(CLOSED_BY_HAND.id, CLOSED_BY_HAND.name)]

    async def get_task(self, *_: object) -> Any:
        return signed(CLOSED_BY_HAND, PARTIES)

    async def get_statuses(self, *_: object) -> list[Any]:
        query = QueryStatus("carrier", 40, 40, 40, 38, {"unopenable": 2})
        which = RoundId(CLOSED_BY_HAND.id, CLOSED_BY_HAND.name, 0)
        return [AnalyzerRoundStatus(which, AnalysisStage.COUNTED, (query,), "its certificate")]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialize(tmp_path_factory.mktemp("services") / "deployment").root


@pytest.fixture
def answers() -> Answering:
    return Answering()


@pytest.fixture
async def ports(deployment: Path, answers: Answering, tmp_path: Path) -> AsyncIterator[Path]:
    """Both services, and a copy of the deployment whose settings name their ports."""
    import shutil

    root = Path(shutil.copytree(deployment, tmp_path / "deployment"))
    async with served(root, answers):
        yield root


def browser_of(root: Path, who: str) -> Browser:
    found = opened([root / who / f"{who}.toml"], None)
    access = Access.at("127.0.0.1", 8737)
    return Browser(
        Site(CheckedResults(found.reader, found.pins, at_once), access, found.source, found.services, found.acts)
    )


async def get(browser: Browser, path: str) -> Looked:
    return await asyncio.to_thread(browser.get, path)


async def post(browser: Browser, path: str, **fields: str) -> Looked:
    return await asyncio.to_thread(browser.post, path, fields)


def words(seen: Looked) -> str:
    return " ".join(seen.page.words.split())


CLOSE = {"task": CLOSED_BY_HAND.id.hex(), "round": "0"}


@pytest.mark.parametrize("who", ["reader", "operator"])
async def test_both_services_are_shown_with_what_hubbub_status_has(ports: Path, who: str) -> None:
    seen = await get(browser_of(ports, who), "/services")
    assert seen.status == 200
    said = words(seen)
    for each in ("flights", "open", "41", "too_late 7", "<i> 1", "its end & the operator", "1,000,000"):
        assert each in said
    for each in ("counted", "carrier 38 of 40", "carrier: unopenable 2", "its certificate"):
        assert each in said
    assert said.count("has an incident (disk) since 2026-01-01T00:00:00Z, seen 3 times: the disk is <b>full</b>") == 2
    assert said.count("lost 2 lines of its log") == 2
    assert "the authority's" in said or "authority" in said
    enrollment = "Tickets redeemed: 1,234 or more, as the shuffler rounds down. Devices revoked: 56."
    assert (enrollment in said) == (who == "operator")
    assert seen.page.elements.isdisjoint({"script", "b", "i"})


async def test_a_reader_has_no_form_and_its_forms_do_nothing(ports: Path, answers: Answering) -> None:
    browser = browser_of(ports, "reader")
    assert "form" not in (await get(browser, "/services")).page.elements
    for sure in ("", "yes"):
        for path, fields in (("close", CLOSE), ("revoke", {"devices": DEVICE})):
            seen = await post(browser, f"/services/{path}", sure=sure, **fields)
            assert (seen.status, "only the operator acts" in words(seen)) == (400, True)
    assert answers.done == []


async def test_a_round_is_closed_by_the_second_form_alone(ports: Path, answers: Answering) -> None:
    browser = browser_of(ports, "operator")
    assert "/services/close" in {each["action"] for each in (await get(browser, "/services")).page.of("form")}
    first = await post(browser, "/services/close", **CLOSE)
    assert "Close round 0 now?" in words(first)
    assert "This cannot be undone." in words(first)
    assert CLOSED_BY_HAND.id.hex()[:12] in words(first), "two tasks may have one name"
    assert answers.done == []
    second = await post(browser, "/services/close", sure="yes", **CLOSE)
    assert "is cut with 41 submissions" in words(second)
    assert answers.done == [("close", CLOSED_BY_HAND.id, 0)]
    again = await post(browser, "/services/close", sure="yes", **CLOSE)
    assert "Nothing was changed" in words(again)
    assert len(answers.done) == 1
    assert "/services/close" not in {each["action"] for each in (await get(browser, "/services")).page.of("form")}


async def test_devices_are_revoked_by_the_second_form_alone(ports: Path, answers: Answering) -> None:
    browser = browser_of(ports, "operator")
    first = await post(browser, "/services/revoke", devices=f" {DEVICE}\n{DEVICE} ")
    assert "Revoke 1 device?" in words(first)
    assert DEVICE in words(first)
    assert answers.done == []
    second = await post(browser, "/services/revoke", devices=DEVICE, sure="yes")
    assert "56 devices in all are revoked" in words(second)
    assert answers.done == [("revoke", bytes.fromhex(DEVICE))]


@pytest.mark.parametrize(
    ("path", "fields", "why"),
    [
        ("close", {"task": "00", "round": "0"}, "there is no task 00"),
        ("close", {**CLOSE, "round": "-1"}, "is no round's number"),
        ("close", {**CLOSE, "round": "9" * 40}, "is no round's number"),
        ("revoke", {"devices": ""}, "name devices to revoke"),
        ("revoke", {"devices": "<script>"}, "script"),
    ],
)
async def test_a_form_that_makes_no_sense_does_nothing(
    ports: Path, answers: Answering, path: str, fields: dict[str, str], why: str
) -> None:
    seen = await post(browser_of(ports, "operator"), f"/services/{path}", sure="yes", **fields)
    assert seen.status in (400, 404, 502)
    assert why in words(seen)
    assert answers.done == []


async def test_the_other_service_is_shown_if_one_does_not_answer(ports: Path, answers: Answering) -> None:
    answers.refusal = Refusal(Reason.NOT_READY, "the store is away")
    said = words(await get(browser_of(ports, "operator"), "/services"))
    assert "The shuffler does not answer. " in said
    assert "the store is away" in said
    assert "carrier 38 of 40" in said


async def test_a_minimum_that_the_shuffler_no_longer_knows_is_not_shown_as_0(ports: Path, answers: Answering) -> None:
    answers.minimum = 0
    assert "unknown" in words(await get(browser_of(ports, "reader"), "/services"))


def test_services_that_are_down_are_said_so(deployment: Path, tmp_path: Path) -> None:
    for port in (7302, 7402):
        settings = deployment / "operator" / "operator.toml"
        settings.write_text(settings.read_text().replace(f":{port}", ":1"))
    seen = browser_of(deployment, "operator").get("/services")
    assert seen.status == 200
    assert words(seen).count("Nothing is known") == 3


def test_saved_results_have_no_services() -> None:
    assert "asks no services" in words(Browser(site_of(stub())).get("/services"))


def test_a_damaged_certificate_is_named(deployment: Path, tmp_path: Path) -> None:
    import shutil

    root = Path(shutil.copytree(deployment, tmp_path / "deployment"))
    (root / "reader" / "tls" / "reader.pem").write_text("garbage")
    with pytest.raises(TlsCertificateError, match=rf"reader\.pem {NO_READABLE_CERTIFICATE}"):
        opened([root / "reader" / "reader.toml"], None)


def test_settings_are_named_alone(deployment: Path) -> None:
    with pytest.raises(UsageError, match="name one of these alone"):
        opened([deployment / "reader" / "reader.toml", deployment], None)
