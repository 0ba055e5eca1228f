from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv6Address

import pytest

from dray.cel.faults import EvaluationError
from dray.cel.library.addresses import parse_address
from dray.cel.library.ips import parse_ip
from tests.campaign import campaign, seeded
from tests.cel.library.answers import complaints


def test_addresses_answer_as_in_kubernetes() -> None:
    assert complaints("ips") == []


def test_the_same_as_python_on_random_texts() -> None:
    chosen = seeded(5)
    for _ in range(campaign(2000, 200_000)):
        text = "".join(
            chosen.choices([":", "::", ".", "1", "0", "ff", "255", "abcd"], k=chosen.randint(1, 12))
        )
        try:
            expected: object = IPv6Address(text) if ":" in text else IPv4Address(text)
        except AddressValueError:
            expected = None
        try:
            address: object = parse_address(text)[0]
        except EvaluationError:
            address = None
        assert address == expected, text


def test_an_address_is_as_large_as_its_bytes_and_never_false() -> None:
    assert (len(parse_ip("0.0.0.0")), len(parse_ip("::"))) == (4, 16)
    assert parse_ip("0.0.0.0")


@pytest.mark.parametrize("text", ["fe80::1%eth0", "::ffff:1.2.3.4", "01.2.3.4", "1.2.3.4/8"])
def test_what_kubernetes_refuses(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse_ip(text)
