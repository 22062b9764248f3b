"""A `hubbub` for shells, first in PATH, whose commands are forked from a process that has imported what they need.

The program in PATH hands its words, folder, environment and standard streams to the tests' process, which forks the
command (`support.forked`); it passes on the signals that it gets, and ends as the command does. If it is killed, the
command is too. What one command has composed, none computes again (`support.computed_once`).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from support.computed_once import remember_in, shared
from support.forked import PROGRAM, Place, be, context

LARGEST = 2**20
"""Bytes of words and environment that are asked for at once."""

COMMAND = """#!{python} -IS
import array, json, os, signal, socket, sys

asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), os.umask(0o077)]).encode()
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {largest})
server.connect({address!r})
server.sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
process = int(server.recv(64))
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda number, _: os.kill(process, number))
status = int(server.recv(64))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@contextlib.contextmanager
def folder_for_path(folder: Path) -> Iterator[Path]:
    """Make the program in this folder, and serve it; the folder is to be first in PATH."""
    address = str(folder / "socket")
    program = folder / "hubbub"
    program.write_text(COMMAND.format(python=sys.executable, largest=LARGEST, address=address))
    program.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        server = threading.Thread(target=_serve, args=(listener,))
        server.start()
        try:
            yield folder
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


def _serve(listener: socket.socket) -> None:
    commands: list[threading.Thread] = []
    with contextlib.suppress(OSError):
        while True:
            caller, _ = listener.accept()
            commands.append(threading.Thread(target=_run, args=(caller,)))
            commands[-1].start()
    for command in commands:
        command.join()


def _run(caller: socket.socket) -> None:
    with caller:
        asked, streams, _, _ = socket.recv_fds(caller, LARGEST, 3)
        words, folder, environment, umask = json.loads(asked)
        place = Place(Path(folder), environment, umask)
        try:
            process = context().Process(target=_be, args=(words, place, tuple(map(DupFd, streams)), shared()))
            process.start()
        finally:
            for stream in streams:
                os.close(stream)
        caller.send(str(process.pid).encode())
        if process.sentinel not in wait([caller, process.sentinel]):
            # It says no more than it asked: its end has come.
            process.kill()
        process.join()
        with contextlib.suppress(OSError):
            caller.send(str(process.exitcode).encode())
        process.close()


def _be(words: Sequence[str], place: Place, streams: tuple[Any, ...], remembered: Path) -> None:
    remember_in(remembered)
    os.setsid()
    for number, stream in enumerate(each.detach() for each in streams):
        os.dup2(stream, number)
        os.close(stream)
    place.enter()
    be(PROGRAM, words)
