"""A process takes all the files that it may have, and no more connections than they have room for."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import structlog

from hubbub.service.transport.file_limits import FEWEST_CONNECTIONS, RESERVED, connections_at, fitting
from support.ended_with_test import started_program

SHOW = """
import json, resource, sys
from hubbub.service.transport.file_limits import fitting, raise_limit
raised = raise_limit()
print(json.dumps([raised, resource.getrlimit(resource.RLIMIT_NOFILE)[0], fitting(int(sys.argv[1]), 3)]))
"""


def shown(soft: int, hard: int, connections: int) -> list[int]:
    """What a process says that was started with these limits."""
    limits = f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec "$@"'
    program = ["sh", "-c", limits, "sh", sys.executable, "-c", SHOW, str(connections)]
    printed = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    found: list[int] = json.loads(printed.splitlines()[-1])
    return found


def test_the_limit_is_raised_to_what_the_system_lets_it_have() -> None:
    assert shown(256, 4096, 1000) == [4096, 4096, 1000]


def test_fewer_connections_are_taken_where_there_is_no_room() -> None:
    assert shown(256, 1000, 2000) == [1000, 1000, (1000 - RESERVED) // 3]
    assert shown(200, 200, 2000)[2] == FEWEST_CONNECTIONS


def test_fewer_connections_than_set_are_logged_with_what_to_do() -> None:
    with structlog.testing.capture_logs() as logs:
        fitting(10**9, 2)
    (line,) = logs
    assert line["event"] == "fewer connections than set"
    assert f"LimitNOFILE, ulimit -n) to {2 * 10**9 + RESERVED}" in line["hint"]


def test_connections_of_another_process_at_the_same_port_are_not_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        callers = [socket.create_connection(server.getsockname()) for _ in range(30)]
        accepted = [server.accept()[0] for _ in callers]
        assert connections_at(port, 30) == 30
        assert connections_at(port, 10_000) == 0
        holds = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
        files = [each.fileno() for each in accepted[:20]]
        with started_program(holds, pass_fds=files, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            for each in accepted[:20]:
                each.close()
            assert connections_at(port, 10) == 10
        for each in (*callers, *accepted):
            each.close()


CHECK = "from hubbub.service.transport.file_limits import check_limit; check_limit(3, 2000, 4)"
CALL = """
from pathlib import Path
from hubbub.protos.transport.channels import TLS, open_channel
open_channel("127.0.0.1:1", TLS(Path("none")))
"""


def refused(limit: int, program: str) -> str:
    """The last line of what a program says that may have so many open files."""
    command = ["sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.stderr else ""


def test_a_service_without_the_files_that_it_needs_is_refused_with_what_to_do() -> None:
    assert "may have 40 open files, and needs 128: 64 of its own, 16 connections at each of 3 ports" in (
        found := refused(40, CHECK)
    )
    assert f"to {3 * 2000 + RESERVED + 4 * 4}, which is enough" in found
    assert refused(128, CHECK) == ""


def test_a_client_without_files_for_a_call_is_told_before_grpc_ends_the_process() -> None:
    assert "CannotCall: this process may have 12 open files and has" in refused(12, CALL)
    assert "none: No such file" in refused(64, CALL)
