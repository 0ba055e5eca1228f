from __future__ import annotations

import pytest

from dray.errors import InvalidError
from dray.runtime.http_hosts import Hosts, host_only, in_url, is_any, is_loopback, is_own_origin

PAGE = Hosts.at("127.0.0.1", 9620, ["dash.example.com", "other.example.com:8443"])
API = Hosts.named(["localhost", "::1", "Box"], ["api.example.com", "other.example.com:8443"])


@pytest.mark.parametrize("host", ["127.0.0.1:9620", "localhost:9620", "LOCALHOST:9620", "[::1]:9620"])
def test_a_page_is_at_its_port(host: str) -> None:
    assert PAGE.has(host)
    assert not PAGE.has(host.removesuffix(":9620"))
    assert not PAGE.has(host.replace("9620", "9621"))


def test_an_address_of_all_interfaces_is_no_name() -> None:
    hosts = Hosts.at("0.0.0.0", 9620)
    assert hosts.has("127.0.0.1:9620")
    assert not hosts.has("0.0.0.0:9620")
    assert not hosts.has("192.0.2.7:9620")
    assert not Hosts.at("192.0.2.7", 9620).has("127.0.0.1:9620")
    assert Hosts.at("127.0.0.1", 80).has("127.0.0.1")
    assert Hosts.at("2001:DB8::1", 80).has("[2001:db8::1]")
    assert Hosts.at("Box", 9620).has("box:9620")


@pytest.mark.parametrize("hosts", [PAGE, API])
def test_a_name_with_a_port_is_allowed_at_that_port_alone(hosts: Hosts) -> None:
    assert hosts.has("Other.example.com:8443")
    assert not hosts.has("other.example.com")
    assert not hosts.has("other.example.com:8444")


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:1", "LocalHost:65535", "box:6443", "[::1]:7", "api.example.com", "api.example.com:6443", "127.0.0.1",
     "127.0.0.1:6443", "192.0.2.7:6443", "[2001:DB8::1]", "[2001:db8::1]:6443", "[::ffff:192.0.2.7]:1"],
)  # fmt: skip
def test_a_server_for_programs_has_any_address_and_its_names_at_any_port(host: str) -> None:
    assert API.has(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:6443", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1:6443 ", " localhost",
     "a@127.0.0.1", "127.0.0.1/", "localhost:", "localhost:x", "::1", "[::1", "[localhost]", "[127.0.0.1]", "127.1", "0x7f.0.0.1",
     "127.0.0.01", "256.0.0.1", "localhost\n", "localhost.", "[::1%25eth0]", "xn--bcher-kva.example", "localhost,evil.example"],
)  # fmt: skip
def test_names_that_others_could_point_here(host: str) -> None:
    assert not API.has(host)


def test_origins() -> None:
    assert is_own_origin("https://Box:6443", "box:6443")
    assert is_own_origin("http://127.0.0.1:9620", "127.0.0.1:9620")
    for origin in (
        "null",
        "",
        "box:6443",
        "https://box",
        "https://box:6444",
        "https://box:6443/",
        "ftp://box:6443",
    ):
        assert not is_own_origin(origin, "box:6443")


def test_what_an_administrator_may_allow() -> None:
    assert host_only("A.example.com:8443") == "a.example.com"
    assert host_only("[2001:db8::1]:8443") == "2001:db8::1"
    for name in ("", "https://x", "x/y", "x y", "x:y", "*.example.com", "2001:db8::1", "[x]", "[1.2.3.4]"):
        with pytest.raises(InvalidError, match="--allow-host") as caught:
            Hosts.named((), [name])
        assert caught.value.field == "--allow-host"


def test_kinds_of_addresses() -> None:
    assert is_any("") and is_any("0.0.0.0") and is_any("::") and not is_any("::1") and not is_any("box")
    assert is_loopback("127.0.0.2") and is_loopback("localhost") and not is_loopback("192.0.2.7")
    assert (in_url("::1"), in_url("box")) == ("[::1]", "box")
