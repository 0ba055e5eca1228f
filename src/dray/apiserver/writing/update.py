"""PUT and PATCH, through the main door, the status door and a namespace's `/finalize`.

Each takes a `change`: a function from the stored document (a copy; None where there is none) to the wanted one. A PUT
ignores what it is given; a patch is applied inside the transaction, so that nobody writes in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dray.api.codec import encode
from dray.api.field_errors import FieldError, Path
from dray.api.kinds import NAMESPACES, NODES, PODS, Resource
from dray.api.prepare import prepare_status, prepare_update
from dray.api.validation.metadata import check_finalizer_domain
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Stored, Transaction
from dray.apiserver.writing import admission, faults, metadata
from dray.apiserver.writing.create import create
from dray.apiserver.writing.kinds.defaulting import fill
from dray.apiserver.writing.kinds.pods import keep_pod_status
from dray.apiserver.writing.managing import managed, settled
from dray.apiserver.writing.removing import grace
from dray.apiserver.writing.request import Outcome, Write, Written, document_of, existing, remove, replace

Changing = Callable[[Document | None], Any]

_METADATA_PASSES: Final[dict[Resource[Any], tuple[str, ...]]] = {
    PODS: (),
    NODES: ("ownerReferences",),
    NAMESPACES: ("ownerReferences",),
}
"""Kinds whose status door lets metadata through too, as kubelets expect, and what goes beyond the usual."""
_NEVER_COUNTED: Final = ("PriorityClass",)
"""It has a generation, but what it means cannot change."""
_PASSING: Final = ("labels", "annotations", "finalizers")


def update(
    transaction: Transaction, write: Write, change: Changing, *, creates: bool = False, door: str = ""
) -> Written:
    """Replace an object through the main door. `creates`: make it where there is none, as apply does.

    `door` is the one that was really taken, where another leads here.
    """
    stored = transaction.get(write.key)
    if stored is None:
        if not creates and not write.served.creates_on_update:
            raise faults.not_found(write.served, write.name)
        document = change(None)
        if isinstance(document, dict) and isinstance(given := document.get("metadata"), dict):
            metadata.check_uid(write, given, "")
        return create(transaction, write, document)
    new, old, warnings = _begin(write, stored, change)
    fill(write, new)
    new = managed(write, old, new, door)
    prepare_update(write.served.resource, new, old, now=write.now)
    _count_generation(write, new, old)
    admission.complete_updated(write, new, old)
    after, before = metadata.typed(write, new), metadata.typed(write, old)
    errors = metadata.check_rules(write, after, before) + admission.faults_of_document(write, new)
    faults.refuse_faults(write.served, write.name, errors)
    return _finish(transaction, write, stored, old, new, warnings)


def update_status(transaction: Transaction, write: Write, change: Changing) -> Written:
    """Replace the status of an object; the rest of what the client sent is ignored."""
    stored = existing(transaction, write)
    new, old, warnings = _begin(write, stored, change)
    fill(write, new)
    new = managed(write, old, new, "status")
    _prepare_status(write, new, old)
    after, before = metadata.typed(write, new), metadata.typed(write, old)
    errors = metadata.check_rules(write, after, before, status=True)
    errors += admission.faults_of_status(transaction, write, after, before)
    errors += admission.faults_of_document(write, new)
    faults.refuse_faults(write.served, write.name, errors)
    admission.admit_status(transaction, write, after, before)
    return _finish(transaction, write, stored, old, new, warnings)


def finalize(transaction: Transaction, write: Write, change: Changing) -> Written:
    """Replace `spec.finalizers` of a namespace; when the last is gone from one that is deleted, so is it."""
    stored = existing(transaction, write)
    new, old, warnings = _begin(write, stored, change)
    wanted = (new.get("spec") or {}).get("finalizers") or []
    new = document_of(stored)
    grace.set_finalizers(new.setdefault("spec", {}), wanted)
    new = managed(write, old, new, "finalize")
    path = Path("spec").child("finalizers")
    errors: list[FieldError] = []
    for position, finalizer in enumerate(wanted):
        errors += check_finalizer_domain(finalizer, path.index(position))
    faults.refuse_faults(write.served, write.name, errors)
    return _finish(transaction, write, stored, old, new, warnings)


def _begin(write: Write, stored: Stored, change: Changing) -> tuple[Document, Document, tuple[str, ...]]:
    """The wanted document and the stored one, the preconditions held."""
    new, warnings = metadata.take(write, change(document_of(stored)))
    metadata.check_uid(write, new["metadata"], stored.uid)
    metadata.check_version(write, new["metadata"], stored)
    return new, document_of(stored), warnings


def _prepare_status(write: Write, new: Document, old: Document) -> None:
    given = new["metadata"]
    prepare_status(write.served.resource, new, old)
    if write.served.resource == PODS:
        keep_pod_status(new, old)
    passing = _METADATA_PASSES.get(write.served.resource)
    if passing is None:
        return
    for key in (*_PASSING, *passing):
        new["metadata"].pop(key, None)
        if given.get(key):
            new["metadata"][key] = given[key]


def _count_generation(write: Write, new: Document, old: Document) -> None:
    """For a kind without a type every change outside metadata and status is one of what is wanted."""
    if write.served.typed or not write.served.counts_generations or new["kind"] in _NEVER_COUNTED:
        return
    aside = ("metadata", "status", "apiVersion", "kind")
    after, before = ({key: value for key, value in one.items() if key not in aside} for one in (new, old))
    if after != before:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _finish(
    transaction: Transaction,
    write: Write,
    stored: Stored,
    old: Document,
    new: Document,
    warnings: tuple[str, ...],
) -> Written:
    """Store the new state, or drop the object where the last that held it up has let go."""
    new["metadata"]["resourceVersion"] = str(stored.revision)
    new = settled(old, new)
    if grace.goes_with_update(old, new):
        # Watchers see the object as it was stored last, with the finalizer, as those of a real API server do.
        remove(transaction, write, stored)
        return Written(Outcome.DELETED, encode(new), warnings)
    written = replace(transaction, write, stored, new)
    return Written(written.outcome, written.raw, warnings)
