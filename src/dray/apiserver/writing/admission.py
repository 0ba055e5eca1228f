"""Rules that need more than the object itself: its namespace, other claims, what the server adds to a kind."""

from __future__ import annotations

from typing import Any

from dray.api.field_errors import FieldError
from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.validation import check_admin_access, check_admin_access_status
from dray.apiserver.custom.definition import DEFINITIONS
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Transaction
from dray.apiserver.writing.kinds.allocations import check_allocation
from dray.apiserver.writing.kinds.definitions import (
    check_defined,
    complete_definition,
    faults_of_definition,
)
from dray.apiserver.writing.kinds.namespaces import check_create, find_namespace
from dray.apiserver.writing.kinds.pods import admit_pod, complete_update
from dray.apiserver.writing.kinds.workloads import give_address, keep_address, select_pods_of_job
from dray.apiserver.writing.request import Write


def complete_created(transaction: Transaction, write: Write, document: Document) -> None:
    """What the server adds to a new document of some kinds, after its defaults."""
    place = str(write.served.resource)
    if write.served.resource == PODS:
        admit_pod(transaction, document, write.now)
    elif place == DEFINITIONS:
        complete_definition(write, document)
    elif place == "jobs.batch":
        select_pods_of_job(document)
    elif place == "services":
        give_address(transaction, document)


def complete_updated(write: Write, new: Document, old: Document) -> None:
    """What an update may leave out although the server had added it."""
    place = str(write.served.resource)
    if write.served.resource == PODS:
        complete_update(new, old)
    elif place == DEFINITIONS:
        complete_definition(write, new)
    elif place == "services":
        keep_address(new, old)


def admit_namespace(transaction: Transaction, write: Write, document: Document) -> None:
    """Whether anything may be created there now."""
    check_create(transaction, write, document)
    check_defined(transaction, write)


def faults_of_document(write: Write, document: Document) -> list[FieldError]:
    """Faults of a kind without a type, by the schema that defines it or by what it defines."""
    if str(write.served.resource) == DEFINITIONS:
        return faults_of_definition(write, document)
    return write.served.check(document) if write.served.check is not None else []


def faults_of_created(transaction: Transaction, write: Write, new: Any) -> list[FieldError]:
    """Faults of a new object that its namespace decides about."""
    if not isinstance(new, ResourceClaim | ResourceClaimTemplate):
        return []
    assert write.served.resource in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
    return check_admin_access(new, find_namespace(transaction, write.namespace).metadata.labels)


def faults_of_status(transaction: Transaction, write: Write, new: Any, old: Any) -> list[FieldError]:
    """Faults of a new status that its namespace decides about."""
    if not isinstance(new, ResourceClaim) or new.status.allocation is None:
        return []
    return check_admin_access_status(new, old, find_namespace(transaction, write.namespace).metadata.labels)


def admit_status(transaction: Transaction, write: Write, new: Any, old: Any) -> None:
    """The last word on a status that is fine by itself: nobody else may hold its devices."""
    if isinstance(new, ResourceClaim):
        check_allocation(transaction, write, new, old)
