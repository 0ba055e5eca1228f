from __future__ import annotations

from ipaddress import ip_address, ip_network

from dray.cel.library.cidrs import parse_cidr
from tests.campaign import campaign, seeded
from tests.cel.library.answers import complaints, evaluate


def test_networks_answer_as_in_kubernetes() -> None:
    assert complaints("cidrs") == []


def test_containing_is_the_same_as_in_python() -> None:
    chosen = seeded(8)
    for _ in range(campaign(100, 5000)):
        network = ip_network((chosen.choice([10 << 24, 10 << 24 | 255 << 16]), 32)).supernet(
            new_prefix=chosen.randint(0, 32)
        )
        address = ip_address((10 << 24) + chosen.randint(0, 1 << 25))
        expected = address in network
        assert evaluate(f"cidr('{network}').containsIP('{address}')") is expected
        assert evaluate(f"cidr('{network}').containsCIDR('{address}/32')") is expected


def test_bits_behind_the_prefix_are_kept_until_masked() -> None:
    assert parse_cidr("10.1.2.3/8") != parse_cidr("10.0.0.0/8")
    assert evaluate("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')") is True
    assert len(parse_cidr("10.0.0.0/9")) == 2
