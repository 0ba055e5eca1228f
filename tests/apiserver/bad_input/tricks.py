"""Bytes on a connection that no client library sends: broken HTTP, odd paths and methods, credentials of all sorts."""

from __future__ import annotations

from typing import Final

from tests.apiserver.bad_input.wire import Request, Target

MAPS: Final = "/api/v1/namespaces/default/configmaps"
_BODY: Final = b'{"metadata":{"name":"tricky"}}'
_PATHS: Final = (
    "/..", "/../", "/api/../api/v1/nodes", "/api/v1/namespaces/..", "/api/v1/namespaces/../../../etc/passwd", "/api/v1/./nodes",
    "/api/v1/namespaces/%2e%2e/pods", "/api/v1/namespaces/%2E%2E%2F/pods", "/api/v1/namespaces/default%2fpods", "/api/v1%2fnodes",
    "/api/v1/namespaces/default%2f..%2fkube-system/pods", "//", "//api/v1/nodes", "/api//v1/nodes", "/api/v1//nodes", "/api/v1/nodes//",
    "/api/v1/nodes/%00", "/api/v1/nodes/a%00b", "/api/v1/nodes/%0a", "/api/v1/nodes/%0d%0aX:%20y", "/api/v1/nodes/%ff", "/api/v1/nodes/%c0%ae",
    "/api/v1/nodes/%252e%252e", "/api/v1/nodes/%25", "/api/v1/nodes/%", "/api/v1/nodes/%zz", "/api/v1/nodes/%u0041", "/api/v1/nodes/a;b=c",
    "/api/v1/nodes/" + "a" * 7000, "/" + "a/" * 3000, "/" + "%2e" * 2000, "/api/v1/namespaces/" + "a" * 5000 + "/pods", "/apis/" + "." * 5000,
    "/api/v1/namespaces/default/pods/one/exec", "/api/v1/namespaces/default/pods/one/log", "/api/v1/namespaces/default/pods/one/status/x",
    "/api/v1/namespaces/default/pods/one/proxy/..", "/api/v1/nodes/one/proxy/metrics", "/api/v1/namespaces/default/finalize", "/api/v1/pods/one",
    "/apis/apps/v1/namespaces/default/deployments/one/scale/x", "/apis//v1", "/apis/x/v1/y", "/api/v2", "/api/v1/things", "/openapi/v3/apis/x/v1",
    "/openapi/v3/../v2", "/openapi/v3/api/v1/nodes", "/healthz/..", "/metrics/x", "/version/", "/favicon.ico", "/.git/config", "/api/v1/nodes?",
    "/api/v1/nodes?%00=%00", "/api/v1/nodes?watch=1&watch=0", "/api/v1/nodes?limit=1&limit=x", "/api/v1/nodes?labelSelector=%ff%fe",
    "/api/v1/nodes?fieldSelector=metadata.name%3D%ed%a0%80", "/api/v1/nodes#fragment", "/api/v1/watch/nodes", "/apis/resource.k8s.io/v1/%72esourceslices",
    "/api/v1/namespaces/default/pods/%E2%80%AE", "/api/v1/namespaces/d%65fault/pods", "/api/v1/nodes/..%5c..", "/api/v1/nodes/\\..\\",
)  # fmt: skip


def paths() -> list[Request]:
    """Paths that try to be another than they seem; every method may stand before them."""
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
    return [
        Request(
            methods[number % len(methods)] if turn else "GET",
            path,
            _BODY if turn and number % 7 in (1, 2, 3) else None,
            (("Content-Type", "application/json"),),
            is_stream="watch=1" in path,
        )
        for turn in (0, 1)
        for number, path in enumerate(_PATHS)
    ]


def methods() -> list[Request]:
    """Odd methods, upgrades and headers on a path that is fine."""
    odd = ("TRACE", "OPTIONS", "HEAD", "PROPFIND", "LIST", "WATCH", "get", "MKCOL", "X" * 30)
    upgrades = (
        (
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", "x"),
            ("Sec-WebSocket-Version", "13"),
        ),
        (("Upgrade", "SPDY/3.1"), ("Connection", "Upgrade")),
        (
            ("Upgrade", "h2c"),
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ),
        (("Accept-Encoding", "gzip;q=x, zstd, *"),),
        (("Range", "bytes=0-1,5-"),),
        (("If-None-Match", "*"), ("If-Match", '"x"')),
        (("X-Forwarded-For", "a" * 4000), ("Cookie", "a=b;" * 1000)),
        (("Impersonate-User", "admin"), ("Impersonate-Group", "system:masters")),
        (("Impersonate-User", ""), ("Impersonate-Extra-x", "y")),
        (("Impersonate-Group", "system:masters"),),
        (("Impersonate-User", "system:node:" + "x" * 3000),),
        (("User-Agent", "\x80\xff" * 100),),
        (("X-HTTP-Method-Override", "DELETE"),),
    )
    return [
        *(Request(method, f"{MAPS}/one") for method in odd),
        *(Request("GET", f"{MAPS}/one", None, headers) for headers in upgrades),
        *(Request("POST", f"{MAPS}/one", _BODY, headers) for headers in upgrades),
        *(
            Request("PUT", f"{MAPS}/one", _BODY, (("Content-Encoding", kind), ("Content-Type", "application/json")))
            for kind in ("gzip", "deflate", "br", "zstd", "x", "gzip, gzip")
        ),
    ]  # fmt: skip


def credentials(target: Target) -> list[Request]:
    """Tokens that are wrong; none may read or write anything."""
    right = target.token
    forged = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsImV4cCI6OTk5OTk5OTk5OX0."
    texts = (
        "", " ", "Bearer", "Bearer ", "Bearer  ", f"Bearer{right}", f"Basic {right}", "Basic YWRtaW46YWRtaW4=", f"Digest {right}", "Bearer null",
        f"Bearer {right}x", f"Bearer {right[:-1]}", f"Bearer {right.swapcase()}", f"Bearer {right} {right}", f"Bearer {right},{right}", f"Bearer {forged}",
        "Bearer a.b.c", "Bearer ..", "Bearer " + "a" * 7000, "Bearer " + "." * 7000, "Bearer \x80\xff", f"Token {right}", right,
        "Bearer eyJhbGciOiJSUzI1NiJ9." + "A" * 6000 + ".AAAA", "Bearer W10.W10.W10", "Bearer MQ.MQ.MQ", "Bearer e30.e30.", "Bearer bnVsbA.bnVsbA.bnVsbA",
    )  # fmt: skip
    asked = [
        Request(method, path, body, (("Authorization", text), ("Content-Type", "application/json")))
        for text in texts
        for method, path, body in (("GET", "/api/v1/secrets", None), ("POST", MAPS, _BODY))
    ]
    twice = (("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {right}"))
    return [*asked, Request("GET", "/api/v1/secrets", None, twice)]


def broken(target: Target) -> list[bytes]:
    """What is hardly HTTP. After it the server answers or closes, and is well."""
    who = f"Host: {target.host}\r\nAuthorization: Bearer {target.token}\r\n".encode()
    post = f"POST {MAPS} HTTP/1.1\r\n".encode() + who + b"Content-Type: application/json\r\n"
    get = f"GET {MAPS}/one HTTP/1.1\r\n".encode() + who
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    return [
        b"\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/0.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"A" * 10_000, b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n",
        get + b"\x00: a\r\n\r\n", get + b"no colon\r\n\r\n", get + b" folded: x\r\n\r\n", get + b"a: b\r\n c\r\n\r\n", get + b"a" * 100_000 + b": b\r\n\r\n",
        get + b"a: " + b"b" * 100_000 + b"\r\n\r\n", get + b"a: b\r\n" * 20_000 + b"\r\n", get + b"a: b\rc\r\n\r\n", get + b"a: b\nc: d\r\n\r\n",
        get + b"Content-Length: x\r\n\r\n", get + b"Content-Length: -1\r\n\r\n", get + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n12",
        get + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", get + b"Content-Length: 99999999999999999999\r\n\r\n",
        post + b"Content-Length: +30\r\n\r\n" + _BODY, post + b"Content-Length: 0x1e\r\n\r\n" + _BODY, post + b"Content-Length: 99999999\r\n\r\n" + _BODY,
        post + b"Transfer-Encoding: x\r\n\r\n" + _BODY, post + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", chunked + b"zz\r\n\r\n",
        chunked + b"-1\r\na\r\n0\r\n\r\n", chunked + b"ffffffffffffffffff\r\na", chunked + b"5\r\nabcdefgh\r\n0\r\n\r\n", chunked + b"1;" + b"a" * 100_000 + b"\r\n",
        chunked + b"0\r\n" + b"a: b\r\n" * 20_000 + b"\r\n", chunked + b"1\r\n{\r\n" * 10, chunked + b"\r\n\r\n", chunked + b"3\r\n" + _BODY,
        post + b"Expect: 100-continue\r\nContent-Length: 30\r\n\r\n" + _BODY, post + b"Expect: nonsense\r\nContent-Length: 30\r\n\r\n" + _BODY,
        f"CONNECT {target.host}:443 HTTP/1.1\r\n".encode() + who + b"\r\n", b"OPTIONS * HTTP/1.1\r\n" + who + b"\r\n", b"GET http://other/api HTTP/1.1\r\n" + who + b"\r\n",
        b"GET api/v1/nodes HTTP/1.1\r\n" + who + b"\r\n", b"GET /api/v1/nodes/\xc3\xa9 HTTP/1.1\r\n" + who + b"\r\n", b"GET /api/v1/nodes/ a HTTP/1.1\r\n" + who + b"\r\n",
        b"GET /api/v1/nodes HTTP/1.0\r\n" + who + b"\r\n", get.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n\r\n", get + b"Host: a\r\nHost: b\r\n\r\n",
        (get + b"\r\n") * 50, (post + b"Content-Length: 30\r\n\r\n" + _BODY) * 20, get + b"\r\n" + b"GARBAGE",
    ]  # fmt: skip


def endless(target: Target, size: int) -> bytes:
    """A body over the limit that does not say how long it is."""
    head = f"POST {MAPS} HTTP/1.1\r\nHost: {target.host}\r\nAuthorization: Bearer {target.token}\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    return (
        head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (size // 0x10000 + 1) + b"0\r\n\r\n"
    )
