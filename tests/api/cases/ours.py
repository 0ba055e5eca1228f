"""What our validation says to a write: default, prepare, decode, validate, as a server does."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any, Final

from dray.api import names
from dray.api.codec.json_codec import decode
from dray.api.codec.nulls import without_nulls
from dray.api.defaults import set_defaults
from dray.api.field_errors import FieldError
from dray.api.kinds import Resource
from dray.api.prepare import prepare_create, prepare_status, prepare_update
from dray.api.validation import validate, validate_status
from dray.errors import InvalidError
from tests.api.cases.case import CURRENT, NAMESPACE, Case, Document, Faults

NOW: Final = datetime(2026, 11, 15, 4, 30, tzinfo=UTC)
NOT_DECODED: Final[Faults] = frozenset({("", "BadRequest")})
"""Stands for a document that cannot even be decoded; a real API server answers 400 without causes."""


def view(resource: Resource[Any], document: Document) -> Any:
    """The typed view of a document; raises InvalidError where types do not fit."""
    return decode(json.dumps(document).encode(), resource.type)


def our_errors(case: Case) -> list[FieldError]:
    """Everything our validation has against the write of a case."""
    view(case.resource, case.new)
    new = without_nulls(copy.deepcopy(case.new), case.resource.type)
    set_defaults(case.resource, new, NOW)
    _check_address(case, new)
    if case.old is None:
        metadata = new["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = names.generate(metadata["generateName"], "bcdfg")
        prepare_create(case.resource, new, uid="new-uid", now=NOW)
        return validate(case.resource, view(case.resource, new))
    old = _stored(case.resource, case.old, deleting=case.deleting)
    if new["metadata"].get("resourceVersion") == CURRENT:
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    if case.status:
        prepare_status(case.resource, new, old)
        return validate_status(case.resource, view(case.resource, new), view(case.resource, old))
    prepare_update(case.resource, new, old, now=NOW)
    return validate(case.resource, view(case.resource, new), view(case.resource, old))


def _check_address(case: Case, new: Document) -> None:
    """An object is written to an address; what it says itself must fit, and may be left out in part."""
    metadata = new.setdefault("metadata", {})
    if case.resource.namespaced and metadata.setdefault("namespace", NAMESPACE) != NAMESPACE:
        raise InvalidError("the namespace of the object is not that of the address")
    if not case.resource.namespaced and metadata.get("namespace"):
        raise InvalidError("the object has a namespace, the address has none")
    if case.old is not None and metadata.get("name") != case.old["metadata"]["name"]:
        raise InvalidError("the name of the object is not that of the address")


def _stored(resource: Resource[Any], document: Document, *, deleting: bool) -> Document:
    old = copy.deepcopy(document)
    set_defaults(resource, old, NOW)
    status = old.get("status")
    prepare_create(resource, old, uid="old-uid", now=NOW)
    if status is not None:
        old["status"] = status
    old["metadata"]["resourceVersion"] = "1"
    if deleting:
        old["metadata"] |= {"deletionTimestamp": "2026-11-15T04:29:00Z", "deletionGracePeriodSeconds": 0}
    return old


def our_faults(case: Case) -> Faults:
    """The same as (field, reason) pairs."""
    try:
        return frozenset((error.field, str(error.reason)) for error in our_errors(case))
    except InvalidError:
        return NOT_DECODED
