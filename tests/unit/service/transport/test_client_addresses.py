"""Connections are counted by what one subscriber has, and none has all of them."""

from __future__ import annotations

import pytest

from hubbub.service.transport.client_addresses import OpenConnections, network_of


def test_an_ipv6_address_counts_as_its_64_bits_and_one_of_ipv4_as_itself_however_it_is_written() -> None:
    """At a port of both families callers by IPv4 come as ::ffff:…; by 64 bits all of them would be one caller."""
    assert len({network_of(f"2001:db8:0:1::{number:x}") for number in range(1, 1000, 99)}) == 1
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8:0:2::1")
    assert [network_of(each) for each in ("::ffff:192.0.2.7", "192.0.2.7")] == ["192.0.2.7"] * 2
    assert network_of("::ffff:192.0.2.8") != network_of("::ffff:192.0.2.7")
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth1")


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"does not appear to be an IPv4 or IPv6 address"):
        network_of("a.example")


def test_there_is_room_until_all_connections_or_those_of_the_address_are_open() -> None:
    counted = OpenConnections(3, 2)
    for _ in range(2):
        assert counted.has_room("192.0.2.7")
        counted.add("192.0.2.7")
    assert (counted.has_room("192.0.2.7"), counted.has_share("192.0.2.7"), counted.is_full) == (False, True, False)
    assert counted.has_room("192.0.2.8")
    counted.add("192.0.2.8")
    assert (counted.has_room("192.0.2.9"), counted.has_share("192.0.2.9"), counted.is_full) == (False, False, True)
    for network in ("192.0.2.7", "192.0.2.7", "192.0.2.8"):
        counted.remove(network)
        assert counted.has_room("192.0.2.7")
    assert counted == OpenConnections(3, 2)


def test_behind_a_proxy_an_address_may_have_all_of_them() -> None:
    counted = OpenConnections(2)
    counted.add("192.0.2.7")
    assert counted.has_room("192.0.2.7")
    counted.add("192.0.2.7")
    assert not counted.has_room("192.0.2.7")
