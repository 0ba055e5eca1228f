"""What came with a request: the body as a document, and the query of a write. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dray.api.codec import load_values, loads, view
from dray.api.field_errors import FieldError, Path, Reason
from dray.api.validation.faults import forbidden, invalid, not_supported, required, too_long
from dray.apiserver.http.discovery import JSON
from dray.apiserver.http.protobuf.decode import PROTOBUF, decode_object
from dray.apiserver.writing.faults import ObjectInvalidError
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import FieldValidation
from dray.errors import InvalidError
from dray.runtime.http_server import RequestError

LIMIT = 3 * 2**20
YAML = "application/yaml"
_MANAGER_LIMIT = 128
_DIGITS = 19
"""As many as the largest number of 64 bits has."""
_OPTIONS = {
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The query of a write."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = FieldValidation.WARN
    force: bool = False


def document_of(body: bytes, content_type: str) -> Any:
    """JSON, YAML or protobuf; RequestError with 415 for anything else, 400 where it cannot be read."""
    kind = content_type.partition(";")[0].strip() or JSON
    if kind not in (JSON, YAML, PROTOBUF):
        raise RequestError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            f"{JSON}, {YAML}, {PROTOBUF}",
        )
    try:
        if kind == JSON:
            return loads(body)
        if kind == PROTOBUF:
            return decode_object(body)
        documents = load_values(body, "the request's body")
    except InvalidError as error:
        raise RequestError(400, f"the object provided is unrecognized: {error}") from error
    if len(documents) != 1:
        raise RequestError(400, f"the request's body has {len(documents)} documents; one is needed")
    return documents[0].value


def write_options(
    query: Mapping[str, str], method: str, user_agent: str = "", *, is_apply: bool = False
) -> WriteOptions:
    """Who writes is the first word of the User-Agent, where the query does not say; whoever applies must say it."""
    manager, errors = query.get("fieldManager", ""), []
    if is_apply and not manager:
        errors.append(required(Path("fieldManager"), "is required for apply patch"))
    if not is_apply and method == "PATCH" and "force" in query:
        errors.append(forbidden(Path("force"), "may not be specified for non-apply patch"))
    if len(manager.encode()) > _MANAGER_LIMIT:
        errors.append(too_long(Path("fieldManager"), _MANAGER_LIMIT))
    for position, sign in enumerate(manager):
        if not sign.isprintable():
            why = f"invalid character U+{ord(sign):04X} (at position {position})"
            errors.append(invalid(Path("fieldManager"), manager, why))
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        shown = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
        errors.append(FieldError("dryRun", Reason.NOT_SUPPORTED, shown, dry_run))
    wanted = query.get("fieldValidation") or FieldValidation.WARN
    if wanted not in list(FieldValidation):
        errors.append(not_supported(Path("fieldValidation"), wanted, ("", *sorted(FieldValidation))))
    if errors:
        raise ObjectInvalidError(_OPTIONS.get(method, "PatchOptions") + ".meta.k8s.io", "", errors)
    force = query.get("force", "") in ("true", "1", "t", "T", "TRUE", "True")
    name = manager or _first_word(user_agent)
    return WriteOptions(dry_run == "All", name, FieldValidation(wanted), force)


def _first_word(user_agent: str) -> str:
    """As much of it as fits; `unknown` where a client says nothing."""
    printable = "".join(sign for sign in user_agent.partition("/")[0] if sign.isprintable())
    return printable.encode()[:_MANAGER_LIMIT].decode(errors="ignore") or "unknown"


def delete_options(body: bytes, content_type: str, query: Mapping[str, str]) -> DeleteOptions:
    """The body's, or else those of the query."""
    if body.strip():
        document = document_of(body, content_type)
        if isinstance(document, dict):
            document = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
        return view(document, DeleteOptions)
    document = {}
    if seconds := query.get("gracePeriodSeconds"):
        if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= _DIGITS):
            raise InvalidError(
                f'gracePeriodSeconds: "{seconds}" is not a whole number', field="gracePeriodSeconds"
            )
        document["gracePeriodSeconds"] = int(seconds)
    if policy := query.get("propagationPolicy"):
        document["propagationPolicy"] = policy
    if orphan := query.get("orphanDependents"):
        document["orphanDependents"] = orphan in ("true", "1")
    return view(document, DeleteOptions)
