"""A served log has its files and nothing else, and is read over HTTPS as it is from its folder."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hubbub.deploy.transparency_log import fetch, serve
from hubbub.deploy.transparency_log.fetch import opened_log
from hubbub.deploy.transparency_log.serve import LogServer, _LogHandler, serve_log, tls_context
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.transparency_log.proving import prove_logged
from hubbub.protos.transparency_log.tiles import NoSuchFile, read_checkpoint, tree_of_log
from hubbub.service.transport.client_addresses import OpenConnections
from support.patience import PATIENCE
from support.samples import make_tls
from support.transparency_logs import TRUSTED, document, log_of


@dataclass
class Served:
    server: LogServer
    folder: Path
    address: str
    authority: Path

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.authority))
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)

    def get(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    base = tmp_path_factory.mktemp("served")
    folder = log_of(base / "log", 300)
    (folder / ".hubbub-secret.partial").write_bytes(b"secret")
    (folder / "stray").write_bytes(b"secret")
    make_tls(base, "shuffler")
    server = LogServer(folder, ("127.0.0.1", 0), tls_context(base / "shuffler.pem", base / "shuffler.key"))
    addresses: list[str] = []
    told = threading.Event()

    def ready(address: str) -> None:
        addresses.append(address)
        told.set()

    thread = threading.Thread(target=serve_log, args=(server, ready))
    thread.start()
    try:
        assert told.wait(PATIENCE)
        yield Served(server, folder, addresses[0], base / "authority.pem")
    finally:
        server.shutdown()
        thread.join(PATIENCE)


def test_a_log_at_an_address_proves_what_its_folder_does(served: Served) -> None:
    with opened_log(served.address + "/", served.authority) as files:
        signed = read_checkpoint(files)
        signed.check(TRUSTED)
        assert tree_of_log(files, signed).size == 300
        proof = prove_logged(files, document(299))
        proof.check(document(299), TRUSTED)
        with pytest.raises(
            NoSuchFile, match=r"there is no https://127.0.0.1:\d+/tile/5/000; give the address of a log"
        ):
            files("tile/5/000", 8192)
        # After an answer that was longer than it may be, the next one is right all the same.
        with pytest.raises(HubbubError, match=r"tile/0/000 has more than 100 bytes"):
            files("tile/0/000", 100)
        assert len(files("tile/0/000", 8192)) == 8192
    with opened_log(str(served.folder)) as files:
        assert prove_logged(files, document(299)) == proof


def test_only_files_of_a_log_are_served(served: Served) -> None:
    for path in ("/", "/stray", "/.hubbub-secret.partial", "/tile", "/tile/0/../../stray", "/%2e%2e/x", "//stray"):
        status, _headers, content = served.get(path)
        assert (status, content) == (404, b"no such file of the log\n"), path
    assert served.get("/checkpoint", "POST")[0] == 501


def test_what_no_checkpoint_covers_is_not_served_as_something_else_may_come_in_its_place(served: Served) -> None:
    left = ("entry/300.json", "tile/0/001.p/45", "tile/0/001", "tile/1/000.p/2")
    for path in left:
        (served.folder / path).write_bytes(b"left by an addition that was killed")
    try:
        for path in left:
            status, headers, _content = served.get(f"/{path}")
            assert (status, headers["Cache-Control"]) == (404, "no-cache"), path
        for path in ("entry/299.json", "tile/0/001.p/44", "tile/0/000", "tile/1/000.p/1"):
            assert served.get(f"/{path}")[0] == 200, path
    finally:
        for path in left:
            (served.folder / path).unlink()


def answers_to(served: Served, lines: str) -> bytes:
    """Everything that is answered to a request with these lines, and one inside it."""
    inside = b"GET /tile/0/000 HTTP/1.1\r\nHost: a.example\r\n\r\n"
    context = ssl.create_default_context(cafile=str(served.authority))
    with (
        socket.create_connection(("127.0.0.1", served.port), PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(f"GET /checkpoint HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n\r\n".encode() + inside)
        answers = b""
        # An answer after which the connection stays open shows it in its head: nobody waits for the end then.
        while part := connection.recv(65536):
            answers += part
            if b"\r\n\r\n" in answers and b"Connection: close" not in answers:
                break
    assert answers.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answers
    return answers


@pytest.mark.parametrize("more", ["Content-Length: 44", "Transfer-Encoding: chunked"])
def test_the_content_of_a_request_is_never_the_next_request(served: Served, more: str) -> None:
    assert answers_to(served, more).endswith((served.folder / "checkpoint").read_bytes())


@pytest.mark.parametrize("lines", ["Content-Length : 44", "no header\r\nContent-Length: 44"])
def test_nor_is_it_behind_a_line_that_is_no_header(served: Served, lines: str) -> None:
    """What follows such a line is not read, so it may say that the request has content."""
    assert answers_to(served, lines).startswith(b"HTTP/1.1 400 ")


def test_a_file_says_its_kind_and_how_long_it_lasts(served: Served) -> None:
    for path, kind, lasts in (
        ("checkpoint", "text/plain; charset=utf-8", "no-cache"),
        ("tile/0/000", "application/octet-stream", "public, max-age=31536000, immutable"),
        ("entry/299.json", "application/json", "public, max-age=31536000, immutable"),
    ):
        status, headers, content = served.get(f"/{path}")
        assert (status, content) == (200, (served.folder / path).read_bytes())
        assert (headers["Content-Type"], headers["Cache-Control"]) == (kind, lasts)
        again, same, nothing = served.get(f"/{path}", "HEAD")
        assert (again, same["Content-Length"], nothing) == (200, str(len(content)), b"")
    assert served.get("/tile/0/009")[1]["Cache-Control"] == "no-cache"


def until_closed(connection: socket.socket, byte: bytes = b"") -> bool:
    """Whether the other side ends a connection; meanwhile it is sent that byte, again and again."""
    ends = time.monotonic() + PATIENCE
    connection.settimeout(0.05)
    while time.monotonic() < ends:
        try:
            connection.sendall(byte)
            if not connection.recv(65536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer for a handshake than a server allows."""
    monkeypatch.setattr(serve, "REQUEST_SECONDS", PATIENCE)


def wait_until_nobody_is_connected(server: LogServer) -> None:
    ends = time.monotonic() + PATIENCE
    while server._open and time.monotonic() < ends:
        time.sleep(0.01)
    assert not server._open


@pytest.fixture
def alone(served: Served) -> Served:
    """The server when nobody is connected any more."""
    wait_until_nobody_is_connected(served.server)
    assert served.server._counted == OpenConnections(serve.MOST_CONNECTIONS, serve.MOST_OF_ADDRESS)
    return served


def test_one_address_has_its_share_of_the_connections_and_no_more(alone: Served) -> None:
    """While none of them says anything: they hold up nobody else."""
    with contextlib.ExitStack() as opened:
        for _ in range(serve.MOST_OF_ADDRESS):
            opened.enter_context(socket.create_connection(("127.0.0.1", alone.port), PATIENCE))
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", alone.port), PATIENCE) as refused:
                assert until_closed(refused)
        elsewhere = alone.connection()
        elsewhere.source_address = ("127.0.0.2", 0)
        with contextlib.closing(elsewhere):
            elsewhere.request("GET", "/checkpoint")
            assert elsewhere.getresponse().status == 200


def test_all_together_have_so_many_connections_and_no_more(alone: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone.server, "_counted", OpenConnections(2, 2))
    with contextlib.ExitStack() as opened:
        for _ in range(2):
            opened.enter_context(socket.create_connection(("127.0.0.1", alone.port), PATIENCE))
        with socket.create_connection(("127.0.0.1", alone.port), PATIENCE, ("127.0.0.2", 0)) as refused:
            assert until_closed(refused)
    wait_until_nobody_is_connected(alone.server)
    assert alone.server._counted == OpenConnections(2, 2)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x40\x00"])
def test_a_handshake_that_does_not_get_on_is_ended(alone: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Nothing of it, or the head of a record of 16 KiB that then comes byte by byte: so it is never idle."""
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", alone.port), PATIENCE) as connection:
        connection.sendall(sent)
        assert until_closed(connection, sent[-1:])


def test_a_request_that_does_not_get_on_is_ended(alone: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_self: object, _path: str) -> bytes:
        # Only the next request must be soon there.
        monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.5)
        return b"one"

    monkeypatch.setattr(_LogHandler, "_file", answer)
    with contextlib.closing(alone.connection()) as connection:
        connection.request("GET", "/checkpoint")
        assert connection.getresponse().read() == b"one"
        connection.sock.sendall(b"GET /checkpoint HTTP/1.1\r\nMore: ")
        assert until_closed(connection.sock, b"x")


def test_an_answer_that_is_not_taken_is_ended(alone: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(_LogHandler, "_file", lambda _self, _path: bytes(64 * 2**20))
    with contextlib.closing(alone.connection()) as connection:
        connection.request("GET", "/entry/000.json")
        wait_until_nobody_is_connected(alone.server)
        with pytest.raises((http.client.IncompleteRead, OSError)):
            connection.getresponse().read()


def test_an_old_connection_ends_with_its_next_answer(alone: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(alone.connection()) as connection:
        for age, told in ((1800.0, None), (0.0, "close")):
            monkeypatch.setattr(serve, "AGE_SECONDS", age)
            connection.request("GET", "/checkpoint")
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Connection"]) == (200, told)
            answer.read()


def test_a_server_that_never_ends_its_answer_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LONGEST", 0.5)
    context = tls_context(served.authority.with_name("shuffler.pem"), served.authority.with_name("shuffler.key"))

    accepted: list[socket.socket] = []

    def answer(listening: socket.socket, begun: bytes, part: bytes) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(listening.accept()[0], server_side=True) as connection:
            accepted.append(connection)
            connection.recv(65536)
            connection.sendall(begun)
            while True:
                connection.sendall(part)

    # Each is read on and on, without an end and without a pause.
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    for begun, part, path in (
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "checkpoint"),
        (chunked, b"More: 1\r\n", "tile/0/000"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=answer, args=(listening, begun, part), daemon=True)
            thread.start()
            address = f"https://127.0.0.1:{listening.getsockname()[1]}"
            refused = pytest.raises(HubbubError, match=rf"cannot get {address}/{path}: it took more than 0.5 seconds")
            with opened_log(address, served.authority) as files, refused:
                files(path, 100)
            # It may wait for a reader that is gone.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(accepted.pop(), socket.SHUT_RDWR)
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_another_authority_or_address_is_refused(served: Served, tmp_path: Path) -> None:
    make_tls(tmp_path, "shuffler")
    refused = pytest.raises(
        HubbubError, match=r"cannot get https://127.0.0.1:\d+/checkpoint: .*not trusted.*--authority"
    )
    with opened_log(served.address, tmp_path / "authority.pem") as files, refused:
        files("checkpoint", 100)


@pytest.mark.parametrize(
    "place",
    ["http://a.example", "ftp://a.example", "https://", "https://a.example/?q", "https://a.example/#f", "https://[",
     "https://u@a.example", "https://a.example:99999", "https://a.example/b c", "https://a.example/\u00fc"],
)  # fmt: skip
def test_what_is_no_address_is_refused(place: str) -> None:
    refused = pytest.raises(UsageError, match=r"is no address of a log; give one as https://stats.example/log, or a")
    with refused, opened_log(place):
        pass


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    make_tls(tmp_path, "shuffler", "analyzer")
    with pytest.raises(HubbubError, match=r"are no certificate and its private key; give both"):
        tls_context(tmp_path / "shuffler.pem", tmp_path / "analyzer.key")
    with pytest.raises(HubbubError, match=r"cannot read .*missing.pem: No such file"):
        tls_context(tmp_path / "missing.pem", tmp_path / "analyzer.key")
    (tmp_path / "empty").touch()
    for name, message in (
        ("empty", r"has no certificates; give the authority's PEM file"),
        ("missing", r"cannot read"),
    ):
        with pytest.raises(HubbubError, match=message), opened_log("https://a.example", tmp_path / name):
            pass


def test_a_port_that_is_taken_is_named(served: Served) -> None:
    context = tls_context(served.authority.with_name("shuffler.pem"), served.authority.with_name("shuffler.key"))
    with pytest.raises(HubbubError, match=r"cannot listen at 127.0.0.1, port \d+: .*; choose another with"):
        LogServer(served.folder, ("127.0.0.1", served.port), context)
    with pytest.raises(HubbubError, match=r"cannot listen at nowhere.invalid"):
        LogServer(served.folder, ("nowhere.invalid", 0), context)
