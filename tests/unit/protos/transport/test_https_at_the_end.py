"""Calls over HTTPS while a program ends: they are made, and none keeps the program from ending."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from hubbub.protos.errors import Unreachable
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.https import CONNECTIONS, HTTPSChannel
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import make_tls

PROGRAM = """
import asyncio, atexit, socket, sys, threading
from pathlib import Path
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.https import HTTPSChannel

def call(port, seconds):
    async def called():
        async with HTTPSChannel(f"https://127.0.0.1:{{port}}", TLS(Path({authority!r}))) as channel:
            await SubmissionCaller(channel).get_round(bytes(32), 0, seconds)
    try:
        asyncio.run(called())
    except Exception as error:
        print(type(error).__name__, flush=True)

listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
"""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


def ran(tls: TLS, program: str) -> str:
    text = PROGRAM.format(authority=str(tls.authority)) + program
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stderr == ""
    return done.stdout


def test_a_call_is_made_while_the_program_ends(tls: TLS) -> None:
    """Python's own pool of threads takes no work then."""
    end = "atexit.register(lambda: (listener.close(), call(port, 20)))"
    assert ran(tls, end) == "Unreachable\n"


def test_a_program_ends_while_a_call_waits(tls: TLS) -> None:
    """A silent server would otherwise keep a host's process for as long as the call may take."""
    end = f"""
threading.Thread(target=call, args=(port, {10 * PATIENCE}), daemon=True).start()
connection, _ = listener.accept()
print(len(connection.recv(1)))
"""
    assert ran(tls, end) == "1\n"


async def test_without_another_thread_a_call_is_made_in_place(tls: TLS, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from Python 3.12 on, where none is started while a program ends."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    channel = HTTPSChannel(f"https://127.0.0.1:{port}", tls)
    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(Unreachable):
        await SubmissionCaller(channel).get_round(bytes(32), 0, CALL_SECONDS)
    monkeypatch.undo()
    await channel.close()


async def test_calls_beyond_the_connections_wait_and_fail_once_the_channel_is_closed(tls: TLS) -> None:
    connected = asyncio.Semaphore(0)
    held = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.release()
        await held.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE):
        channel = HTTPSChannel(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", tls)
        caller = SubmissionCaller(channel)
        calls = [asyncio.create_task(caller.get_round(bytes(32), 0, PATIENCE)) for _ in range(CONNECTIONS + 1)]
        for _ in range(CONNECTIONS):
            await connected.acquire()
        assert connected.locked()
        await channel.close()
        found = await asyncio.gather(*calls, return_exceptions=True)
        held.set()
    assert [type(each) for each in found] == [Unreachable] * (CONNECTIONS + 1)
