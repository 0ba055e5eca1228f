"""Takes secrets out of text and documents. Pure. Rather too much is hidden than too little."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

HIDDEN: Final = "<hidden>"
_SHORTEST: Final = 6
"""Characters of a known secret: shorter ones are in every text."""
_WORDS: Final = (
    r"token|passw(?:or)?d|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|key[-_]?data|credential|"
    r"authorization|x[-_]auth|otlp[-_](?:traces[-_])?headers"
)
_SECRET_KEY: Final = re.compile(rf"(?:{_WORDS})|\Aauth\Z", re.IGNORECASE)
_DROPPED: Final = frozenset({"managedFields", "kubectl.kubernetes.io/last-applied-configuration"})
_ENV: Final = frozenset({"env", "envs", "environment"})
_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
_JWT: Final = re.compile(r"\beyJ[\w-]{8,1024}\.[\w-]+(?:\.[\w-]+)?")
_SCHEME: Final = re.compile(r"\b(Bearer|Basic)(\s+)[^\s\"',\]]+", re.IGNORECASE)
_USER: Final = re.compile(r"(://)[^\s/@\"']{1,200}@")
_PAIR: Final = re.compile(
    rf"((?:{_WORDS}|\bauth)[\w.-]{{0,40}}[\"']?\s{{0,3}}[=:]\s{{0,3}})(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,}}\]]+)",
    re.IGNORECASE,
)
_FLAG: Final = re.compile(r"(--[\w-]{0,30}(?:token|password|passwd|secret)[\w-]{0,20}\s)(\S+)", re.IGNORECASE)
_PLAIN: Final = frozenset({"true", "false", "null", "none", '""', "''", "{}", "[]", "{", "["})


def hide_in_text(text: str, known: Collection[str] = ()) -> str:
    """Keys, tokens, passwords in pairs, URLs and flags, and `known` secrets wherever they are."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    text = _BLOCK.sub(f"-----BEGIN PRIVATE KEY----- {HIDDEN}", text)
    text = _JWT.sub(HIDDEN, text)
    text = _SCHEME.sub(rf"\1\2{HIDDEN}", text)
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    text = _FLAG.sub(rf"\1{HIDDEN}", text)
    return _PAIR.sub(_pair, text)


def _pair(match: re.Match[str]) -> str:
    value = match[2]
    if value.lower() in _PLAIN or HIDDEN in value:
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match[1]}{quote}{HIDDEN}{quote}"


def hide_in_document(value: Any, known: Collection[str] = ()) -> Any:
    """The same of a JSON value: by the names of its fields, and in its texts. Text that is JSON is looked into."""
    if isinstance(value, Mapping):
        if value.get("kind") == "Secret":
            return {"kind": "Secret", "hidden": HIDDEN}
        return {str(key): _field(str(key), one, known) for key, one in value.items() if key not in _DROPPED}
    if isinstance(value, list | tuple):
        return [hide_in_document(one, known) for one in value]
    return _text(value, known) if isinstance(value, str) else value


def _field(key: str, value: Any, known: Collection[str]) -> Any:
    if _SECRET_KEY.search(key) or key == "AllocResp":
        return _blank(value)
    if key in _ENV:
        return _hide_env(value)
    return hide_in_document(value, known)


def _blank(value: Any) -> Any:
    """The shape stays; numbers and switches are no secrets."""
    if isinstance(value, Mapping):
        return {str(key): _blank(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_blank(one) for one in value]
    return HIDDEN if isinstance(value, str) and value else value


def _hide_env(value: Any) -> Any:
    """Names stay, values go: `A=b`, {name: A, value: b}, [A, b] and {A: b}."""
    if isinstance(value, Mapping):
        return {str(name): HIDDEN for name in value}
    if not isinstance(value, list | tuple):
        return _blank(value)
    hidden: list[Any] = []
    for one in value:
        if isinstance(one, Mapping):
            hidden.append({str(key): part if key == "name" else _blank(part) for key, part in one.items()})
        elif isinstance(one, list | tuple):
            hidden.append([*one[:1], *(HIDDEN for _ in one[1:])])
        else:
            name, separator, _ = str(one).partition("=")
            hidden.append(f"{name}={HIDDEN}" if separator else HIDDEN)
    return hidden


def _text(value: str, known: Collection[str]) -> str:
    if value[:1] in ("{", "["):
        try:
            return json.dumps(hide_in_document(json.loads(value), known), sort_keys=True)
        except (ValueError, RecursionError):
            pass
    return hide_in_text(value, known)
