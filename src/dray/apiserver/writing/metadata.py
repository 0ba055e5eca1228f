"""The parts of a write that are the same for every kind: place, types, preconditions, and the rules of the kind."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from dray.api.codec import encode, view
from dray.api.codec.nulls import without_nulls
from dray.api.field_errors import FieldError, Path, first_faults
from dray.api.validation import validate, validate_status
from dray.api.validation.faults import invalid
from dray.api.validation.metadata import MetadataRules, check_metadata, check_metadata_update
from dray.apiserver.patching.field_types import wrong_type
from dray.apiserver.patching.unknown import unknown_names
from dray.apiserver.served import Document, GenericObject
from dray.apiserver.store.contract import Stored
from dray.apiserver.writing import faults
from dray.apiserver.writing.faults import BadRequestError, ObjectInvalidError, TooLargeError
from dray.apiserver.writing.request import FieldValidation, Write
from dray.errors import InvalidError

_DIGITS: Final = 20
"""As many as the largest number of 64 bits has."""
MAX_DEPTH: Final = 100
"""How deep a document may be nested; no kind of Kubernetes comes near."""
MAX_OBJECT_BYTES: Final = 3 * 2**19
"""As etcd's, which keeps Kubernetes' objects. It bounds the work of rules and of field managers, too."""
_NO_NAME: Final = "name must be provided"
_NAMESPACE_DIFFERS: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


def take(write: Write, document: Any) -> tuple[Document, tuple[str, ...]]:
    """A document as it came, checked for its place and its types and without nulls; and warnings about its fields."""
    if not isinstance(document, dict):
        raise BadRequestError("the object provided is unrecognized: it must be a JSON object")
    _check_words(write, document)
    encoded = encode(document)
    if len(encoded) > MAX_OBJECT_BYTES:
        raise TooLargeError(
            f"Request entity too large: the object has {len(encoded)} bytes, the limit is {MAX_OBJECT_BYTES}"
        )
    if encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH and _is_deep(document):
        raise BadRequestError(f"the object provided is unrecognized: it is nested more than {MAX_DEPTH} deep")
    if b"null" in encoded:
        document = _without_nulls(write, document)
    metadata = document.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        _refuse_type(write, InvalidError("metadata: must be an object", field="metadata"))
    _place(write, metadata)
    typed(write, document)
    if fault := wrong_type(_table_name(write), document):
        _refuse_type(write, InvalidError(str(fault), field=fault.field, causes=(fault,)))
    return document, _unknown(write, document)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        below = [
            item.values() if isinstance(item, dict) else item
            for item in level
            if isinstance(item, dict | list)
        ]
        level = [value for values in below for value in values]
    return bool(level)


def _without_nulls(write: Write, document: Document) -> Document:
    """A null is as good as absent; in a kind without a type, everywhere but in lists."""
    if write.served.typed:
        cleaned: Document = without_nulls(document, write.served.resource.type)
        return cleaned
    found: Document = _pruned(document)
    return found


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(item) for key, item in value.items() if item is not None}
    return [_pruned(item) for item in value] if isinstance(value, list) else value


def _check_words(write: Write, document: Document) -> None:
    """Whether `apiVersion` and `kind` are those of the address; left out, they are filled in."""
    resource = write.served.resource
    found = document.get("apiVersion") or resource.api_version
    kind = document.get("kind") or resource.kind
    start = f'{kind} in version "{str(found).rpartition("/")[2]}" cannot be handled as a {resource.kind}'
    if found not in [write.served.api_version(version) for version in write.served.versions]:
        text = f'{start}: no kind "{kind}" is registered for version "{found}"'
        raise BadRequestError(text, field="apiVersion")
    if kind != resource.kind:
        raise BadRequestError(f"{start}: unknown conversion", field="kind")
    document |= {"apiVersion": resource.api_version, "kind": kind}


def _place(write: Write, metadata: Document) -> None:
    """The namespace and, but for a create, the name are those of the address."""
    if not write.served.resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", write.namespace) != write.namespace:
        raise BadRequestError(_NAMESPACE_DIFFERS, field="metadata.namespace")
    if not write.name:
        return
    name = metadata.get("name")
    if not name:
        text = f"the name of the object ({write.name} based on URL) was undeterminable: {_NO_NAME}"
        raise BadRequestError(text, field="metadata.name")
    if name != write.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({write.name})"
        raise BadRequestError(text, field="metadata.name")


def typed(write: Write, document: Document) -> Any:
    """The view that rules are written for; for a kind without a type, of its metadata only."""
    try:
        return view(document, write.served.resource.type)
    except InvalidError as error:
        _refuse_type(write, error)


def _table_name(write: Write) -> str:
    """What the table of shapes calls the kind."""
    return f"{write.served.resource.api_version}/{write.served.resource.kind}"


def _refuse_type(write: Write, error: InvalidError) -> NoReturn:
    raise BadRequestError(f"{_cannot_handle(write)}: {error}", field=error.field, causes=error.causes)


def _cannot_handle(write: Write) -> str:
    resource = write.served.resource
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'


def _unknown(write: Write, document: Document) -> tuple[str, ...]:
    """Fields the kind has not: an error or warnings, as asked. None where nobody knows the kind's fields."""
    if write.field_validation is FieldValidation.IGNORE:
        return ()
    names = unknown_names(_table_name(write), document) or ()
    found = tuple(f'unknown field "{name}"' for name in names)
    if found and write.field_validation is FieldValidation.STRICT:
        raise BadRequestError(f"{_cannot_handle(write)}: strict decoding error: {', '.join(found)}")
    return found


def check_uid(write: Write, metadata: Document, stored_uid: str) -> None:
    """A uid in a request is a precondition."""
    uid = metadata.get("uid")
    if uid and uid != stored_uid:
        raise faults.failed(write.served.resource, write.name, "UID", uid, stored_uid)


def check_version(write: Write, metadata: Document, stored: Stored) -> None:
    """A resourceVersion in an update is one too; without it the newest state is replaced, where the kind allows."""
    version = metadata.get("resourceVersion") or "0"
    if not version.isascii() or not version.isdecimal() or len(version) > _DIGITS:
        fault = invalid(Path("metadata").child("resourceVersion"), version, "must be an unsigned integer")
        faults.refuse_faults(write.served, write.name, [fault])
    if int(version) == 0:
        metadata.pop("resourceVersion", None)
        if write.served.needs_version:
            fault = invalid(Path("metadata").child("resourceVersion"), 0, "must be specified for an update")
            raise ObjectInvalidError(str(write.served.resource), write.name, [fault])
    elif int(version) != stored.revision:
        raise faults.conflict(write.served.resource, write.name, faults.MODIFIED)


def check_rules(write: Write, new: Any, old: Any = None, *, status: bool = False) -> list[FieldError]:
    """What the kind's rules say about a view, up to `MOST_FAULTS`; `old` is what it replaces."""
    return first_faults(lambda: _check_rules(write, new, old, status=status))


def _check_rules(write: Write, new: Any, old: Any, *, status: bool) -> list[FieldError]:
    resource = write.served.resource
    if isinstance(new, GenericObject):
        plain = write.served.is_custom or resource.group == "apiextensions.k8s.io"
        rules = MetadataRules(resource.namespaced, write.served.name_rule, plain_finalizers=plain)
        if old is None:
            return check_metadata(new.metadata, rules)
        return check_metadata_update(new.metadata, old.metadata, rules)
    if status:
        return validate_status(resource, new, old)
    return validate(resource, new, old, check_selector=write.rules.check_selector)
