"""OpenAPI v2, without definitions: kubectl 1.36 asks for it where v3 does not know a kind, and only to find out that v2 does not either."""

from __future__ import annotations

from typing import Final

import msgspec

from dray.apiserver.http.discovery import JSON

ROOT_V2: Final = "/openapi/v2"
_ASKED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What is answered with: the asked one is no well-formed media type."""
_SWAGGER: Final = "2.0"
_TITLE: Final = "Kubernetes, served by Dray; see /openapi/v3"
_VERSION: Final = "v1.36"


def openapi_v2(accept: str) -> tuple[bytes, str]:
    """The document and its content type: protobuf for clients of Go, JSON for all others."""
    if _ASKED in accept or _PROTOBUF in accept:
        info = _text(1, _TITLE) + _text(2, _VERSION)
        return _text(1, _SWAGGER) + _message(2, info) + _message(8, b"") + _message(9, b""), _PROTOBUF
    told = {
        "swagger": _SWAGGER,
        "info": {"title": _TITLE, "version": _VERSION},
        "paths": {},
        "definitions": {},
    }
    return msgspec.json.encode(told), JSON


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, body: bytes) -> bytes:
    """A field of protobuf that has a length; all of ours are short."""
    assert len(body) < 0x80
    return bytes((number << 3 | 2, len(body))) + body
