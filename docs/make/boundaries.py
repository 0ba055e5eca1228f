"""Tables of what crosses a boundary: errors, gRPC services, API groups."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import defaultdict

import dray.errors
import dray.wire.gen
from docs.make.made import table
from dray.api.http_status import HTTP_STATUS
from dray.apiserver.served import standard
from dray.cli.exit_codes import EXIT_CODES
from dray.errors import DeniedError, Error, InvariantError
from dray.wire.status import CODES


def boundaries() -> str:
    """Each error, and what it is on the wire, over HTTP and to a shell."""
    rows = []
    for kind, exit_code in EXIT_CODES.items():
        status, reason = HTTP_STATUS[kind]
        unknown = ", 401 where the caller is not known" if kind is DeniedError else ""
        http = f"{status} `{reason}`{unknown}"
        rows.append((f"`{kind.__name__}`", _meaning(kind), CODES[kind].name, http, str(exit_code)))
    return table(("class", "meaning", "gRPC", "HTTP", "exit"), rows)


def _meaning(kind: type[Error | InvariantError]) -> str:
    first = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return " ".join(first.split())


def grpc_services() -> str:
    """All services of the .proto files, with their calls."""
    rows = []
    for module in sorted(one.name for one in pkgutil.iter_modules(dray.wire.gen.__path__)):
        file = importlib.import_module(f"dray.wire.gen.{module}").DESCRIPTOR
        for name, service in sorted(file.services_by_name.items()):
            calls = ", ".join(f"`{one.name}`" for one in service.methods)
            rows.append((f"`{file.package}`", f"`{name}`", f"`{module.removesuffix('_pb2')}.proto`", calls))
    return table(("package", "service", "file in `wire/proto/`", "calls"), rows)


def api_groups() -> str:
    """What `dray apiserver` serves before any definition is added."""
    typed: dict[tuple[str, str], set[str]] = defaultdict(set)
    raw: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in standard().all:
        for version in one.versions:
            (typed if one.typed else raw)[one.resource.group, version].add(one.resource.kind)
    rows = [
        (place[0] or "core", place[1], ", ".join(sorted(typed[place])), ", ".join(sorted(raw[place])))
        for place in sorted({*typed, *raw})
    ]
    return table(("API group", "version", "with types and rules", "as JSON"), rows)
