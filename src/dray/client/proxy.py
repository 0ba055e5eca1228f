"""Which proxy lies on the way to a server: the kubeconfig's, else the environment's, by the rules Go's clients use."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from yarl import URL

from dray.errors import InvalidError


def choose_proxy(server: URL, proxy_url: str, environ: Mapping[str, str]) -> URL | None:
    """The proxy for all requests to `server`, or None.

    `proxy_url` wins. Otherwise HTTPS_PROXY or HTTP_PROXY (or in small letters) unless NO_PROXY names the server;
    this machine is never reached through the environment's proxy.
    """
    if proxy_url:
        return parse_proxy(proxy_url, "proxy-url")
    name = f"{server.scheme}_proxy"
    value = environ.get(name.upper()) or environ.get(name) or ""
    if not value or _is_exempt(server, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return parse_proxy(value if "://" in value else f"http://{value}", name.upper())


def parse_proxy(text: str, field: str) -> URL:
    """A usable proxy address. SOCKS is not spoken here, and an HTTPS proxy would be judged by the cluster's CA."""
    try:
        url = URL(text)
        usable = url.host is not None and url.scheme == "http"
    except ValueError:
        usable = False
    if not usable:
        shown = re.sub(r"//.*@", "//", text)  # without the password
        raise InvalidError(f"{field}: {shown!r} is not supported; write http://host:port", field=field)
    return url


def _is_exempt(server: URL, no_proxy: str) -> bool:
    host = (server.host or "").lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(
        _matches(entry.strip().lower(), host, address, server.port)
        for entry in no_proxy.split(",")
        if entry.strip()
    )


def _matches(
    entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int | None
) -> bool:
    if entry == "*":
        return True
    network = _network(entry)
    if network is not None:
        return address is not None and address in network
    name, _, wanted = entry.rpartition(":") if entry.rpartition(":")[2].isdecimal() else (entry, "", "")
    if wanted and port is not None and int(wanted) != port:
        return False
    if address is not None:
        return _address(name.strip("[]")) == address
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
