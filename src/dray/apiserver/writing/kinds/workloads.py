"""What the server adds to new objects of some kinds kept as raw JSON: a job's selector, a service's address."""

from __future__ import annotations

import ipaddress
from itertools import islice
from typing import Any, Final

from dray.api.codec import loads
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Transaction

SERVICE_ADDRESSES: Final = ipaddress.IPv4Network("10.96.0.0/16")
"""Nothing answers at these addresses here: they are given so that clients find what they know."""
_PREFIX: Final = "batch.kubernetes.io/"
_FAMILY: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def select_pods_of_job(document: Document) -> None:
    """A job finds its pods by its uid, unless it brings a selector of its own."""
    metadata, spec = document["metadata"], document.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or spec.get("manualSelector") or not isinstance(template, dict):
        return
    uid, name = metadata["uid"], metadata.get("name", "")
    labels = _labels(template)
    labels |= {"controller-uid": uid, "job-name": name}
    labels |= {f"{_PREFIX}controller-uid": uid, f"{_PREFIX}job-name": name}
    if not isinstance(spec.get("selector"), dict):
        spec["selector"] = {}
    if isinstance(chosen := spec["selector"].setdefault("matchLabels", {}), dict):
        chosen[f"{_PREFIX}controller-uid"] = uid
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _labels(template: Document) -> dict[str, Any]:
    metadata = template.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        metadata = template["metadata"] = {}
    labels = metadata.setdefault("labels", {})
    if not isinstance(labels, dict):
        labels = metadata["labels"] = {}
    return labels


def give_address(transaction: Transaction, document: Document) -> None:
    """The lowest cluster IP that no other service has; a headless or external one gets none."""
    spec = document.get("spec")
    if not isinstance(spec, dict) or spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        taken = {_address(loads(one.raw)) for one in transaction.list("services")}
        addresses = islice(
            SERVICE_ADDRESSES.hosts(), 1, None
        )  # the first is the API server's own in every cluster
        spec["clusterIP"] = next((str(one) for one in addresses if str(one) not in taken), "None")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _address(service: Document) -> str:
    spec = service.get("spec")
    return str(spec.get("clusterIP", "")) if isinstance(spec, dict) else ""


def keep_address(new: Document, old: Document) -> None:
    """An update that leaves the address out keeps it."""
    after, before = new.get("spec"), old.get("spec")
    if not isinstance(after, dict) or not isinstance(before, dict) or after.get("type") == "ExternalName":
        return
    for key in _FAMILY:
        if not after.get(key) and key in before:
            after[key] = before[key]
