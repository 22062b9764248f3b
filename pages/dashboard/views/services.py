"""Pages of the operator: where every round stands at both services, and closing rounds and revoking devices.

Anybody who may look sees the same. To act, the dashboard must have been started with the operator's settings, and each
act takes two forms: the first says what will happen, the second does it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from hubbub.deploy.operator.client import (
    Overview,
    close_round,
    fetch_overview,
    hops_of,
    manage_credentials,
    round_to_close,
)
from hubbub.deploy.pki.expiry import expiries
from hubbub.deploy.pki.tickets import devices_given
from hubbub.deploy.settings import OperatorSettings
from hubbub.pages.dashboard.access import WORD
from hubbub.pages.dashboard.shown_task import ShownTask
from hubbub.pages.dashboard.site import Site, asked, number_of
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.messages import CredentialAction, CredentialStatus, RoundState, RoundStatus
from hubbub.protos.task.task import Task
from hubbub.protos.transport.tls_files import WARNING_DAYS, TlsCertificate

MOST_DEVICES = 10_000
"""Devices of one form; `hubbub keys revoke --tickets FILE` takes more."""

SURE = "sure"
"""The field of the second form."""

_WITHOUT = "this dashboard shows saved results, and asks no services; start it with a settings file"


@dataclass(frozen=True)
class ServicesSnapshot:
    """What both services showed at `now` (seconds since 1970)."""

    overview: Overview
    certificates: list[TlsCertificate]
    enrollment: CredentialStatus | None
    now: float

    @property
    def ending(self) -> list[tuple[TlsCertificate, str]]:
        """The certificates that end soon, or have ended, with when that is in words."""
        soon = [each for each in self.certificates if each.days_left(self.now) < WARNING_DAYS]
        return [(each, each.ending(self.now)) for each in soon]


def look(settings: OperatorSettings, acts: bool) -> ServicesSnapshot:
    """Ask both services; only the operator is shown the state of enrollment."""
    overview = asyncio.run(fetch_overview(settings))
    services = {"shuffler": settings.shuffler_control, "analyzer": settings.analyzer_results, **hops_of(settings)}
    answered = {name: address for name, address in services.items() if name not in overview.errors}
    now = time.time()

    def enrolled() -> CredentialStatus | None:
        return asyncio.run(manage_credentials(settings, CredentialAction.STATUS, [])) if acts else None

    def ends() -> list[TlsCertificate]:
        return expiries(settings.tls.paths(), answered, now)

    def unknown() -> list[TlsCertificate]:
        return []

    enrollment, _ = asked(enrolled, lambda: None)
    certificates, _ = asked(ends, unknown)
    return ServicesSnapshot(overview, certificates, enrollment, now)


def services(site: Site, _request: Request) -> Response:
    """Show what `hubbub status` shows."""
    if site.services is None:
        return site.page("services/services.html", seen=None, tasks={}, why=_WITHOUT)
    asked(site.results.tasks, list)
    seen = look(site.services, site.acts)
    tasks = {bytes.fromhex(id_): each for id_, each in site.results.known().items()}
    return site.page("services/services.html", seen=seen, tasks=tasks, why=None, closes=_closes)


def _closes(status: RoundStatus, tasks: Mapping[bytes, ShownTask]) -> bool:
    """Return whether the operator may close the round now."""
    shown = tasks.get(status.task_id)
    by_operator = shown is not None and shown.task.schedule.close == "operator"
    return by_operator and status.state is RoundState.OPEN and not status.prepared


def _operator(site: Site, form: FormData) -> OperatorSettings:
    """Return the operator's settings if a form may act.

    Raises:
        UsageError: if the form is not of these pages, or these settings are a reader's.
    """
    if not site.access.check_form(form.get(WORD)):
        raise UsageError("this form is not of this dashboard's pages; nothing was done")
    if site.services is None or not site.acts:
        raise UsageError("only the operator acts; start the dashboard with the operator's settings. Nothing was done")
    return site.services


async def close(site: Site, request: Request) -> Response:
    """Say what closing a round will do; with the second form, close it."""
    async with request.form(max_files=0, max_fields=8) as form:
        settings, number = _operator(site, form), str(form.get("round", ""))
        task_id, sure = str(form.get("task", "")), form.get(SURE) == "yes"
    chosen = number_of(number)
    if chosen is None:
        raise UsageError(f"{number!r:.40} is no round's number; nothing was done")
    task = (await run_in_threadpool(site.results.task, task_id)).task
    done = await run_in_threadpool(_close, settings, task, chosen, sure)
    return site.page("services/close.html", task=task, number=chosen, done=done, sure=sure)


def _close(settings: OperatorSettings, task: Task, number: int, sure: bool) -> tuple[RoundStatus | None, bool]:
    """Return the round's status, and whether it was closed now; the status is None while it is open."""

    async def closing() -> tuple[RoundStatus | None, bool]:
        found = await round_to_close(settings, task, number, time.time())
        if isinstance(found, RoundStatus):
            return found, False
        return (await close_round(settings, task.id, found), True) if sure else (None, False)

    return asyncio.run(closing())


async def revoke(site: Site, request: Request) -> Response:
    """Say what revoking devices will do; with the second form, revoke them."""
    async with request.form(max_files=0, max_fields=8) as form:
        settings, sure = _operator(site, form), form.get(SURE) == "yes"
        ids = str(form.get("devices", "")).split()
    if len(ids) > MOST_DEVICES:
        raise UsageError(f"{len(ids)} devices are too many for this form; use `hubbub keys revoke --tickets FILE`")
    devices = list(dict.fromkeys(devices_given(ids, None)))
    done = await run_in_threadpool(_revoke, settings, devices) if sure else None
    hexes = " ".join(each.hex() for each in devices)
    return site.page("services/revoke.html", devices=devices, hexes=hexes, done=done)


def _revoke(settings: OperatorSettings, devices: list[bytes]) -> CredentialStatus:
    found = asyncio.run(manage_credentials(settings, CredentialAction.REVOKE, devices))
    if found.revoked < len(devices):
        raise HubbubError(f"the shuffler states {found.revoked} revoked devices, fewer than were given; ask its party")
    return found
