"""POST to `pods/NAME/binding`: a scheduler says where a pod runs."""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from dray.api import names
from dray.api.codec import decode, view
from dray.api.core import Node, ObjectReference
from dray.api.field_errors import Path
from dray.api.kinds import NODES
from dray.api.meta import Model, ObjectMeta
from dray.api.validation.faults import by_rule_or_required, not_supported
from dray.api.validation.metadata import check_annotations, check_labels
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.faults import BadRequestError, ObjectInvalidError
from dray.apiserver.writing.kinds.pods import set_condition
from dray.apiserver.writing.request import Write, Written, document_of, existing, replace
from dray.errors import InvalidError

_WHAT: Final = "pods/binding"
_METADATA: Final = Path("metadata")
_TOPOLOGY: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Binding(Model, frozen=True, kw_only=True):
    """The request. A uid and a resourceVersion in its metadata are preconditions on the pod."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    target: ObjectReference = field(default_factory=ObjectReference)


def bind(transaction: Transaction, write: Write, document: Any) -> Written:
    """Put a pod on a node, once. The caller answers with a Status, not with the pod."""
    binding = _read(write, document)
    stored = existing(transaction, write)
    _check_preconditions(write, stored, binding.metadata)
    pod = document_of(stored)
    _check_free(write, pod)
    pod["spec"]["nodeName"] = binding.target.name
    metadata = pod["metadata"]
    if binding.metadata.annotations:
        metadata["annotations"] = (metadata.get("annotations") or {}) | binding.metadata.annotations
    labels = binding.metadata.labels | _topology(transaction, binding.target.name)
    if labels:
        metadata["labels"] = (metadata.get("labels") or {}) | labels
    (pod.get("status") or {}).pop("nominatedNodeName", None)
    set_condition(pod, {"type": "PodScheduled", "status": "True"}, write.now)
    return replace(transaction, write, stored, pod)


def _read(write: Write, document: Any) -> Binding:
    """Checked for all that it puts into the pod: what the pod's own rules refuse would never be changed again."""
    try:
        binding = view(document, Binding)
    except InvalidError as error:
        text = f'Binding in version "v1" cannot be handled as a Binding: {error}'
        raise BadRequestError(text, field=error.field) from None
    if (binding.metadata.name or write.name) != write.name:
        raise BadRequestError("name in URL does not match name in Binding object", field="metadata.name")
    path, errors = Path("target"), []
    if binding.target.kind not in ("", "Node"):
        errors.append(not_supported(path.child("kind"), binding.target.kind, ("Node", "<empty>")))
    errors += by_rule_or_required(names.dns_subdomain, binding.target.name, path.child("name"))
    errors += check_labels(binding.metadata.labels, _METADATA.child("labels"))
    errors += check_annotations(binding.metadata.annotations, _METADATA.child("annotations"))
    if errors:
        raise ObjectInvalidError("Binding", write.name, errors)
    return binding


def _check_preconditions(write: Write, stored: Stored, wanted: ObjectMeta) -> None:
    for field_name, value, found in (
        ("UID", wanted.uid, stored.uid),
        ("ResourceVersion", wanted.resource_version, str(stored.revision)),
    ):
        if value and value != found:
            raise faults.failed(write.served.resource, write.name, field_name, value, found)


def _check_free(write: Write, pod: Document) -> None:
    name, spec = write.name, pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        raise faults.conflict(_WHAT, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node := spec.get("nodeName"):
        raise faults.conflict(_WHAT, name, f'pod {name} is already assigned to node "{node}"')
    if spec.get("schedulingGates"):
        raise faults.conflict(_WHAT, name, f"pod {name} has non-empty .spec.schedulingGates")


def _topology(transaction: Transaction, node: str) -> dict[str, str]:
    """A pod learns its region and zone from the node it is bound to."""
    stored = transaction.get(Key(str(NODES), "", node))
    labels = decode(stored.raw, Node).metadata.labels if stored is not None else {}
    return {key: labels[key] for key in _TOPOLOGY if key in labels}
