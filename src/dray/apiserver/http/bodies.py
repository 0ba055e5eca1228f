"""What came with a request: the body as a document, and the query of a write. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dray.api.codec import load_values, loads, view
from dray.apiserver.http.discovery import JSON
from dray.apiserver.http.failures import RequestError
from dray.apiserver.writing.grace import DeleteOptions
from dray.apiserver.writing.request import FieldValidation
from dray.errors import InvalidError

LIMIT = 3 * 2**20
YAML = "application/yaml"
_MANAGER_LIMIT = 128


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The query of a write."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = FieldValidation.WARN
    force: bool = False


def document_of(body: bytes, content_type: str) -> Any:
    """JSON or YAML; RequestError with 415 for anything else, 400 where it cannot be read."""
    kind = content_type.partition(";")[0].strip() or JSON
    if kind not in (JSON, YAML):
        raise RequestError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            f"{JSON}, {YAML}",
        )
    try:
        if kind == JSON:
            return loads(body)
        documents = load_values(body, "the request's body")
    except InvalidError as error:
        raise RequestError(400, f"the object provided is unrecognized: {error}") from error
    if len(documents) != 1:
        raise RequestError(400, f"the request's body has {len(documents)} documents; one is needed")
    return documents[0]


def write_options(query: Mapping[str, str], user_agent: str = "") -> WriteOptions:
    """Who writes is the first word of the User-Agent, where the query does not say."""
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise InvalidError(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"', field="dryRun")
    manager = query.get("fieldManager") or user_agent.partition("/")[0]
    if len(manager) > _MANAGER_LIMIT or not manager.isprintable():
        raise InvalidError(
            f"fieldManager: may not be more than {_MANAGER_LIMIT} printable characters", field="fieldManager"
        )
    wanted = query.get("fieldValidation") or FieldValidation.WARN
    if wanted not in list(FieldValidation):
        raise InvalidError(
            f'fieldValidation: Unsupported value: "{wanted}": supported values: "Ignore", "Strict", "Warn"',
            field="fieldValidation",
        )
    force = query.get("force", "")
    return WriteOptions(dry_run == "All", manager, FieldValidation(wanted), force in ("true", "1", "t"))


def delete_options(body: bytes, content_type: str, query: Mapping[str, str]) -> DeleteOptions:
    """The body's, or else those of the query."""
    if body.strip():
        document = document_of(body, content_type)
        if isinstance(document, dict):
            document = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
        return view(document, DeleteOptions)
    document = {}
    if seconds := query.get("gracePeriodSeconds"):
        if not (seconds.isascii() and seconds.isdigit()):
            raise InvalidError(
                f'gracePeriodSeconds: "{seconds}" is not a whole number', field="gracePeriodSeconds"
            )
        document["gracePeriodSeconds"] = int(seconds)
    if policy := query.get("propagationPolicy"):
        document["propagationPolicy"] = policy
    if orphan := query.get("orphanDependents"):
        document["orphanDependents"] = orphan in ("true", "1")
    return view(document, DeleteOptions)
