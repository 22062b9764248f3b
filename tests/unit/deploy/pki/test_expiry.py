"""The operator sees how long every certificate of a deployment lasts."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from hubbub.deploy.pki.expiry import expiries, expiry_document, print_expiries
from hubbub.protos.transport.tls_files import TlsCertificate
from hubbub.service.transport.grpc_server import listen
from support.ended_with_test import opened_server
from support.samples import make_tls

DAY = 86_400


async def test_services_show_their_certificates_and_who_shows_none_is_left_out(tmp_path: Path) -> None:
    tls = make_tls(tmp_path, "shuffler", "operator")
    async with opened_server() as server:
        address = f"127.0.0.1:{listen(server, '127.0.0.1:0', tls['shuffler'].server(mutual=True))}"
        await server.start()
        services = {"shuffler": address, "analyzer": "127.0.0.1:1"}
        found = await asyncio.to_thread(expiries, tls["operator"], services, time.time())
    assert [each.party for each in found] == ["hubbub authority", "operator", "shuffler"]
    assert found[2].where == f"the shuffler at {address}"
    assert found[2].hosts == ("localhost", "127.0.0.1")


@pytest.mark.parametrize(("days", "warned"), [(790, []), (800, ["operator"]), (3630, ["operator", "authority"])])
def test_those_that_end_soon_are_named_with_what_to_run(tmp_path: Path, days: float, warned: list[str]) -> None:
    found: list[TlsCertificate] = expiries(make_tls(tmp_path, "operator")["operator"], {}, time.time())
    out = io.StringIO()
    print_expiries(Console(file=out, width=40), found, time.time() + days * DAY)
    lines = out.getvalue().splitlines()
    assert len(lines) == len(warned)
    for name in warned:
        (line,) = [line for line in lines if f"{name}.pem expire" in line]
        assert (
            "hubbub keys add authority" if name == "authority" else "hubbub certificate operator --authority DIR"
        ) in line
    # After its end it is never said to end in a number of days.
    (own,) = [each for each in found if each.party == "operator"]
    assert own.ending(time.time() + 826 * DAY).startswith("expired on ")
    assert own.ending(time.time() + 790 * DAY).startswith("expires in 35 days, ")
    assert [each["days_left"] for each in expiry_document(found, time.time())] == pytest.approx([3650, 825], abs=1)
