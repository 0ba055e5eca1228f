"""POST: a new object, with what the server adds to it."""

from __future__ import annotations

from typing import Any

from dray.api.codec import encode, loads
from dray.api.kinds import PODS
from dray.api.prepare import prepare_create
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Transaction
from dray.apiserver.writing import admission, faults, metadata
from dray.apiserver.writing.faults import BadRequestError
from dray.apiserver.writing.kinds.defaulting import fill
from dray.apiserver.writing.managing import managed
from dray.apiserver.writing.names import give_name
from dray.apiserver.writing.request import Outcome, Write, Written


def create(transaction: Transaction, write: Write, document: Any) -> Written:
    """Store a new object; the document given is used up. `write.name` is empty, or the name of the address where an update creates."""
    document, warnings = metadata.take(write, document)
    if write.served.resource == PODS:
        document.setdefault("spec", {})
    fill(write, document)
    document = managed(write, None, document)
    if document["metadata"].get("resourceVersion") not in (None, "", "0") and not write.name:
        raise BadRequestError("resourceVersion should not be set on objects to be created")
    admission.admit_namespace(transaction, write, document)
    uid = _complete(transaction, write, document)
    name = document["metadata"].get("name", "")
    new = metadata.typed(write, document)
    errors = metadata.check_rules(write, new) + admission.faults_of_created(transaction, write, new)
    errors += admission.faults_of_document(write, document)
    faults.refuse_faults(write.served, name, errors)
    key = write.served.key(write.namespace, name)
    if transaction.get(key) is not None:
        raise faults.already_there(write.served, name)
    if write.dry_run:
        return Written(Outcome.CREATED, encode(document), warnings)
    return Written(Outcome.CREATED, transaction.put(key, uid, document).raw, warnings)


def _complete(transaction: Transaction, write: Write, document: Document) -> str:
    """Everything the server sets on a new object; gives its uid."""
    served, uid = write.served, write.rules.new_uid()
    give_name(transaction, write, document["metadata"])
    prepare_create(served.resource, document, uid=uid, now=write.now)
    if served.resource.has_status and served.new_status and "status" not in document:
        document["status"] = loads(served.new_status)
    if not served.typed:
        document["metadata"].pop("generation", None)
        if served.counts_generations:
            document["metadata"]["generation"] = 1
    fill(write, document)
    admission.complete_created(transaction, write, document)
    return uid
