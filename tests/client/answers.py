"""What an API server says, in a few words: documents, pages and events for scripted servers."""

from __future__ import annotations

from typing import Any

from tests.client.servers import Handler, ScriptedServer, lines, reply

HANG = lines(end="hang")


def config_map(name: str, version: int = 1, **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def page(*items: Any, version: int = 10, token: str = "") -> Handler:
    meta = {"resourceVersion": str(version), "continue": token}
    return reply(200, {"metadata": meta, "items": list(items)})


def event(kind: str, document: Any) -> dict[str, Any]:
    return {"type": kind, "object": document}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def queries(server: ScriptedServer) -> list[str]:
    """What was asked for: `list`, or the version a watch started from."""
    found = []
    for seen in server.seen:
        query = dict(pair.partition("=")[::2] for pair in seen.target.partition("?")[2].split("&"))
        found.append(f"watch {query['resourceVersion']}" if "watch" in query else "list")
    return found
