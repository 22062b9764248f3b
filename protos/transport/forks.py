"""Keeps a forked process from calls by gRPC that would never return.

`grpc.aio` waits for the network in one thread of its own, as long as one of its channels or calls exists. A forked
process inherits the channels, but not the thread, and gRPC starts no other one. There each call would wait for ever,
whatever its deadline is. It would also take wake-ups from the socket that it shares with its parent, so that the
parent's calls would wait for ever too. So such a process is told before its first call.

A failed call and its traceback refer to each other. Until they are collected they keep a channel, and with it the
thread, although nothing is in work any more. So they are collected before a fork.
"""

from __future__ import annotations

import gc
import os
import threading

from hubbub.protos.errors import CannotCall

POLLER = "(_poll_wrapper)"
"""The end of the name of the thread in which `grpc.aio` waits for the network."""


class _Forks:
    """What is known of the forks that led to this process."""

    def __init__(self) -> None:
        self._is_calling = False
        self._is_cut_off = False

    def before(self) -> None:
        """Note whether the process that forks uses gRPC at this moment."""
        if _polls():
            gc.collect()
        self._is_calling = _polls()

    def in_child(self) -> None:
        """Note that gRPC can be used no more, in this process and in those that it forks."""
        self._is_cut_off |= self._is_calling

    def check(self) -> None:
        """Do what `check_forks` promises."""
        if self._is_cut_off:
            raise CannotCall(
                "this process was forked while its parent had a connection by gRPC, so its own calls would never "
                "return; fork before the first call, start it by spawn or forkserver, or give the shuffler's HTTPS "
                "address, https://host:port"
            )


_FORKS = _Forks()


def check_forks() -> None:
    """Check that this process can call by gRPC.

    Raises:
        CannotCall: if it was forked while its parent had a connection.
    """
    _FORKS.check()


def _polls() -> bool:
    return any(thread.name.endswith(POLLER) for thread in threading.enumerate())


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(before=_FORKS.before, after_in_child=_FORKS.in_child)
