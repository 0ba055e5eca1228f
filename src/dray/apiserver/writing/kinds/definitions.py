"""CustomResourceDefinitions over their life: what the server adds, when objects of them may be made, and how one goes."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dray.api.field_errors import FieldError
from dray.apiserver.custom import definition
from dray.apiserver.custom.definition import CLEANUP, DEFINITIONS
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Transaction
from dray.apiserver.writing.faults import BadRequestError, NotAllowedError
from dray.apiserver.writing.removing import grace
from dray.apiserver.writing.removing.collection import delete_collection
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Rules, Write, document_of, remove
from dray.errors import InvalidError, NotFoundError

_OPEN_GROUPS: Final = ("kubevirt.io",)
"""Groups of which the server knows kinds, but that are others' to define."""


def definition_key(name: str) -> Key:
    """Where a definition is kept."""
    return Key(DEFINITIONS, "", name)


def complete_definition(write: Write, document: Document) -> None:
    """What the server adds. It accepts a definition at once: whoever waits for `Established` waits for nothing."""
    try:
        definition.complete(document, write.now)
    except InvalidError as error:
        kind = write.served.resource.kind
        text = f'{kind} in version "v1" cannot be handled as a {kind}: {error}'
        raise BadRequestError(text, field=error.field) from None


def faults_of_definition(write: Write, document: Document) -> list[FieldError]:
    """What is wrong with it."""
    own = {one.resource.group for one in write.rules.serving.all if not one.is_custom}
    return definition.check(document, frozenset(own.difference(_OPEN_GROUPS)))


def check_defined(transaction: Transaction, write: Write) -> None:
    """No new object of a kind whose definition is gone or going, however late the request learns of it."""
    if not write.served.is_custom:
        return
    stored = transaction.get(definition_key(str(write.served.resource)))
    if stored is None:
        raise NotFoundError("the server could not find the requested resource")
    if document_of(stored)["metadata"].get("deletionTimestamp"):
        raise NotAllowedError("create not allowed while custom resource definition is terminating")


def clear_definition(transaction: Transaction, rules: Rules, name: str, now: datetime) -> bool:
    """Delete the objects of a definition that is deleted, then let go of it; False while finalizers hold objects up.

    Whoever watches calls it after every deletion of such an object; doing it again changes nothing.
    """
    stored = transaction.get(definition_key(name))
    if stored is None or not document_of(stored)["metadata"].get("deletionTimestamp"):
        return False
    served = next((one for one in rules.serving.all if one.is_custom and str(one.resource) == name), None)
    if served is not None:
        write = Write(rules, served, "", "", now)
        delete_collection(transaction, write, DeleteOptions(propagation_policy="Background"))
        if transaction.list(name):
            return False
    document = document_of(stored)
    metadata = document["metadata"]
    left = [one for one in metadata.get("finalizers") or () if one != CLEANUP]
    if left == (metadata.get("finalizers") or []):
        return False
    grace.set_finalizers(metadata, left)
    if left:
        transaction.put(stored.key, stored.uid, document)
        return False
    remove(transaction, Write(rules, rules.serving.of_key(stored.key), "", name, now), stored)
    return True
