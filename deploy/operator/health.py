"""Checks whether a service on this machine serves, at every port in its settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.extras import of_an_extra
from hubbub.service.transport.health import is_serving, parts_with_incidents, why_silent

PAUSE_SECONDS = 0.1
"""Pause between two checks of a port that is open but does not serve yet."""

ANSWER_SECONDS = 2.0
"""The least time that an answer is given, however short the wait: without it, every service would seem silent."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - recognized, not bound
"""The address for calls from the same machine to a service that listens at every address."""


def ports_of(service: str, settings: Path) -> tuple[dict[str, str], TLS]:
    """Return the addresses of a service ("shuffler", "hop", "analyzer"), by the name of the port, and its TLS files.

    Raises:
        HubbubError: if the settings cannot be used, or leave the choice of a port to the system.
    """
    ports, tls = _listens(service, settings)
    for name, address in ports.items():
        host, _, port = address.rpartition(":")
        if int(port) == 0:
            raise HubbubError(f"the {name} port in {settings} is 0 (any free port), so it cannot be asked; name a port")
        ports[name] = f"{_EVERYWHERE.get(host, host)}:{port}"
    return ports, tls


def _listens(service: str, settings: Path) -> tuple[dict[str, str], TLS]:
    # Imported here, so that a check of one service loads only that service's settings.
    if service == "shuffler":
        from hubbub.shuffler.settings import is_frontend, load_frontend
        from hubbub.shuffler.settings import load as load_shuffler

        if is_frontend(settings):
            frontend = load_frontend(settings)
            return {"submission": frontend.listen}, frontend.tls.paths()
        shuffler = load_shuffler(settings)
        # Front ends answer a leader's devices.
        devices = {} if shuffler.role == "leader" else {"submission": shuffler.listen}
        return devices | {"control": shuffler.control_listen}, shuffler.tls.paths()
    if service == "hop":
        from hubbub.shuffler.hop.settings import load as load_hop

        hop = load_hop(settings)
        return {"delivery": hop.listen}, hop.tls.paths()
    from hubbub.analyzer.settings import load as load_analyzer

    analyzer = load_analyzer(settings)
    return {"delivery": analyzer.delivery_listen, "results": analyzer.results_listen}, analyzer.tls.paths()


def store_of(service: str, settings: Path) -> str:
    """Return the place of a service's store ("shuffler", "hop" or "analyzer"): a folder, or a database's address."""
    if service == "shuffler":
        from hubbub.shuffler.settings import is_frontend, load_frontend
        from hubbub.shuffler.settings import load as load_shuffler

        if is_frontend(settings):
            return load_frontend(settings).store
        shuffler = load_shuffler(settings)
        return shuffler.store or str(shuffler.data)
    if service == "hop":
        from hubbub.shuffler.hop.settings import load as load_hop

        return str(load_hop(settings).data)
    from hubbub.analyzer.settings import load as load_analyzer

    analyzer = load_analyzer(settings)
    return analyzer.store or str(analyzer.data)


def shown_database(store: str) -> str:
    """Return a database's address for messages, without its options; empty for a store in a folder."""
    if not store:
        return ""
    with of_an_extra():
        from hubbub.service.postgres.server_errors import shown

    return shown(store)


async def ask_parts(ports: Mapping[str, str], tls: TLS, wait: float) -> frozenset[str]:
    """Return which kinds of parts of a service that serves have incidents (`IncidentKind`)."""
    # Every port reports the same about the whole service.
    async with open_channel(next(iter(ports.values())), tls, _own_name(tls)) as channel:
        return await parts_with_incidents(channel, max(wait, ANSWER_SECONDS))


async def ask(ports: Mapping[str, str], tls: TLS, wait: float) -> dict[str, bool]:
    """Return for each port whether its server reports SERVING within `wait` seconds, or within `ANSWER_SECONDS`.

    The call uses the service's own certificate, so the expected name is the one in that certificate, whatever the
    address is.
    """
    name = _own_name(tls)
    start = time.monotonic()
    answers = await asyncio.gather(*(_ask_one(address, tls, name, start, wait) for address in ports.values()))
    return dict(zip(ports, answers, strict=True))


async def ask_why(ports: Mapping[str, str], tls: TLS, wait: float) -> dict[str, HubbubError]:
    """Return the cause for each of these ports that do not serve, as far as its connection shows it."""
    found = {}
    for name, address in ports.items():
        async with open_channel(address, tls, _own_name(tls)) as channel:
            found[name] = await why_silent(channel, wait)
    return found


async def _ask_one(address: str, tls: TLS, name: str, start: float, wait: float) -> bool:
    async with open_channel(address, tls, name) as channel:
        while not await is_serving(channel, max(start + max(wait, ANSWER_SECONDS) - time.monotonic(), PAUSE_SECONDS)):
            if time.monotonic() + PAUSE_SECONDS > start + wait:
                return False
            await asyncio.sleep(PAUSE_SECONDS)
    return True


def _own_name(tls: TLS) -> str:
    path = tls.certificate
    if path is None:
        raise HubbubError("settings name no certificate of the service's own; add tls.certificate")
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return str(next(iter(names)).value)
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, StopIteration) as error:
        raise HubbubError(
            f"{path} is not a certificate for a host name or an address; make one with `hubbub certificate`"
        ) from error
