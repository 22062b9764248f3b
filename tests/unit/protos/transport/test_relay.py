"""A device takes nothing from a relay but what opens, and what its shuffler signed; and it calls nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hubbub.client.session.trust import named_relay
from hubbub.client.submit import ShufflerLink
from hubbub.protos.errors import Distrusted, HubbubError, MessageError, Unreachable, UsageError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.oblivious.binary_http import BinaryResponse, read_request, write_response
from hubbub.protos.oblivious.encapsulation import REQUEST, RESPONSE, UNKNOWN_KEY, ObliviousKey, ObliviousKeys
from hubbub.protos.oblivious.key_records import RECORDS, ObliviousRecord, write_oblivious_records
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.task.admission import AdmissionPolicy, Mode
from hubbub.protos.transport import https
from hubbub.protos.transport.addresses import HostError, checked_relay
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.https import call_headers
from hubbub.protos.transport.relay import Relay, RelayChannel, _fields
from hubbub.protos.v1 import submission_pb2
from support.patience import CALL_SECONDS
from support.samples import make_tls
from vectors.make_signed import vector_task

NOW = 1_800_000_000.0
SHUFFLER = Identity.generate()
KEYS = [ObliviousKey.derived(number, bytes([number] * 32)) for number in (1, 2)]
PROTO = (b"content-type", b"application/proto")

Answer = tuple[int, str, bytes]


def signed(key: ObliviousKey, identity: Identity = SHUFFLER, now: float = NOW) -> bytes:
    return write_oblivious_records([ObliviousRecord.at(key.configuration, now).signed_by(identity)])


class RelayStub:
    """What answers a device: `keys` to GET, and `answer` to each POST, by its body."""

    def __init__(self, answer: Callable[[bytes], Answer], keys: Answer | None = None) -> None:
        self.keys = keys or (200, RECORDS, signed(KEYS[0]))
        self.answer = answer
        self.asked: list[str] = []
        self.bodies: list[bytes] = []
        self.heads: list[list[str]] = []
        self.url = ""

    @contextlib.contextmanager
    def open(self, tls: TLS) -> Iterator[RelayStub]:
        stub = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                stub.asked.append("GET")
                self._answer(*stub.keys)

            def do_POST(self) -> None:
                stub.asked.append("POST")
                stub.heads.append(sorted(name.lower() for name in self.headers))
                stub.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                assert self.headers["content-type"] == REQUEST
                self._answer(*stub.answer(stub.bodies[-1]))

            def _answer(self, status: int, form: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", form)
                # As from a relay that would speak for the shuffler.
                self.send_header("hubbub-reason", "too_late")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(tls.certificate), str(tls.key))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.url = f"https://127.0.0.1:{server.server_address[1]}/ohttp"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "service")["service"]


def opening(*keys: ObliviousKey, response: BinaryResponse | None = None) -> Callable[[bytes], Answer]:
    """Answers as a shuffler with these keys does."""
    response = response or BinaryResponse(
        200, (PROTO,), submission_pb2.GetFeedResponse(entries=[b"e"]).SerializeToString()
    )

    def answer(body: bytes) -> Answer:
        if body[0] not in {key.key_id for key in keys}:
            return 400, "application/problem+json", json.dumps({"type": UNKNOWN_KEY}).encode()
        message, sealer = ObliviousKeys(keys).open(body)
        request = read_request(message)
        assert (request.method, request.path) == (b"POST", b"/hubbub.v1.SubmissionService/GetFeed")
        assert request.authority == b"shuffler.example.org:7308"
        return 200, RESPONSE, sealer.seal(write_response(response))

    return answer


async def called(
    stub: RelayStub, tls: TLS, times: int = 1, clock: Callable[[], float] = lambda: NOW
) -> tuple[bytes, ...]:
    relay = Relay(stub.url, lambda _successions: SHUFFLER.public, clock)
    async with RelayChannel(relay, "https://shuffler.example.org:7308", TLS(tls.authority)) as channel:
        for _ in range(times):
            found = await SubmissionCaller(channel).get_feed(1, CALL_SECONDS)
    return found.entries


@pytest.mark.parametrize("seconds", [10.0, 9.999, 0.1, 0.0004, 1e12])
def test_the_fields_of_a_call_have_one_length_however_much_time_is_left(seconds: float) -> None:
    """A relay could tell first tries from later ones otherwise, wherever a digit begins another block of padding."""
    milliseconds = _fields(seconds)["Connect-Timeout-Ms"]
    assert len(milliseconds) == 10
    assert int(milliseconds) == int(call_headers(seconds)["Connect-Timeout-Ms"]) >= 1


async def test_what_a_call_has_inside_has_one_length(tls: TLS) -> None:
    with RelayStub(opening(KEYS[0])).open(tls) as stub:
        await called(stub, tls)
    request = read_request(ObliviousKeys(KEYS).open(stub.bodies[0])[0])
    assert [(name, len(value)) for name, value in request.fields if b"timeout" in name] == [(b"connect-timeout-ms", 10)]


async def test_a_call_goes_through_and_the_key_is_got_once(tls: TLS) -> None:
    with RelayStub(opening(KEYS[0])).open(tls) as stub:
        assert await called(stub, tls, times=3) == (b"e",)
        assert stub.asked == ["GET", "POST", "POST", "POST"]
        assert len(set(stub.bodies)) == 3
        assert len({len(body) for body in stub.bodies}) == 1
        # Nothing in the open tells devices, versions or languages apart.
        assert {*map(tuple, stub.heads)} == {("accept-encoding", "content-length", "content-type", "host")}


async def test_a_refusal_of_the_shuffler_is_one(tls: TLS) -> None:
    fields = (
        (b"content-type", b"application/json"),
        (b"hubbub-reason", b"overloaded"),
        (b"hubbub-retry-after-ms", b"1500"),
    )
    response = BinaryResponse(429, fields, b'{"code":"resource_exhausted","message":"later"}')
    with RelayStub(opening(KEYS[0], response=response)).open(tls) as stub, pytest.raises(Refusal) as caught:
        await called(stub, tls)
    assert (caught.value.reason, caught.value.message, caught.value.retry_after) == (Reason.OVERLOADED, "later", 1.5)


@pytest.mark.parametrize("status", [400, 408, 429, 500, 502, 503])
async def test_what_a_relay_says_itself_is_no_refusal(tls: TLS, status: int) -> None:
    """It could make a device discard its answer otherwise, as one that came too late."""
    body = b'{"code":"failed_precondition","message":"it is over"}'
    stub, told = RelayStub(lambda _: (status, "application/json", body)), f"relay .* HTTP status {status}"
    with stub.open(tls), pytest.raises(Unreachable, match=told):
        await called(stub, tls)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 413, 415])
async def test_a_relay_that_takes_no_such_requests_is_no_reason_to_try_again(tls: TLS, status: int) -> None:
    for stub in (RelayStub(opening(KEYS[0]), keys=(status, "text/html", b"")), RelayStub(lambda _: (status, "", b""))):
        with stub.open(tls), pytest.raises(HubbubError, match="check `relay`") as caught:
            await called(stub, tls)
        assert not isinstance(caught.value, Unreachable | Refusal)


def flipped(answer: Answer) -> Answer:
    return *answer[:2], answer[2][:-1] + bytes([answer[2][-1] ^ 1])


@pytest.mark.parametrize(
    "answer",
    [
        lambda body: flipped(opening(KEYS[0])(body)),
        lambda _: (200, RESPONSE, b""),
        lambda body: (200, RESPONSE, opening(KEYS[0])(body)[2][:40]),
        lambda _: (200, "text/html", b"<p>please log in"),
        lambda body: (200, "application/proto", opening(KEYS[0])(body)[2]),
    ],
)
async def test_an_answer_that_does_not_open_is_none(tls: TLS, answer: Callable[[bytes], Answer]) -> None:
    with RelayStub(answer).open(tls) as stub, pytest.raises(Unreachable, match="relay"):
        await called(stub, tls)


@pytest.mark.parametrize("status", [200, 502])
async def test_an_answer_that_is_too_long_is_none(tls: TLS, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is in between sends it: the shuffler's word is not in it, and a device tries again."""
    monkeypatch.setattr(https, "MAXIMUM_MESSAGE_BYTES", 4000)
    long: Answer = (status, RESPONSE, b"x" * 5000)
    for stub in (RelayStub(lambda _: long), RelayStub(opening(KEYS[0]), keys=long)):
        with stub.open(tls), pytest.raises(Unreachable, match=r"the relay at .* answered with more than 4000 bytes"):
            await called(stub, tls)


async def test_what_opens_and_is_malformed_is_the_shufflers_fault(tls: TLS) -> None:
    twice = BinaryResponse(200, (PROTO, PROTO))
    for response in (BinaryResponse(200, (PROTO,), b"\xff"), twice):
        with RelayStub(opening(KEYS[0], response=response)).open(tls) as stub, pytest.raises(MessageError):
            await called(stub, tls)


@pytest.mark.parametrize(
    "keys",
    [
        (200, RECORDS, signed(KEYS[0], Identity.generate())),
        (200, RECORDS, signed(KEYS[0], now=NOW - 40 * 86_400)),
        (200, RECORDS, signed(KEYS[0], now=NOW + 2 * 86_400)),
        (200, RECORDS, b"{}"),
        (200, RECORDS, b""),
    ],
)
async def test_a_key_that_the_shuffler_did_not_sign_for_now_is_not_used(tls: TLS, keys: Answer) -> None:
    """Whoever relays could read everything otherwise."""
    with RelayStub(opening(KEYS[0]), keys).open(tls) as stub, pytest.raises(Distrusted, match="relay"):
        await called(stub, tls)
    assert stub.asked == ["GET"]


async def test_keys_of_another_form_are_none(tls: TLS) -> None:
    stub = RelayStub(opening(KEYS[0]), (200, "text/html", signed(KEYS[0])))
    with stub.open(tls), pytest.raises(Unreachable, match="something else than the oblivious keys"):
        await called(stub, tls)


async def test_a_key_that_is_gone_is_asked_for_again_once(tls: TLS) -> None:
    with RelayStub(opening(KEYS[1])).open(tls) as stub:
        with pytest.raises(Unreachable, match="old key"):
            await called(stub, tls)
        assert stub.asked == ["GET", "POST"]
        relay = Relay(stub.url, lambda _successions: SHUFFLER.public, lambda: NOW)
        async with RelayChannel(relay, "https://shuffler.example.org:7308", TLS(tls.authority)) as channel:
            with pytest.raises(Unreachable, match="old key"):
                await SubmissionCaller(channel).get_feed(1, CALL_SECONDS)
            stub.keys = (200, RECORDS, signed(KEYS[1]))
            stub.asked.clear()
            assert (await SubmissionCaller(channel).get_feed(1, CALL_SECONDS)).entries == (b"e",)
        assert stub.asked == ["POST", "GET", "POST"]


async def test_after_a_request_that_does_not_open_the_key_is_asked_for_again(tls: TLS) -> None:
    """A shuffler with a new store has another key, which may have the same id."""
    new = ObliviousKey.derived(KEYS[0].key_id, bytes(32))
    answer = opening(new)

    def tried(body: bytes) -> Answer:
        try:
            return answer(body)
        except MessageError:
            return 400, "application/json", b'{"code":"invalid_argument"}'

    with RelayStub(tried).open(tls) as stub:
        relay = Relay(stub.url, lambda _successions: SHUFFLER.public, lambda: NOW)
        async with RelayChannel(relay, "https://shuffler.example.org:7308", TLS(tls.authority)) as channel:
            with pytest.raises(Unreachable, match="400"):
                await SubmissionCaller(channel).get_feed(1, CALL_SECONDS)
            stub.keys = (200, RECORDS, signed(new))
            assert (await SubmissionCaller(channel).get_feed(1, CALL_SECONDS)).entries == (b"e",)
        assert stub.asked == ["GET", "POST", "GET", "POST"]


async def test_a_key_whose_time_is_over_is_asked_for_again(tls: TLS) -> None:
    now = [NOW]
    with RelayStub(opening(*KEYS)).open(tls) as stub:
        relay = Relay(stub.url, lambda _successions: SHUFFLER.public, lambda: now[0])
        async with RelayChannel(relay, "https://shuffler.example.org:7308", TLS(tls.authority)) as channel:
            await SubmissionCaller(channel).get_feed(1, CALL_SECONDS)
            now[0] += 20 * 86_400
            stub.keys = (200, RECORDS, signed(KEYS[1], now=now[0]))
            await SubmissionCaller(channel).get_feed(1, CALL_SECONDS)
    assert stub.asked == ["GET", "POST", "GET", "POST"]
    assert [body[0] for body in stub.bodies] == [1, 2]


async def test_a_relay_with_another_authoritys_certificate_is_not_called(tls: TLS, tmp_path: object) -> None:
    other = make_tls(tmp_path, "service")["service"]  # type: ignore[arg-type]
    with RelayStub(opening(KEYS[0])).open(other) as stub, pytest.raises(Distrusted, match="relay"):
        await called(stub, tls)
    assert stub.asked == []


async def test_a_link_with_a_relay_has_no_other_channel(tls: TLS) -> None:
    relay = Relay("https://localhost:1/ohttp", lambda _successions: SHUFFLER.public, time.time)
    for address in ("a:1", "https://a:1", "a:1,b:2,https://c:3"):
        async with ShufflerLink(address, TLS(tls.authority), relay) as link:
            assert isinstance(link.channel(), RelayChannel)
            with pytest.raises(Unreachable, match="relay at https://localhost:1"):
                await link.caller.get_feed(1, CALL_SECONDS)
            assert [type(channel) for channel in link._channels[asyncio.get_running_loop()].values()] == [RelayChannel]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("https://relay.example.org/ohttp", "https://relay.example.org:443/ohttp"),
        ("https://Relay.example.org", "https://relay.example.org:443/"),
        ("https://relay.example.org:8443/a/b", "https://relay.example.org:8443/a/b"),
        ("https://[2001:db8::7]/x", "https://[2001:db8::7]:443/x"),
        ("https://[2001:db8::7]:8443/x", "https://[2001:db8::7]:8443/x"),
    ],
)
def test_the_url_of_a_relay_is_read(given: str, found: str) -> None:
    assert checked_relay(given) == found == checked_relay(found)


@pytest.mark.parametrize(
    "given",
    [
        *("", "relay.example.org", "http://relay.example.org/", "https://", "https://a:b@relay.example.org/"),
        *("https://a/?b", "https://a/b c", "https://a/#b", "https://a:0/", "https://a:/", "https://a:99999/"),
    ],
)
def test_what_is_no_url_of_a_relay_is_refused(given: str) -> None:
    with pytest.raises(HostError) as caught:
        checked_relay(given)
    assert "a:b" not in str(caught.value)
    with pytest.raises(UsageError):
        named_relay(given)


def test_a_relay_that_is_no_text_is_refused() -> None:
    assert named_relay(None) is None
    with pytest.raises(UsageError, match="of type bytes"):
        named_relay(b"https://relay.example.org/ohttp")


def test_a_task_that_admits_by_certificates_is_not_answered_through_a_relay() -> None:
    url = "https://relay.example.org/ohttp"
    assert named_relay(url, vector_task()) == checked_relay(url)
    task = replace(vector_task(), admission=AdmissionPolicy(Mode.MTLS))
    with pytest.raises(UsageError, match="which a relay cannot pass on"):
        named_relay(url, task)
