"""Plain blocking HTTP to the cluster's own API server and etcd, for set-up and waits; and free ports."""

from __future__ import annotations

import json
import random
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from dray.errors import UnavailableError


class AdminAccess:
    """Requests to one API server as its administrator."""

    def __init__(self, server: str, token: str, authority: Path) -> None:
        self._server = server
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(authority))

    def request(self, method: str, path: str, body: Any = None, timeout: float = 10.0) -> Any:
        """One request; returns the decoded JSON, raises `urllib.error.HTTPError` for an error status."""
        return json.loads(self._send(method, path, body, timeout))

    def find(self, path: str) -> Any:
        """The object at `path`, or None while there is none or nobody answers."""
        try:
            return self.request("GET", path)
        except OSError:
            return None

    def is_ready(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            return self._send("GET", "/readyz", None, timeout=5.0) == b"ok"
        except OSError:
            return False

    def _send(self, method: str, path: str, body: Any, timeout: float) -> bytes:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        request = urllib.request.Request(  # noqa: S310 - always https to our own server
            self._server + path,
            method=method,
            data=None if body is None else json.dumps(body, separators=(",", ":")).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}"},
        )
        with urllib.request.urlopen(request, timeout=timeout, context=self._tls) as answer:  # noqa: S310
            data: bytes = answer.read()
        return data


def status_of(url: str, token: str = "") -> int:
    """The status of an answer over TLS; the server may show any certificate, so send it only tokens of your own making."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10.0, context=tls) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def compact_etcd(url: str) -> int:
    """Forget the history of the etcd at `url` up to now; returns the revision up to which it is forgotten."""
    revision = int(_etcd(url, "range", {"key": "AA=="})["header"]["revision"])
    _etcd(url, "compaction", {"revision": str(revision), "physical": True})
    return revision


def _etcd(url: str, method: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(f"{url}/v3/kv/{method}", data=json.dumps(body).encode())  # noqa: S310
    with urllib.request.urlopen(request, timeout=30.0) as answer:  # noqa: S310
        return json.load(answer)


def free_ports(count: int) -> tuple[int, ...]:
    """Ports of 127.0.0.1 nobody listens on, below the range the kernel takes for outgoing connections.

    So the port of an API server that is down for a moment is not taken by somebody's connection.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = random.sample(range(max(1024, low - 12000), low), 200) if low > 2000 else [0] * 200
    found: list[socket.socket] = []
    try:
        for candidate in candidates:
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                probe.close()
                continue
            found.append(probe)
            if len(found) == count:
                return tuple(int(probe.getsockname()[1]) for probe in found)
    finally:
        for probe in found:
            probe.close()
    raise UnavailableError(f"no {count} free TCP ports on 127.0.0.1.")
