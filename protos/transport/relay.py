"""Makes the calls of devices through a relay of another party, by Oblivious HTTP (RFC 9458).

The relay learns who calls, and when; the shuffler learns what is called. A device connects to nothing but the relay: if
that fails, the call fails. What the relay answers in the open is nobody's word but its own, so it is never taken for an
answer of the shuffler: only what opens is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hubbub.protos.errors import Distrusted, HubbubError, KeyRecordError, MessageError, SignatureError, Unreachable
from hubbub.protos.oblivious.binary_http import BinaryRequest, only_once, read_response, write_request
from hubbub.protos.oblivious.encapsulation import REQUEST, RESPONSE, UNKNOWN_KEY, seal_request
from hubbub.protos.oblivious.key_records import RECORDS, ObliviousRecord, read_oblivious_record
from hubbub.protos.strict_json import read_json
from hubbub.protos.transport.addresses import HTTPS
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.https import (
    CALLS,
    TIMEOUT,
    TIMEOUT_DIGITS,
    HttpAnswer,
    HttpRequest,
    HTTPSChannel,
    call_headers,
    left,
)

_PERMANENT = frozenset({401, 403, 404, 405, 411, 413, 415, 501})
"""Statuses of a relay that stay: its URL, or what it takes, is another."""

_PROBLEM = "application/problem+json"


class Relay:
    """A relay, and the oblivious key as it was last got through it; connections of one link share it.

    `identity_after` returns the shuffler's public key (32 bytes), which must have signed the oblivious key, given
    successions that came with it. `clock` returns seconds since 1970.
    """

    def __init__(
        self, url: str, identity_after: Callable[[Sequence[bytes]], bytes], clock: Callable[[], float]
    ) -> None:
        self.address, _, path = url.removeprefix(HTTPS).partition("/")
        self.address, self.path = f"{HTTPS}{self.address}", f"/{path}"
        self._identity_after, self._clock = identity_after, clock
        self._record: ObliviousRecord | None = None

    def known(self) -> ObliviousRecord | None:
        """Return the key that is known, if it is valid now."""
        record = self._record
        return record if record is not None and record.not_before <= self._clock() <= record.not_after else None

    def forget(self) -> None:
        """Ask for the key again before the next call."""
        self._record = None

    def learn(self, answer: bytes) -> ObliviousRecord:
        """Return the key in an answer, and keep it.

        Raises:
            SignatureError, KeyRecordError: as `read_oblivious_record` does; and what `identity_after` raises.
        """
        self._record = read_oblivious_record(answer, self._identity_after, self._clock())
        return self._record


class RelayChannel(HTTPSChannel):
    """Connections to a relay, for calls of the shuffler at `authority`, which is not called itself."""

    def __init__(self, relay: Relay, authority: str, tls: TLS) -> None:
        """Open none yet.

        Raises:
            HubbubError: if a TLS file is missing.
            CertificateError: if one cannot be used.
        """
        super().__init__(relay.address, tls, "the relay")
        self._relay, self._authority = relay, authority.removeprefix(HTTPS).encode()

    # In threads

    def _called(self, method: str, body: bytes, until: float) -> HttpAnswer:
        record = self._relay.known()
        found = None if record is None else self._asked_through(record, method, body, until)
        if found is None:
            # No key, or one that the shuffler does not have any more.
            found = self._asked_through(self._fetched(until), method, body, until)
        if found is None:
            raise Unreachable(
                f"{self._what} has an old key of the shuffler, which does not open any more; try again later, and ask "
                "the relay's party whether it keeps old copies of keys"
            )
        return found

    def _fetched(self, until: float) -> ObliviousRecord:
        status, headers, answer = self._exchange(HttpRequest("GET", self._relay.path, None, _no_headers), until)
        if status != 200:
            raise self._refused(status)
        if headers.get("content-type") != RECORDS:
            raise Unreachable(f"{self._what} answered with something else than the oblivious keys")
        try:
            return self._relay.learn(answer)
        except (SignatureError, KeyRecordError, MessageError) as error:
            # Nothing is sent, as whoever made this key could read it. The same key would come again.
            raise Distrusted(f"{self._what} is not trusted: {error}") from error

    def _asked_through(self, record: ObliviousRecord, method: str, body: bytes, until: float) -> HttpAnswer | None:
        """Return the shuffler's answer; None if it does not have the key."""
        fields = tuple((name.lower().encode(), value.encode()) for name, value in _fields(left(until)).items())
        inside = BinaryRequest(b"POST", b"https", self._authority, f"{CALLS}{method}".encode(), fields, body)
        # Sealed anew each time: a relay cannot tell a second try from another call.
        sealed, opener = seal_request(record.configuration, write_request(inside))
        status, headers, answer = self._exchange(HttpRequest("POST", self._relay.path, sealed, _headers), until)
        if status != 200:
            if status == 400:
                if _names_unknown_key(headers, answer):
                    return None
                # Perhaps another key has the same id now, as in a new store of the shuffler's.
                self._relay.forget()
            raise self._refused(status)
        if headers.get("content-type") != RESPONSE:
            raise Unreachable(f"{self._what} answered with something else than {RESPONSE}")
        try:
            message = opener.open(answer)
        except MessageError as error:
            raise Unreachable(
                f"{self._what} passed on an answer that does not open; it was changed on its way"
            ) from error
        response = read_response(message)
        return response.status, _texts(only_once(response.fields)), response.content

    def _refused(self, status: int) -> HubbubError:
        said = f"{self._what} answered with HTTP status {status}"
        if status in _PERMANENT:
            return HubbubError(f"{said}; check `relay`, and that it passes on GET and POST to the shuffler")
        return Unreachable(said)


def _headers(_seconds: float) -> dict[str, str]:
    return {"Content-Type": REQUEST}


def _no_headers(_seconds: float) -> dict[str, str]:
    return {}


def _fields(seconds: float) -> dict[str, str]:
    """Return the fields of a call inside, which have one length however much time is left."""
    found = call_headers(seconds)
    return found | {TIMEOUT: found[TIMEOUT].zfill(TIMEOUT_DIGITS)}


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in fields.items()}


def _names_unknown_key(headers: Mapping[str, str], answer: bytes) -> bool:
    if headers.get("content-type", "").partition(";")[0] != _PROBLEM:
        return False
    try:
        document = read_json(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("type") == UNKNOWN_KEY
