"""Hosts are names or addresses as they go over the wire; whatever else is given is refused, saying what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hubbub.protos.transport.addresses import HostError, bracketed, checked_address, checked_host, checked_target


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("shuffler.example.org", "shuffler.example.org"),
        ("Shuffler.Example.ORG.", "shuffler.example.org"),
        ("localhost", "localhost"),
        ("a", "a"),
        ("my_shuffler", "my_shuffler"),
        ("x--y.example", "x--y.example"),
        (f"{'a' * 63}.example", f"{'a' * 63}.example"),
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("MÜNCHEN.example", "xn--mnchen-3ya.example"),
        ("日本.example", "xn--wgv71a.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("[::1]", "::1"),
    ],
)
def test_names_and_addresses_are_returned_as_they_are_called(given: str, host: str) -> None:
    assert checked_host(given) == host
    assert checked_host(host) == host


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "a host is empty"),
        ("https://x/", "is a URL or a path"),
        ("x/y", "is a URL or a path"),
        ("host:7301", "without a port"),
        ("[::1]:7301", "without a port"),
        ("1:2", "without a port"),
        ("a b", "is not a host: its part 'a b'"),
        (" a", "is not a host"),
        ("a\n", "is not a host"),
        ("-a.example", "its part '-a'"),
        ("a-.example", "its part 'a-'"),
        ("a..example", "its part ''"),
        (".example", "its part ''"),
        (".", "its part ''"),
        ("*.example.org", r"its part '\*'"),
        ("user@example.org", "its part 'user@example'"),
        (f"{'a' * 64}.example", "is too long: a name has at most 253 characters, and each part of it 63"),
        (".".join(["a" * 49] * 6), "is too long"),
        ("300.1.1.1", "ends in a number and is not an IPv4 address"),
        ("127.1", "ends in a number"),
        ("2130706433", "ends in a number"),
        ("0x7f000001", "ends in a number"),
        ("日 本.example", "is not an international name"),
        ("ü" * 70 + ".example", "is not an international name"),
        ("\ud800.example", "is not an international name"),
        ("fe80::1%eth0", "has a zone"),
        ("0.0.0.0", "for listening only, and cannot be called"),
        ("::", "for listening only, and cannot be called"),
    ],
)
def test_what_is_not_a_host_is_refused_by_what_it_is(given: str, words: str) -> None:
    with pytest.raises(HostError, match=words):
        checked_host(given)


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_every_address_can_be_listened_at(address: str) -> None:
    assert checked_host(address, listening=True) == address


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("Shuffler.example:7301", "shuffler.example:7301"),
        ("[2001:DB8::7]:1", "[2001:db8::7]:1"),
        ("münchen.example:65535", "xn--mnchen-3ya.example:65535"),
        ("127.0.0.1:7301", "127.0.0.1:7301"),
    ],
)
def test_addresses_have_a_host_and_a_port(given: str, address: str) -> None:
    assert checked_address(given) == address


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "is not host:port"),
        ("host", "is not host:port"),
        (":7301", "is not host:port"),
        ("host:", "is not host:port"),
        ("host:65536", "a port from 0 to 65535"),
        ("host:-1", "is not host:port"),
        ("host:٣", "is not host:port"),
        ("https://host:7301", r"is a URL or a path; give host:port, such as analyzer\.example\.org:7401$"),
        ("::1:7301", "in brackets"),
        ("[fe80::1%eth0]:7301", "has a zone, which only one machine understands"),
        ("[::]:7301", "for listening only, and cannot be called"),
        ("[::1:7301", "is neither a name nor an IPv6 address"),
        ("host:0", "port 0, which cannot be called"),
        ("0.0.0.0:7301", "for listening only, and cannot be called"),
    ],
)
def test_what_is_not_an_address_is_refused(given: str, words: str) -> None:
    with pytest.raises(HostError, match=words):
        checked_address(given)


def test_a_port_may_be_left_to_the_system_where_it_is_listened_at() -> None:
    assert checked_address("[::]:0", listening=True) == "[::]:0"
    assert [bracketed(host) for host in ("::1", "a")] == ["[::1]", "a"]


@pytest.mark.parametrize("address", ["me:hidden@host:7301", "https://me:hidden@host:7301/", "https://hidden@host/x"])
@pytest.mark.parametrize("check", [checked_address, checked_target])
def test_a_password_in_an_address_is_refused_and_not_shown(address: str, check: Callable[[str], str]) -> None:
    with pytest.raises(HostError, match="has a name or a password before its host; give host:port") as refused:
        check(address)
    assert "hidden" not in str(refused.value)
