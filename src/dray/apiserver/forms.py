"""Objects that are kept in one form and shown in another: Events, which two groups serve, and versions of custom resources. Pure.

Clients write, patch and select in the form of the address they use; the store knows one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.apiserver.served import Document, Served

_RENAMED: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""The fields of an Event of events.k8s.io that core/v1 calls otherwise; all else is the same."""
_BACK: Final = {old: new for new, old in _RENAMED.items()}


@dataclass(frozen=True)
class Form:
    """`outward` makes of a stored document what a client sees, `inward` the other way; neither changes what it is given."""

    outward: Callable[[Document], Document]
    inward: Callable[[Any], Any]


def _same(document: Any) -> Any:
    return document


PLAIN: Final = Form(_same, _same)


def form_of(served: Served, version: str) -> Form:
    """How objects look at an address; `PLAIN` where they look as they are kept."""
    if served.kept_as:
        return EVENTS
    if version != served.resource.version:
        return _versioned(served, version)
    return PLAIN


def _versioned(served: Served, version: str) -> Form:
    """Versions of one form: only the word for it differs."""
    seen, kept = served.api_version(version), served.resource.api_version

    def inward(document: Any) -> Any:
        if isinstance(document, dict) and document.get("apiVersion") == seen:
            return {**document, "apiVersion": kept}
        return document

    return Form(lambda document: {**document, "apiVersion": seen}, inward)


def _core_event(document: Any) -> Any:
    """A document of events.k8s.io as core/v1 has it; what is no object is left for others to refuse."""
    if not isinstance(document, dict):
        return document
    return _renamed(document, _RENAMED, "events.k8s.io/v1", "v1")


def _new_event(document: Document) -> Document:
    return _renamed(document, _BACK, "v1", "events.k8s.io/v1")


def _renamed(document: Document, names: Mapping[str, str], old: str, new: str) -> Document:
    """A field that has the name of another form is dropped: the client means something else by it, or nothing."""
    made = {
        names.get(key, key): value
        for key, value in document.items()
        if key in names or key not in names.values()
    }
    if made.get("apiVersion") == old:
        made["apiVersion"] = new
    return made


EVENTS: Final = Form(_new_event, _core_event)
