"""What the server says of itself in OpenAPI v3: every path and method with its query, its bodies and their schemas."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from tests.apiserver.bad_input.wire import Connection, Request

Document = dict[str, Any]
_REF: Final = "#/components/schemas/"
_DEPTH: Final = 9
_WORDS: Final = (
    "a",
    "one",
    "v1",
    "1",
    "True",
    "In",
    "Exists",
    "example.com/a",
    "2030-01-01T00:00:00Z",
    "ZA==",
)


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked of one path."""

    method: str
    path: str
    """With `{namespace}` and `{name}`."""
    action: str
    query: tuple[tuple[str, str], ...]
    """Names and types."""
    content_types: tuple[str, ...]
    api_version: str
    kind: str
    schema: str
    """Of the body's object; empty where there is none."""

    @property
    def plural(self) -> str:
        """Of the resource."""
        parts = self.path.split("/")
        return parts[parts.index("{name}") - 1] if "{name}" in parts else parts[-1]

    @property
    def door(self) -> str:
        """The subresource."""
        return self.path.rpartition("{name}")[2].strip("/") if "{name}" in self.path else ""


@dataclass(frozen=True)
class Catalog:
    """Everything that is served."""

    operations: tuple[Operation, ...]
    schemas: dict[str, Document]

    def sample(self, schema: str, chance: random.Random) -> Any:
        """A document by a schema: of the right types, whatever its rules may say."""
        return _sample(self.schemas, self.schemas.get(schema, {}), chance, _DEPTH)


async def read_catalog(asking: Connection) -> Catalog:
    """Ask a server."""
    operations: list[Operation] = []
    schemas: dict[str, Document] = {}
    index = (await asking.ask(Request("GET", "/openapi/v3"))).document["paths"]
    for _, told in sorted(index.items()):
        document = (await asking.ask(Request("GET", told["serverRelativeURL"]))).document
        schemas |= document.get("components", {}).get("schemas", {})
        for path, methods in sorted(document["paths"].items()):
            common = methods.get("parameters", [])
            operations += [
                _operation(path, method, one, common)
                for method, one in sorted(methods.items())
                if method != "parameters"
            ]
    return Catalog(tuple(operations), schemas)


def _operation(path: str, method: str, told: Document, common: list[Document]) -> Operation:
    query = tuple(
        (one["name"], one["schema"]["type"])
        for one in [*told.get("parameters", []), *common]
        if one["in"] == "query"
    )
    kind = told["x-kubernetes-group-version-kind"]
    content = told.get("requestBody", {}).get("content", {})
    schema = next((one["schema"]["$ref"].removeprefix(_REF) for one in content.values()), "")
    return Operation(
        method.upper(),
        path,
        told["x-kubernetes-action"],
        query,
        tuple(sorted(content)),
        "/".join(filter(None, (kind["group"], kind["version"]))),
        kind["kind"],
        schema if method != "patch" else "",
    )


def _sample(schemas: dict[str, Document], schema: Document, chance: random.Random, depth: int) -> Any:
    for one in schema.get("allOf", ()):
        return _sample(schemas, one, chance, depth)
    if "$ref" in schema:
        return _sample(schemas, schemas.get(schema["$ref"].removeprefix(_REF), {}), chance, depth)
    if chance.random() < 0.7 and "enum" in schema:
        return chance.choice(schema["enum"])
    kind = schema.get("type", "string")
    if kind == "object":
        return _sample_object(schemas, schema, chance, depth)
    if kind == "array":
        items = range(chance.choice((1, 1, 1, 2)) if depth > 0 else 0)
        return [_sample(schemas, schema.get("items", {}), chance, depth - 1) for _ in items]
    if kind == "string":
        return "2030-01-01T00:00:00Z" if schema.get("format") == "date-time" else chance.choice(_WORDS)
    return {"integer": chance.randint(0, 3), "number": 0.5, "boolean": chance.random() < 0.5}.get(kind)


def _sample_object(
    schemas: dict[str, Document], schema: Document, chance: random.Random, depth: int
) -> Document:
    if depth <= 0:
        return {}
    needed = schema.get("required", ())
    made = {
        name: _sample(schemas, below, chance, depth - 1)
        for name, below in sorted(schema.get("properties", {}).items())
        if name in needed or chance.random() < 0.4
    }
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        made[chance.choice(_WORDS)] = _sample(schemas, more, chance, depth - 1)
    return made
