"""DELETE of a collection: every object that the selectors match, in one transaction."""

from __future__ import annotations

import dataclasses

from dray.api.selectors import EVERYTHING, FieldMatcher, LabelMatcher
from dray.apiserver.store.contract import Transaction
from dray.apiserver.writing.removing.delete import NO_OPTIONS, delete
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Write, Written, document_of

NO_FIELDS = FieldMatcher()


def delete_collection(
    transaction: Transaction,
    write: Write,
    options: DeleteOptions = NO_OPTIONS,
    *,
    labels: LabelMatcher = EVERYTHING,
    fields: FieldMatcher = NO_FIELDS,
) -> tuple[Written, ...]:
    """Delete what matches, in the order of names. One refusal refuses all; preconditions hold for each object."""
    write.served.check_fields(fields)
    done = []
    for stored in transaction.list(str(write.served.resource), write.namespace):
        document = document_of(stored)
        if not labels.matches(document["metadata"].get("labels") or {}):
            continue
        if not fields.matches(write.served.selectable(document)):
            continue
        one = dataclasses.replace(write, namespace=stored.key.namespace, name=stored.key.name)
        done.append(delete(transaction, one, options))
    return tuple(done)
