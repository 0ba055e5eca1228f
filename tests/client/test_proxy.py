from __future__ import annotations

import pytest
from yarl import URL

from dray.client.proxy import choose_proxy
from dray.errors import InvalidError

ENVIRON = {"HTTPS_PROXY": "http://proxy:3128"}


def chosen(server: str, no_proxy: str = "", **environ: str) -> str | None:
    found = choose_proxy(URL(server), "", {**(environ or ENVIRON), "NO_PROXY": no_proxy})
    return None if found is None else str(found)


def test_kubeconfig_wins_over_the_environment() -> None:
    found = choose_proxy(URL("https://127.0.0.1:6443"), "http://mine:1", {**ENVIRON, "NO_PROXY": "*"})
    assert found == URL("http://mine:1")


@pytest.mark.parametrize(
    "text", ["socks5://h:1", "https://h:1", "h:1", "http://", "ftp://h", "http://[::1", "://"]
)
def test_unusable_proxies_are_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="proxy-url") as caught:
        choose_proxy(URL("https://x"), text, {})
    assert caught.value.field == "proxy-url"


def test_passwords_are_not_shown() -> None:
    with pytest.raises(InvalidError) as caught:
        choose_proxy(URL("https://x"), "socks5://me:hunter2@h:1", {})
    assert "hunter2" not in str(caught.value)


def test_scheme_chooses_the_variable() -> None:
    assert chosen("https://k8s:6443") == "http://proxy:3128"
    assert chosen("http://k8s:8080") is None
    assert chosen("http://k8s:8080", http_proxy="plain:8") == "http://plain:8"


@pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.9", "https://[::1]:6443"])
def test_this_machine_is_reached_directly(server: str) -> None:
    assert chosen(server) is None


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        ("https://10.96.0.1", "10.96.0.0/12", True),
        ("https://10.112.0.1", "10.96.0.0/12", False),
        ("https://10.96.0.1", " 10.96.0.1 ", True),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://10.96.0.1:443", "10.96.0.1:6443", False),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://api.example.com", "example.com", True),
        ("https://example.com", "example.com", True),
        ("https://badexample.com", "example.com", False),
        ("https://api.example.com", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", True),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://API.Example.com", "x, EXAMPLE.com", True),
        ("https://anything", "*", True),
        ("https://anything", "", False),
        ("https://anything", ",,", False),
    ],
)
def test_no_proxy(server: str, no_proxy: str, direct: bool) -> None:
    assert (chosen(server, no_proxy) is None) is direct
