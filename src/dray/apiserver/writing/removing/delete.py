"""DELETE of one object: preconditions, grace, propagation, finalizers."""

from __future__ import annotations

from dray.api.kinds import NAMESPACES
from dray.apiserver.store.contract import Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.faults import ObjectInvalidError
from dray.apiserver.writing.kinds.namespaces import delete_namespace
from dray.apiserver.writing.removing import grace
from dray.apiserver.writing.removing.grace import DeleteOptions, Step
from dray.apiserver.writing.request import Outcome, Write, Written, document_of, existing, remove, replace

NO_OPTIONS = DeleteOptions()


def delete(transaction: Transaction, write: Write, options: DeleteOptions = NO_OPTIONS) -> Written:
    """Delete an object, or mark it. `Outcome.DELETED` says that it is gone; else somebody has to let go first."""
    if errors := grace.check_options(options):
        raise ObjectInvalidError("DeleteOptions.meta.k8s.io", "", errors)
    stored = existing(transaction, write)
    check_preconditions(write, stored, options)
    if write.served.resource == NAMESPACES:
        return delete_namespace(transaction, write, stored, options)
    document = document_of(stored)
    metadata = document["metadata"]
    step, period = grace.begin(document, write.served, options.grace_period_seconds, write.now)
    if step is Step.PENDING:
        return Written(Outcome.UNCHANGED, stored.raw)
    grace.set_finalizers(metadata, grace.finalizers_after(metadata, options, write.served))
    held = bool(metadata.get("finalizers"))
    if step is Step.NOW and not held:
        return remove(transaction, write, stored)
    if step is Step.NOW:
        grace.mark(metadata, write.now)
    written = replace(transaction, write, stored, document)
    if held or period > 0:
        return written
    # Watchers see the mark first and the end next, as two changes, like those of a real API server.
    return remove(transaction, write, stored)


def check_preconditions(write: Write, stored: Stored, options: DeleteOptions) -> None:
    """Whether the object is still the one that the client means to delete."""
    wanted = options.preconditions
    if wanted is None:
        return
    kind, name = write.served.group_kind, stored.key.name
    for field, value, found, what in (
        ("UID", wanted.uid, stored.uid, "deleted and then recreated"),
        ("ResourceVersion", wanted.resource_version, str(stored.revision), "modified"),
    ):
        if value is None or value == found:
            continue
        if write.served.resource == NAMESPACES:
            raise faults.failed(NAMESPACES, name, field, value, found)
        why = f"the {field} in the precondition ({value}) does not match the {field} in record ({found})"
        raise faults.conflict(kind, name, f"{why}. The object might have been {what}")
