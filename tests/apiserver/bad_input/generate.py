"""Requests out of the server's own description of itself: mostly nearly right ones, since those get furthest."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from tests.apiserver.bad_input.catalog import Catalog, Operation
from tests.apiserver.bad_input.mutations import ODD, encoded, spoiled
from tests.apiserver.bad_input.patches import YAML, patch_body
from tests.apiserver.bad_input.seeds import NAMES, REVIEWS, SEEDS, TOKEN_REQUEST, body_of
from tests.apiserver.bad_input.wire import Request
from tests.apiserver.http.protobuf import written

_TYPES: Final = (
    "application/json", "application/json; charset=utf-16", "application/yaml", "application/vnd.kubernetes.protobuf",
    "text/plain", "", "a", "*/*", "application/merge-patch+json", "application/apply-patch+yaml", "multipart/form-data",
    "application/x-www-form-urlencoded", "application/json;" * 50, "application/cbor", "\xe9",
)  # fmt: skip
_ACCEPTS: Final = (
    "application/json", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf", "a", "",
    "application/json;as=Table;v=v9;g=meta.k8s.io", "application/json;q=x", ";;,,=",
)  # fmt: skip
_TEXTS: Final = (
    "",
    "a",
    "é",
    "\x00",
    "\ud800",
    "a" * 3000,
    "9" * 5000,
    "-1",
    "1e3",
    "true",
    "\u202e",
    "%",
    "a,b",
    "null",
    "{}",
)
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "allowWatchBookmarks": ("true", "1"),
    "continue": (
        "x",
        "AAAA",
        base64.urlsafe_b64encode(b'{"revision":1,"after":""}').decode(),
        base64.urlsafe_b64encode(b'{"revision":99999999999999999999,"after":"x"}').decode(),
        base64.urlsafe_b64encode(b'{"revision":-5,"after":"\\u0000"}').decode(),
        base64.urlsafe_b64encode(b"[" * 1500).decode(),
        "eyJyZXZpc2lvbiI6MX0",
        "é",
    ),
    "dryRun": ("All", "all", "None"),
    "fieldManager": ("m", "a" * 128, "a" * 129, "\n"),
    "fieldSelector": (
        "metadata.name=one",
        "metadata.name!=one",
        "spec.nodeName=",
        "a=b",
        "metadata.name",
        "=",
        "metadata.name==one,metadata.namespace=default",
        "metadata.name=a\\",
        "metadata.name=" + "a" * 2000,
        "metadata.name=one," * 200,
        "spec.nodeName=\\x",
    ),
    "fieldValidation": ("Strict", "Warn", "Ignore", "strict"),
    "force": ("true", "false", "x"),
    "gracePeriodSeconds": ("0", "1", "30", "99999999999999999999", "9223372036854775807", "-1"),
    "labelSelector": (
        "a=b",
        "a in (b,c)",
        "a notin (b)",
        "!a",
        "a",
        "a in (",
        "a=b,",
        "a in ()",
        "a>1",
        "a<x",
        "((((",
        "a" * 300,
        "a=b," * 300 + "c",
        "a in (" + "b," * 900 + "c)",
        "é=ü",
        "a==b==c",
        "a gt 1",
    ),
    "limit": ("1", "2", "0", "9223372036854775807", "9223372036854775808"),
    "orphanDependents": ("true", "false", "x"),
    "pretty": ("true", "x"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"),
    "resourceVersion": ("0", "1", "5", "99999999", "18446744073709551616", "1.0", "x"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "exact"),
    "sendInitialEvents": ("true", "false", "x"),
    "timeoutSeconds": ("0", "1", "86400", "99999999999", "-1", "1.5"),
    "watch": ("true", "1", "false", "x"),
}
_PATH_NAMES: Final = (
    "default",
    "kube-system",
    "gone",
    "a" * 300,
    "..",
    ".",
    "a%2fb",
    "%00",
    "%ff",
    "%e9",
    "é",
    "One",
    "*",
    "a:b",
    "%25",
)


class Generator:
    """Makes requests from a catalog. The same seed makes the same ones."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self._catalog = catalog
        self._chance = random.Random(seed)
        known = [one for one in catalog.operations if one.plural in SEEDS]
        self._operations = (catalog.operations, tuple(known))

    def requests(self, count: int) -> Iterator[Request]:
        """So many."""
        for _ in range(count):
            yield self._unlisted() if self._chance.random() < 0.02 else self._one()

    def _one(self) -> Request:
        chance = self._chance
        operation = chance.choice(self._operations[chance.random() < 0.6])
        if operation.method == "DELETE" and chance.random() < (
            0.95 if "{name}" not in operation.path else 0.6
        ):
            operation = chance.choice(self._operations[1])  # else there is soon nothing left
        name = chance.choice(NAMES)
        query = self._query(operation)
        path = self._path(operation, name) + ("?" + "&".join(query) if query else "")
        body, kind = self._body(operation, name)
        headers = [("Content-Type", kind)] if body is not None and (kind or chance.random() < 0.5) else []
        if chance.random() < 0.3:
            headers.append(("Accept", chance.choice(_ACCEPTS)))
        return Request(operation.method, path, body, tuple(headers), is_stream=_is_stream(path))

    def _path(self, operation: Operation, name: str) -> str:
        chance = self._chance
        namespace = "default" if chance.random() < 0.95 else chance.choice(_PATH_NAMES)
        name = name if chance.random() < 0.95 else chance.choice(_PATH_NAMES)
        if operation.plural == "customresourcedefinitions" and chance.random() < 0.9:
            name = "widgets.example.com"
        path = operation.path.replace("{namespace}", namespace).replace("{name}", name)
        return path.encode().decode("latin-1")

    def _query(self, operation: Operation) -> list[str]:
        chance, found = self._chance, []
        for name, _ in operation.query:
            if name == "watch" and chance.random() < 0.7:
                continue
            if chance.random() < 0.12 or (name == "fieldManager" and chance.random() < 0.4):
                value = chance.choice(_VALUES.get(name, _TEXTS) if chance.random() < 0.85 else _TEXTS)
                found += [f"{name}={quote(value, safe='', errors='surrogatepass')}"] * chance.choice(
                    (1, 1, 1, 1, 2)
                )
        if chance.random() < 0.02:
            found.append(chance.choice(("&&", "=", "%", "%zz=%zz", "a;b", "watch", "a[]=1", "\xe9=1", "?")))
        return found

    def _body(self, operation: Operation, name: str) -> tuple[bytes | None, str]:
        chance = self._chance
        if operation.method == "GET":
            return (None, "") if chance.random() < 0.98 else (b"{}", "application/json")
        if operation.method == "DELETE":
            return self._delete_body()
        right = self._right(operation, name)
        kind = chance.choice(operation.content_types) if chance.random() < 0.93 else chance.choice(_TYPES)
        if operation.method == "PATCH" and chance.random() < 0.95:
            return patch_body(right, kind, chance), kind
        if chance.random() < 0.04:
            return self._protobuf(operation), "application/vnd.kubernetes.protobuf"
        if chance.random() < 0.03:
            return chance.choice(YAML), "application/yaml"
        wrong = spoiled(right, chance, chance.choice((0, 0, 1, 1, 1, 1, 2, 3, 8)))
        return encoded(wrong, chance, raw=0.08), kind

    def _right(self, operation: Operation, name: str) -> Any:
        chance = self._chance
        if operation.method == "POST" and not operation.door and chance.random() < 0.5:
            name = f"{name}-{chance.randrange(50)}"
        known = operation.plural in SEEDS and chance.random() < 0.85
        made: Any = body_of(operation.plural, operation.door, operation.api_version, operation.kind, name)
        sample = self._catalog.sample(operation.schema, chance) if operation.schema and not known else {}
        if isinstance(sample, dict) and sample:
            made = {**sample, **made, "metadata": {**_dict(sample.get("metadata")), **made["metadata"]}}
        return made

    def _delete_body(self) -> tuple[bytes | None, str]:
        chance = self._chance
        if chance.random() < 0.5:
            return None, ""
        options = {
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background",
            "preconditions": {"uid": "x", "resourceVersion": "1"}, "dryRun": ["All"], "orphanDependents": None,
        }  # fmt: skip
        told = {key: value for key, value in options.items() if chance.random() < 0.4}
        wrong = spoiled(told, chance, chance.choice((0, 0, 1, 2)))
        return encoded(wrong, chance, raw=0.05), chance.choice(("application/json", "", *_TYPES))

    def _protobuf(self, operation: Operation) -> bytes:
        chance = self._chance
        inside = b"".join(
            written.field(
                chance.randrange(1, 20), chance.choice((chance.randrange(2**40), chance.randbytes(5), "é"))
            )
            for _ in range(chance.randrange(6))
        )
        inside = written.field(1, written.field(1, "one") + inside) + inside
        data = written.body(
            operation.api_version, operation.kind, inside if chance.random() < 0.8 else b"\x0a" * 3000
        )
        return (
            data
            if chance.random() < 0.6
            else data[: chance.randrange(len(data))] + chance.randbytes(chance.randrange(9))
        )

    def _unlisted(self) -> Request:
        """What OpenAPI does not list: reviews and the tokens of accounts."""
        chance = self._chance
        path, right = chance.choice(REVIEWS)
        path = f"/apis/{path}"
        if chance.random() < 0.25:
            path, right = TOKEN_REQUEST
        wrong = spoiled(right, chance, chance.choice((0, 1, 1, 2)))
        if isinstance(wrong, dict) and chance.random() < 0.1:
            wrong = wrong | {"spec": chance.choice(ODD)}
        return Request(
            "POST", path, encoded(wrong, chance, raw=0.05), (("Content-Type", "application/json"),)
        )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_stream(path: str) -> bool:
    return "watch=" in path
