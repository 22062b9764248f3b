"""The command prints an address with a token, serves it, and ends cleanly; a busy port is said."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.responses import PlainTextResponse

from hubbub.pages.dashboard.server import is_private, listening, serve_beside
from hubbub.protos.errors import HubbubError, UsageError
from support.ended_with_test import started_program
from support.patience import PATIENCE
from support.source_tree import ROOT

COMMUTE = ROOT / "docs" / "examples" / "commute"


def test_a_busy_port_says_what_to_do() -> None:
    with (
        listening("127.0.0.1", 0) as first,
        pytest.raises(HubbubError, match=r"already in use; choose another with --port"),
        listening("127.0.0.1", first.getsockname()[1]),
    ):
        pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::0", "0", "0x0", "::ffff:0.0.0.0"])
def test_every_address_at_once_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="means every address"), listening(host, 0):
        pass


@pytest.mark.parametrize("host", ["192.0.2.1", "a" * 70])
def test_a_host_that_is_not_here_says_so(host: str) -> None:
    with pytest.raises(HubbubError, match="cannot listen at"), listening(host, 0):
        pass


def test_what_fails_later_is_not_said_to_be_the_port() -> None:
    with pytest.raises(BrokenPipeError), listening("127.0.0.1", 0):
        raise BrokenPipeError


def test_loopback_is_told_from_other_hosts() -> None:
    assert [is_private(each) for each in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [True] * 4
    assert not any(map(is_private, ("192.0.2.7", "example.org", "::2")))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end(number: signal.Signals) -> None:
    words = [str(COMMUTE / "results.json"), "--keys", str(COMMUTE), "--port", "0", "--json"]
    command = [sys.executable, "-m", "hubbub.cli.main", "dashboard", *words]
    pipe = subprocess.PIPE
    with started_program(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        document = ""
        while not document.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()
            document += line
        found = json.loads(document)
        address = urlsplit(found["address"])
        assert address.hostname == "127.0.0.1"
        assert found["acts"] is False
        page = looked(str(address.hostname), address.port or 0, f"/?{address.query}")
        process.send_signal(number)
        out, err = process.communicate()
    assert "commute" in page
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_beside_other_work_a_signal_ends_the_server_alone_even_at_once(number: signal.Signals) -> None:
    async def both() -> str:
        with listening("127.0.0.1", 0) as listener:
            await serve_beside(PlainTextResponse("here"), listener, lambda: signal.raise_signal(number))
        return "the other work went on"

    before = signal.getsignal(number)
    assert asyncio.run(both()) == "the other work went on"
    assert signal.getsignal(number) is before


def test_where_other_work_set_a_log_up_a_server_adds_nothing_to_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), listening("127.0.0.1", 0) as listener:
        asyncio.run(serve_beside(PlainTextResponse("here"), listener, lambda: signal.raise_signal(signal.SIGINT)))
    assert caplog.messages == []


def looked(host: str, port: int, path: str) -> str:
    """The page behind an address with a token: the redirect is followed with the cookie that it gives."""
    connection = http.client.HTTPConnection(host, port)
    connection.request("GET", path)
    first = connection.getresponse()
    first.read()
    assert first.status == 303
    cookie = (first.getheader("set-cookie") or "").partition(";")[0]
    connection.request("GET", first.getheader("location") or "", headers={"cookie": cookie})
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.getheader("server") is None
    text = answer.read().decode()
    connection.close()
    return text


def test_a_port_that_is_taken_ends_the_command(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [str(COMMUTE / "results.json"), "--port", port, "--json"]
        command = [sys.executable, "-m", "hubbub.cli.main", "dashboard", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "choose another with --port" in json.loads(done.stdout)["error"]


BUSY = """
import sys
import numpy, scipy.fft
from starlette.concurrency import run_in_threadpool
from hubbub.pages.dashboard.checked_results import in_background
from hubbub.pages.dashboard.server import leave, listening, serve

def compute():
    print("computes", flush=True)
    while True:
        scipy.fft.rfft(numpy.ones(4096))

async def app(scope, receive, send):
    in_background(compute) if sys.argv[1] == "check" else await run_in_threadpool(compute)

with listening("127.0.0.1", 0) as listener:
    serve(app, listener, lambda: print(listener.getsockname()[1], flush=True))
leave()
"""
"""A dashboard with one page, which computes for ever: in its own thread, or as a check in the background.

It computes as checks do, in compiled code, which aborts the process if the interpreter ends before it.
"""


@pytest.mark.parametrize("where", ["page", "check"])
def test_it_ends_at_once_while_a_thread_computes(where: str) -> None:
    pipe = subprocess.PIPE
    with started_program([sys.executable, "-c", BUSY, where], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as looking:
            looking.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert process.stdout.readline() == "computes\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "Traceback" not in err
