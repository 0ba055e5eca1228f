"""Requests that are made to cost: large, deep, doubling, or slow to judge. None may hold others up for long, or fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.apiserver.bad_input.mutations import dumped
from tests.apiserver.bad_input.patches import YAML, bombs
from tests.apiserver.bad_input.seeds import SEEDS
from tests.apiserver.bad_input.wire import Request
from tests.apiserver.custom.definitions import definition
from tests.apiserver.http.protobuf import written

MAPS: Final = "/api/v1/namespaces/default/configmaps"
PODS: Final = "/api/v1/namespaces/default/pods"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON: Final = (("Content-Type", "application/json"),)
_MANY: Final = 100_000
_LIMIT: Final = 3 * 2**20
SCHEMAS: Final = 21
"""How many definitions there are with a schema of their own; the groups are h0.com, h1.com and so on."""

Document = dict[str, Any]


def hostile() -> Iterator[Request]:
    """All of them."""
    yield from (
        Request("PATCH", f"{MAPS}/one?fieldManager=m", body, (("Content-Type", kind),))
        for kind, body in bombs()
    )
    yield from (Request("POST", MAPS, text, (("Content-Type", "application/yaml"),)) for text in YAML)
    yield from _large()
    yield from _selectors()
    yield from _lists()
    yield from _protobuf()
    yield from (Request("POST", DEFINITIONS, dumped(one), JSON) for one in _definitions())
    for number in range(SCHEMAS):
        body = dumped({"metadata": {"name": "hostile"}, "a": [{}] * 20_000, "spec": 1})
        path = f"/apis/h{number}.com/v1/namespaces/default/widgets"
        yield Request(
            "POST",
            path,
            body.replace(b"1}", f'1,"apiVersion":"h{number}.com/v1","kind":"Widget"}}'.encode()),
            JSON,
        )
    odd = {"apiVersion": "columns.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "a": [[1]]}
    yield Request("POST", "/apis/columns.com/v1/namespaces/default/widgets", dumped(odd), JSON)
    yield from _queries()


def _map(**changes: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hostile"}} | changes


def _large() -> Iterator[Request]:
    yield Request("POST", MAPS, b" " * (_LIMIT + 1), JSON)
    yield Request("POST", MAPS, b"[" * _LIMIT, JSON)
    yield Request("POST", MAPS, b'{"a":' * (_LIMIT // 5), JSON)
    yield Request("POST", MAPS, dumped(_map(data={"a": "x" * (_LIMIT - 1000)})), JSON)
    yield Request("POST", MAPS, dumped(_map(data={f"k{number}": "" for number in range(_MANY)})), JSON)
    yield Request("POST", MAPS, dumped(_map(metadata={"name": "a" * 2**20})), JSON)
    yield Request("POST", MAPS, dumped(_map(unknown={f"k{number}": number for number in range(_MANY)})), JSON)
    yield Request(
        "POST", f"{MAPS}?fieldValidation=Strict", dumped({f"k{n}\n": n for n in range(_MANY)} | _map()), JSON
    )
    yield Request(
        "POST", MAPS, b'{"metadata":{"name":"a"},"data":{' + b'"a":"b",' * _MANY + b'"a":"b"}}', JSON
    )
    yield Request("POST", MAPS, b'{"a":' + b"1" * 2**20 + b"}", JSON)
    yield Request("POST", MAPS, b'{"a":0.' + b"1" * 2**20 + b"}", JSON)
    for key in ("labels", "annotations"):
        yield Request(
            "POST", MAPS, dumped(_map(metadata={"name": "a", key: {f"k{n}": "" for n in range(_MANY)}})), JSON
        )
    for key, item in (
        ("finalizers", "a/b"),
        ("ownerReferences", {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}),
        (
            "managedFields",
            {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:a": {}}},
        ),
    ):
        many = [item] * (_MANY if isinstance(item, str) else 20_000)
        yield Request("POST", MAPS, dumped(_map(metadata={"name": "a", key: many})), JSON)


def _selectors() -> Iterator[Request]:
    deep = "device.driver == 'a'" + " && device.driver == 'b'" * 300
    for text in (
        deep, "(" * 400 + "true" + ")" * 400, "[" * 400 + "]" * 400, "!" * 5000 + "true", "-" * 5000 + "1 == 1",
        "[1,2,3,4,5].all(a, [1,2,3,4,5].all(b, [1,2,3,4,5].all(c, [1,2,3,4,5].all(d, [1,2,3,4,5].all(e, a+b+c+d+e > 0)))))",
        "device.driver.matches('" + "(a?){50}" * 20 + "')", "'" + "\\u0041" * 1500 + "' == ''", "x" * 10_240, "a." * 4000 + "b",
        "1" * 5000 + " == 1", "device.attributes" + "['a']" * 2000, "{" * 300 + "}" * 300, "true ? " * 500 + "1" + " : 2" * 500, "\u0000", "\ud800",
        "device.driver == '" + "a" * 9_000 + "'", "[" + "1," * 5000 + "1] == []", "size(" * 400 + "''" + ")" * 400,
    ):  # fmt: skip
        made = {"metadata": {"name": "hostile"}, "spec": {"selectors": [{"cel": {"expression": text}}] * 32}}
        yield Request("POST", f"{CLASSES}?dryRun=All", dumped(made), JSON)


def _lists() -> Iterator[Request]:
    """A list at each field of a kind that has one, with more items than anybody needs."""
    for path, plural in ((PODS, "pods"), (CLAIMS, "resourceclaims"), (SLICES, "resourceslices")):
        spec = SEEDS[plural]["spec"]
        for name, value in sorted(spec.items()):
            inner = value if isinstance(value, list) else None
            if isinstance(value, dict) and plural == "resourceclaims":
                yield Request(
                    "POST", path, dumped(_wide(spec | {name: {"requests": value["requests"] * 10_000}})), JSON
                )
            if inner:
                count = min(_MANY, 2_500_000 // len(dumped(inner)))
                yield Request("POST", path, dumped(_wide(spec | {name: inner * count})), JSON)
    devices = [
        {"name": f"d{number}", "attributes": {f"a{n}": {"int": n} for n in range(32)}}
        for number in range(2000)
    ]
    yield Request("POST", SLICES, dumped(_wide(SEEDS["resourceslices"]["spec"] | {"devices": devices})), JSON)


def _wide(spec: Document) -> Document:
    return {"metadata": {"name": "hostile"}, "spec": spec}


def _protobuf() -> Iterator[Request]:
    kind = (("Content-Type", "application/vnd.kubernetes.protobuf"),)
    deep = b""
    for _ in range(2000):
        deep = written.field(1, deep)
    for data in (
        b"", b"k8s\0", b"k8s\0" + b"\xff" * 100_000, b"k8s\0" + b"\x0a\xff\xff\xff\xff\x0f", written.body("v1", "ConfigMap", b"\x0a\x00" * 1_000_000),
        written.body("v1", "Pod", deep), written.body("v1", "Pod", b"\x0b" * 100_000), written.body("v1", "Pod", written.field(2, b"\x0a\x00" * 500_000)),
        written.body("apiextensions.k8s.io/v1", "CustomResourceDefinition", deep), written.body("v1", "\x00", b"x"), written.body("", "", b""),
        written.body("v1", "ConfigMap", written.field(2, written.entry("a", b"\xff\xfe"))),
    ):  # fmt: skip
        yield Request("POST", MAPS, data, kind)


def _definitions() -> Iterator[Document]:
    """Schemas that are none, that hold themselves, or that make much out of little."""
    nested: Any = {"type": "object"}
    for _ in range(90):
        nested = {"type": "object", "properties": {"a": nested}}
    grown = {
        "type": "object",
        "properties": {"a": {"type": "object", "default": {f"k{n}": n for n in range(20_000)}}},
    }
    schemas: tuple[Any, ...] = (
        {"$ref": "#"}, {"type": "object", "properties": {"a": {"$ref": "#/definitions/a"}}}, {"type": ["object"]}, {"type": {}},
        {"type": "object", "required": 5}, {"type": "object", "required": [{}]}, {"type": "object", "properties": []},
        {"type": "object", "properties": {"spec": {"enum": 3}}}, {"type": "object", "properties": {"spec": {"type": "array", "items": [1]}}},
        {"type": "object", "properties": {"spec": {"type": "integer", "default": "x"}}}, {"type": "object", "properties": {"spec": {"minimum": "1"}}},
        {"type": "object", "properties": {"metadata": {"type": "string"}}}, {"type": "object", "additionalProperties": 7}, nested, [], "x", None, 1,
        {"type": "object", "properties": {f"k{number}": {"type": "string", "default": "x"} for number in range(20_000)}},
        {"type": "object", "properties": {"a": {"type": "array", "items": grown}}}, {"type": "object", "x-kubernetes-int-or-string": True},
    )  # fmt: skip
    assert len(schemas) == SCHEMAS
    for number, schema in enumerate(schemas):
        group = f"h{number}.com"
        versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
        yield definition(versions=versions, group=group) | {"metadata": {"name": f"widgets.{group}"}}
    for names in (
        {},
        {"plural": "../x", "kind": "X"},
        {"plural": "x" * 300, "kind": "X"},
        {"plural": "pods", "kind": "Pod"},
        {"plural": "status", "kind": "é"},
    ):
        group = "hostile.com" if names.get("plural") != "pods" else ""
        yield definition(names=names, group=group) | {"metadata": {"name": f"{names.get('plural')}.{group}"}}
    columns = [
        {"name": "a", "type": "string", "jsonPath": path}
        for path in (".a[" * 1000, "[" + "9" * 5000 + "]", ".a" * 3000, "", "\u0000", "[?(@.a=='")
    ]
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
            "additionalPrinterColumns": columns,
        }
    ]
    yield definition(versions=versions, group="columns.com") | {"metadata": {"name": "widgets.columns.com"}}


def _queries() -> Iterator[Request]:
    table = (("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),)
    yield Request("GET", "/apis/columns.com/v1/widgets", None, table)
    long = "a," * 3900 + "b"
    for query in (
        f"labelSelector={long}", f"fieldSelector={'metadata.name!=a,' * 400}metadata.name!=b", f"labelSelector=a%20in%20({'b,' * 3900}c)",
        "labelSelector=" + "(" * 8000, f"limit={'9' * 8000}", "continue=" + "A" * 8000, "&".join(["watch=1"] * 1000), "a=1&" * 1900,
        f"resourceVersion={'1' * 8000}", "labelSelector=" + "!" * 8000, "labelSelector=a" + "=" * 8000,
    ):  # fmt: skip
        yield Request("GET", f"{MAPS}?{query}", is_stream="watch" in query)
    yield Request("DELETE", f"{MAPS}/none?gracePeriodSeconds={'9' * 8000}")
