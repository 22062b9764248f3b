"""What a forked process may do by gRPC depends on what its parent had open at the fork."""

import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest

from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.forks import POLLER
from support.patience import PATIENCE
from support.samples import make_tls


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = make_tls(tmp_path_factory.mktemp("tls"), "shuffler")["shuffler"].authority
    assert isinstance(given, Path)
    return given


def run(authority: Path, body: str) -> None:
    text = f"""
import asyncio, gc, os, sys, threading
from pathlib import Path
from hubbub.protos.errors import CannotCall
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.forks import POLLER

gc.disable()

def opened():
    return open_channel("127.0.0.1:1", TLS(Path({str(authority)!r})))

async def answers():
    async with opened() as channel:
        try:
            await channel.unary_unary("/a/b")(b"", timeout=30)
        except Exception as error:
            return error.code().name

def poller():
    return any(thread.name.endswith(POLLER) for thread in threading.enumerate())

def ended(child):
    return os.waitpid(child, 0)[1] == 0

{body}
"""
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_a_channel_that_nothing_but_itself_holds_does_not_cut_a_forked_process_off(authority: Path) -> None:
    """As after a call that failed: the error and its traceback hold each other, and the channel."""
    run(
        authority,
        """
async def lost():
    circle = [opened()]
    circle.append(circle)

asyncio.run(lost())
assert poller(), "gRPC has no such thread: see POLLER"
child = os.fork()
assert not poller()
assert asyncio.run(answers()) == "UNAVAILABLE"
if child:
    assert ended(child)
""",
    )


def test_a_process_forked_beside_an_open_channel_is_told_and_ends_and_its_parent_goes_on(authority: Path) -> None:
    run(
        authority,
        """
async def held():
    return opened()

channel = asyncio.run(held())
child = os.fork()
if child == 0:
    grandchild = os.fork()
    try:
        asyncio.run(held())
    except CannotCall as error:
        assert "fork before the first call" in str(error)
        assert not grandchild or ended(grandchild)
        sys.exit()
    os._exit(1)
assert ended(child)
assert asyncio.run(answers()) == "UNAVAILABLE"
""",
    )


async def test_grpc_waits_in_a_thread_of_that_name(authority: Path) -> None:
    """The name is gRPC's own: if it changes, forked processes would be told nothing."""
    async with open_channel("127.0.0.1:1", TLS(authority)) as channel:
        assert isinstance(channel, grpc.aio.Channel)
        assert any(thread.name.endswith(POLLER) for thread in threading.enumerate())
