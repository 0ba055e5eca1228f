"""All that a node may ask, as one table: what is not in it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from dray.apiserver.access.authorize import check_change, check_request
from dray.apiserver.access.identity import node
from dray.apiserver.access.node_role import check_token
from dray.apiserver.access.roles import Asked
from dray.errors import DeniedError
from tests.apiserver.access.test_authorize import Cluster

READS = ("get", "list", "watch")
WRITES = ("create", "update", "patch")
VERBS = (*READS, *WRITES, "delete", "deletecollection")
NODE_LEASES = "kube-node-lease"
LEASES, CSI_NODES = "leases.coordination.k8s.io", "csinodes.storage.k8s.io"
CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
REVIEWS = (
    "tokenreviews.authentication.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
)
EVERYBODYS = (
    "services",
    "runtimeclasses.node.k8s.io",
    "csidrivers.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
)
OWN, NAMED = "spec.nodeName=n1", "metadata.name=n1"
Row = tuple[str, str, str, str, tuple[str, ...]]
"""Door, namespace, name, field selector, verbs."""
NODES: list[Row] = [
    row
    for door in ("nodes", CSI_NODES)
    for row in (
        (door, "", "n1", "", (*READS, *WRITES)),
        (door, "", "", "", ("create",)),
        (door, "", "", NAMED, (*READS, "create")),
        (door, "", "", "metadata.name=n2", ("create",)),
        (door, "", "n2", "", ()),
        (f"{door}/status", "", "n1", "", WRITES if door == "nodes" else ()),
        (f"{door}/status", "", "n2", "", ()),
        (f"{door}/proxy", "", "n1", "", ()),
    )
]
PODS: list[Row] = [
    ("pods", "ns", "mine", "", (*READS, "delete")),
    ("pods", "ns", "theirs", "", ()),
    ("pods", "ns", "", "", ()),
    ("pods", "", "", OWN, READS),
    ("pods", "", "", "spec.nodeName=n2", ()),
    *((f"pods/{one}", "ns", "mine", "", WRITES) for one in ("status", "eviction")),
    *((f"pods/{one}", "ns", "mine", OWN, ()) for one in ("log", "exec", "binding", "ephemeralcontainers")),
    *((f"pods/{one}", "ns", "theirs", "", ()) for one in ("status", "eviction", "log", "binding")),
    # Let through to be told that it is not found.
    ("pods", "ns", "none", "", ("delete",)),
    *((f"pods/{one}", "ns", "none", "", WRITES) for one in ("status", "eviction")),
]
DEVICES: list[Row] = [
    (SLICES, "", "s-n1", "", (*READS, *WRITES, "delete")),
    (SLICES, "", "s-n2", "", (*WRITES, "delete")),
    (SLICES, "", "", OWN, VERBS),
    (SLICES, "", "", "spec.nodeName=n2", (*WRITES, "delete")),
    (SLICES, "", "", "", (*WRITES, "delete")),
    (f"{SLICES}/status", "", "s-n1", OWN, ()),
    (CLAIMS, "ns", "used", "", READS),
    (CLAIMS, "ns", "other", "", ()),
    (CLAIMS, "other", "used", "", ()),
    (CLAIMS, "ns", "", "metadata.name=used", READS),
    (f"{CLAIMS}/status", "ns", "used", "", (*READS, "update", "patch")),
    (f"{CLAIMS}/status", "ns", "other", "", ()),
    (f"{CLAIMS}/binding", "ns", "used", "", ()),
]
OTHERS: list[Row] = [
    (LEASES, NODE_LEASES, "n1", "", (*READS, *WRITES, "delete")),
    (LEASES, NODE_LEASES, "n2", "", ()),
    (LEASES, NODE_LEASES, "", "", ("create",)),
    (LEASES, "ns", "n1", "", ()),
    (f"{LEASES}/status", NODE_LEASES, "n1", "", ()),
    ("events", "ns", "e", "", WRITES),
    ("events/status", "ns", "e", "", ()),
    *((one, "", "", "", ("create",)) for one in REVIEWS),
    *((f"{one}/status", "", "", "", ()) for one in REVIEWS),
    *((one, "", name, "", READS) for one in EVERYBODYS for name in ("", "x")),
    *((f"{one}/status", "", "x", "", ()) for one in EVERYBODYS),
    ("serviceaccounts", "ns", "account", "", READS),
    ("serviceaccounts/token", "ns", "account", "", ("create",)),
    ("serviceaccounts/token", "ns", "another", "", ()),
    ("serviceaccounts/token", "other", "account", "", ()),
    ("secrets", "ns", "volume-secret", "", READS),
    ("secrets", "ns", "other-secret", "", ()),
    ("secrets", "ns", "", "", ()),
    *((one, NODE_LEASES, "n1", OWN, ()) for one in ("configmaps", "secrets", "apps", "zebras.example.com")),
    *(
        (one, "", "n1", NAMED, ())
        for one in ("namespaces", "apps", "persistentvolumes", "zebras.example.com")
    ),
]


def copied(text: str) -> str:
    """Equal, and not the same object: what a request says is never a constant of ours."""
    return str(text.encode(), "ascii")


@pytest.mark.parametrize(
    ("door", "namespace", "name", "selector", "verbs"),
    [*NODES, *PODS, *DEVICES, *OTHERS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_node_may_ask(
    door: str, namespace: str, name: str, selector: str, verbs: tuple[str, ...]
) -> None:
    resource, _, subresource = door.partition("/")
    field, _, value = selector.partition("=")
    allowed = []
    for verb in VERBS:
        fields = {copied(field): copied(value)} if field else None
        place = copied(namespace), copied(name), copied(subresource)
        asked = Asked(copied(verb), copied(resource), *place, fields)
        try:
            check_request(node(copied("n1")), asked, Cluster())
            allowed.append(verb)
        except DeniedError:
            pass
    assert allowed == [verb for verb in VERBS if verb in verbs]


def test_a_node_gets_tokens_that_end_with_its_own_pods_alone() -> None:
    asked = Asked("create", "serviceaccounts", "ns", "account", "token")
    volume = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    check_token(node("n1"), asked, {"spec": {"nodeName": copied("n1"), "volumes": [volume]}})
    with pytest.raises(DeniedError, match="no volume of the pod has a token"):
        check_token(node("n1"), asked, {"spec": {"nodeName": copied("n1"), "volumes": []}})
    others: tuple[Mapping[str, Any] | None, ...] = (
        None,
        {},
        {"spec": {}},
        {"spec": {"nodeName": "n2"}},
        {"spec": {"nodeName": "n0"}},
    )
    for pod in others:
        with pytest.raises(DeniedError, match="tokens bound to its own pods"):
            check_token(node("n1"), asked, pod)


def test_a_node_reads_the_secret_of_one_variable() -> None:
    source = {"secretKeyRef": {"name": "one-secret"}}
    pod = {"metadata": {"namespace": "ns"}, "spec": {"containers": [{"env": [{"valueFrom": source}]}]}}

    class WithVariable(Cluster):
        def pods_of(self, name: str) -> Iterable[Mapping[str, Any]]:
            return [pod] if name == "n1" else []

    check_request(node("n1"), Asked("get", "secrets", "ns", "one-secret"), WithVariable())
    with pytest.raises(DeniedError):
        check_request(node("n2"), Asked("get", "secrets", "ns", "one-secret"), WithVariable())


@pytest.mark.parametrize("resource", ["apps", "events", "zebras.example.com"])
def test_objects_of_other_kinds_are_not_judged(resource: str) -> None:
    old, new = ({"status": {"allocation": one}} for one in ("a", "b"))
    check_change(node("n1"), Asked("update", resource, "ns", "x"), old, new, Cluster())
