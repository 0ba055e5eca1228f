from __future__ import annotations

import socket

import pytest

from dray.apiserver.http.doorkeeper import Doorkeeper, server_hosts
from dray.errors import DeniedError

KEEPER = Doorkeeper(server_hosts(["api.example.com"], ["tunnel.example.com:8443"]))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:6473", "localhost:9", "[::1]:6473", "192.0.2.7", socket.gethostname(), f"{socket.gethostname().partition('.')[0]}:1",
     "api.example.com:6473", "tunnel.example.com:8443"],
)  # fmt: skip
def test_names_of_the_server(host: str) -> None:
    for _ in range(2):
        KEEPER.check({"Host": host})
        KEEPER.check({"Host": host, "Origin": f"https://{host}"})


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6473", "tunnel.example.com", "", "x" * 5000])
def test_names_of_others(host: str) -> None:
    for _ in range(2):
        with pytest.raises(DeniedError, match="--allow-host NAME") as caught:
            KEEPER.check({"Host": host})
        assert len(str(caught.value)) < 250
        assert caught.value.authenticated


def test_a_request_without_the_header() -> None:
    with pytest.raises(DeniedError, match="Host"):
        KEEPER.check({})


@pytest.mark.parametrize(
    "origin", ["null", "", "https://evil.example", "https://127.0.0.1", "https://127.0.0.1:6474", "https://localhost:6473"]
)  # fmt: skip
def test_pages_of_other_origins(origin: str) -> None:
    with pytest.raises(DeniedError, match="another origin"):
        KEEPER.check({"Host": "127.0.0.1:6473", "Origin": origin})


def test_control_characters_do_not_come_back() -> None:
    with pytest.raises(DeniedError) as caught:
        KEEPER.check({"Host": "a\x1b[31m"})
    assert "\x1b" not in str(caught.value)
