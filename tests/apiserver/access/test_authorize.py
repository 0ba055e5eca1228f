from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest

from dray.apiserver.access.authorize import check_change, check_request
from dray.apiserver.access.identity import ANONYMOUS, Identity, admin, node, reader
from dray.apiserver.access.roles import Asked, check_path
from dray.errors import DeniedError

CLAIMS = "resourceclaims.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
LEASES = "leases.coordination.k8s.io"
OWN = {"spec.nodeName": "n1"}
OTHER = {"spec.nodeName": "n2"}
N1 = node("n1")


def pod(name: str, where: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": where, **spec}}


MINE = pod(
    "mine",
    "n1",
    resourceClaims=[
        {"name": "a", "resourceClaimName": "used"},
        {"name": "b", "resourceClaimTemplateName": "t"},
    ],
    volumes=[
        {"configMap": {"name": "volume-map"}},
        {"secret": {"secretName": "volume-secret"}},
        {
            "projected": {
                "sources": [{"configMap": {"name": "part-map"}}, {"secret": {"name": "part-secret"}}]
            }
        },
        {"persistentVolumeClaim": {"claimName": "disk"}},
    ],
    serviceAccountName="account",
    imagePullSecrets=[{"name": "pull"}],
    initContainers=[{"env": [{"valueFrom": {"configMapKeyRef": {"name": "env-map"}}}]}],
    containers=[{"envFrom": [{"secretRef": {"name": "env-secret"}}, {"configMapRef": {"name": "all-map"}}]}],
) | {
    "status": {
        "resourceClaimStatuses": [
            {"name": "a", "resourceClaimName": "instead"},
            {"name": "b", "resourceClaimName": "made"},
            {"name": "c", "resourceClaimName": "of-no-entry"},
        ],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    }
}
THEIRS = pod("theirs", "n2", volumes=[{"secret": {"secretName": "other-secret"}}])


class Cluster:
    """One pod on each of two nodes."""

    def pods_of(self, name: str) -> Iterable[Mapping[str, Any]]:
        return [one for one in (MINE, THEIRS) if one["spec"]["nodeName"] == name]

    def publishers_of(self, driver: str, pool: str) -> Collection[str]:
        if (driver, pool) == ("gpu.example.com", "spread"):
            return ("",)
        of_nodes = {
            "n1": ("n1",),
            "n1-more": ("n1",),
            "n1/gpus": ("n1",),
            "n2-more": ("n2",),
            "n2/gpus": ("n2",),
            "both": ("n1", "n2"),
        }
        return of_nodes.get(pool, ()) if driver == "gpu.example.com" else ()

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        pods = {("pods", "ns", "mine"): MINE, ("pods", "ns", "theirs"): THEIRS}
        slices: dict[tuple[str, str, str], dict[str, Any]] = {
            (SLICES, "", f"s-{one}"): {"spec": {"nodeName": one}} for one in ("n1", "n2")
        }
        slices[SLICES, "", "s-everywhere"] = {"spec": {"allNodes": True}}
        nodes = {("nodes", "", one): {"metadata": {"name": one}} for one in ("n1", "n2")}
        return {**pods, **slices, **nodes}.get((resource, namespace, name))


def may(identity: Identity, asked: Asked) -> bool:
    try:
        check_request(identity, asked, Cluster())
    except DeniedError as error:
        assert error.authenticated and error.who == identity.name
        return False
    return True


def may_change(asked: Asked, old: Any, new: Any, who: Identity = N1) -> bool:
    try:
        check_change(who, asked, old, new, Cluster())
    except DeniedError:
        return False
    return True


def test_admins_and_readers() -> None:
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"):
        assert may(admin(), Asked(verb, "secrets", "ns", "x"))
        assert may(reader(), Asked(verb, "secrets", "ns", "x")) == (verb in ("get", "list", "watch"))
        assert not may(ANONYMOUS, Asked(verb, "pods", "ns", "x"))
        assert not may(Identity("somebody"), Asked(verb, "pods", "ns", "x"))
    assert may_change(Asked("update", "nodes", name="n2"), {}, {}, admin())


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (CLAIMS, "used"),
        (CLAIMS, "made"),
        (CLAIMS, "extended"),
        ("configmaps", "volume-map"),
        ("configmaps", "part-map"),
        ("configmaps", "env-map"),
        ("configmaps", "all-map"),
        ("secrets", "volume-secret"),
        ("secrets", "part-secret"),
        ("secrets", "env-secret"),
        ("secrets", "pull"),
        ("persistentvolumeclaims", "disk"),
        ("serviceaccounts", "account"),
    ],
)
def test_a_node_reads_what_its_pods_use(resource: str, name: str) -> None:
    assert may(node("n1"), Asked("get", resource, "ns", name))
    assert may(node("n1"), Asked("watch", resource, "ns", fields={"metadata.name": name}))
    assert not may(node("n2"), Asked("get", resource, "ns", name))
    assert not may(node("n1"), Asked("get", resource, "other", name))
    assert not may(node("n1"), Asked("list", resource, "ns"))
    assert not may(node("n1"), Asked("update", resource, "ns", name))


@pytest.mark.parametrize("name", ["instead", "of-no-entry", ""])
def test_what_the_status_says_of_other_entries_gives_no_right(name: str) -> None:
    assert not may(node("n1"), Asked("get", CLAIMS, "ns", name))


@pytest.mark.parametrize(
    "asked",
    [
        Asked("list", "pods", fields=OWN),
        Asked("watch", "pods", fields=OWN),
        Asked("get", "pods", "ns", "mine"),
        Asked("get", "nodes", name="n1"),
        Asked("watch", "nodes", fields={"metadata.name": "n1"}),
        Asked("create", "nodes"),
        Asked("patch", "nodes", name="n1", subresource="status"),
        Asked("get", LEASES, "kube-node-lease", "n1"),
        Asked("create", LEASES, "kube-node-lease"),
        Asked("update", LEASES, "kube-node-lease", "n1"),
        Asked("create", "events", "ns"),
        Asked("patch", "events", "ns", "e"),
        Asked("list", SLICES, fields=OWN),
        Asked("get", SLICES, name="s-n1"),
        Asked("create", SLICES),
        Asked("delete", SLICES, name="s-n1"),
        Asked("deletecollection", SLICES, fields=OWN),
        Asked("patch", "pods", "ns", "mine", "status"),
        Asked("delete", "pods", "ns", "mine"),
        Asked("create", "pods", "ns", "mine", "eviction"),
        Asked("patch", CLAIMS, "ns", "used", "status"),
        Asked("list", "services"),
    ],
    ids=lambda asked: f"{asked.verb} {asked.door} {asked.name}",
)
def test_a_node_may(asked: Asked) -> None:
    assert may(node("n1"), asked)


@pytest.mark.parametrize(
    "asked",
    [
        Asked("list", "pods"),
        Asked("list", "pods", fields={"spec.nodeName": "n2"}),
        Asked("get", "pods", "ns", "theirs"),
        Asked("get", "pods", "ns", "none"),
        Asked("get", "pods", "ns", "mine", "log"),
        Asked("create", "pods", "ns"),
        Asked("update", "pods", "ns", "mine"),
        Asked("create", "pods", "ns", "mine", "binding"),
        Asked("patch", "pods", "ns", "theirs", "status"),
        Asked("delete", "pods", "ns", "theirs"),
        Asked("get", "nodes", name="n2"),
        Asked("list", "nodes"),
        Asked("update", "nodes", name="n2"),
        Asked("delete", "nodes", name="n1"),
        Asked("update", LEASES, "kube-node-lease", "n2"),
        Asked("update", LEASES, "ns", "n1"),
        Asked("delete", "events", "ns", "e"),
        Asked("list", SLICES),
        Asked("get", SLICES, name="s-n2"),
        Asked("deletecollection", SLICES),
        Asked("update", CLAIMS, "ns", "used"),
        Asked("patch", CLAIMS, "ns", "other", "status"),
        Asked("create", "namespaces"),
        Asked("update", "deviceclasses.resource.k8s.io", name="c"),
    ],
    ids=lambda asked: f"{asked.verb} {asked.door} {asked.name}",
)
def test_a_node_may_not(asked: Asked) -> None:
    assert not may(node("n1"), asked)


@pytest.mark.parametrize("resource", ["pods", SLICES])
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_node_lists_and_watches_only_what_is_on_itself(verb: str, resource: str) -> None:
    def asks(fields: Mapping[str, str] | None) -> bool:
        return may(N1, Asked(verb, resource, fields=fields))

    assert asks({"spec.nodeName": "n1"})
    for fields in (None, {}, {"spec.nodeName": "n2"}, {"spec.nodeName": ""}, {"spec.driver": "n1"}):
        assert not asks(fields), fields
    for fields in ({"metadata.name": "n1"}, {"metadata.name": "s-n2"}, {"metadata.name": "n1", **OTHER}):
        assert not asks(fields), fields


def test_a_node_reads_only_its_own_slices_by_name() -> None:
    assert may(N1, Asked("get", SLICES, name="s-n1"))
    for name in ("s-n2", "none", ""):
        assert not may(N1, Asked("get", SLICES, name=name)), name
        assert not may(N1, Asked("get", SLICES, name=name, fields=OTHER)), name
    assert not may(N1, Asked("deletecollection", SLICES, fields=OTHER))
    for name in ("s-n1", "s-everywhere", "none"):
        assert not may(node("n2"), Asked("get", SLICES, name=name)), name
    assert may(node("n2"), Asked("get", SLICES, name="s-n2"))


def test_objects_decide_what_names_cannot() -> None:
    own, other = ({"spec": {"nodeName": one, "pool": {"name": one}}} for one in ("n1", "n2"))
    asked = Asked("update", SLICES, name="s")
    assert may_change(asked, None, own) and may_change(asked, own, own) and may_change(asked, own, None)
    for old, new in ((None, other), (own, other), (other, own), (other, None), (None, {"spec": {}})):
        assert not may_change(asked, old, new)
    named = {one: {"metadata": {"name": one}} for one in ("n1", "n2")}
    for resource in ("nodes", LEASES):
        assert may_change(Asked("create", resource), None, named["n1"])
        assert not may_change(Asked("create", resource), None, named["n2"])
    assert may_change(Asked("patch", "pods", "ns", "mine", "status"), MINE, MINE)
    assert not may_change(Asked("patch", "pods", "ns", "mine", "status"), MINE, THEIRS)


@pytest.mark.parametrize(
    ("pool", "may_be_its_own"),
    [
        ("n1", True),
        ("n1-more", True),
        ("n1/gpus", True),
        ("new", True),
        ("n2/new", True),
        ("n2", False),
        ("n2-more", False),
        ("n2/gpus", False),
        ("both", False),
        ("spread", False),
    ],
)
def test_a_node_publishes_in_pools_that_nobody_else_has(pool: str, may_be_its_own: bool) -> None:
    asked = Asked("update", SLICES, name="s")
    spec = {"nodeName": "n1", "driver": "gpu.example.com", "pool": {"name": pool, "generation": 2**40}}
    assert may_change(asked, None, {"spec": spec}) is may_be_its_own
    assert may_change(asked, {"spec": spec}, {"spec": spec}) is may_be_its_own
    assert may_change(asked, {"spec": spec}, None)  # what is there already may go


def test_the_pool_of_another_node_is_another_one_for_another_driver() -> None:
    spec = {"nodeName": "n1", "driver": "nic.example.com"}
    for pool, may_be_its_own in (
        ("n2-more", True),
        ("both", True),
        ("spread", True),
        ("n1", True),
        ("n2", False),
    ):
        found = {"spec": {**spec, "pool": {"name": pool}}}
        assert may_change(Asked("create", SLICES), None, found) is may_be_its_own, pool


@pytest.mark.parametrize("pool", ["n1", "n1-more", "n1/gpus"])
def test_a_node_reports_on_devices_of_all_of_its_pools(pool: str) -> None:
    asked = Asked("patch", CLAIMS, "ns", "used", "status")
    entry = {"driver": "gpu.example.com", "pool": pool, "device": "d"}
    assert may_change(asked, {"status": {"devices": [entry]}}, {"status": {"devices": []}})
    assert may_change(asked, {"status": {"devices": []}}, {"status": {"devices": [entry]}})
    foreign = {**entry, "driver": "nic.example.com"}
    assert not may_change(asked, {"status": {"devices": []}}, {"status": {"devices": [entry, foreign]}})


@pytest.mark.parametrize("pool", ["n2", "n2-more", "n2/gpus", "n1/", "both", "spread", "new", None])
def test_a_node_reports_on_devices_of_its_own_pools_only(pool: str | None) -> None:
    asked = Asked("patch", CLAIMS, "ns", "used", "status")
    entry = {"driver": "gpu.example.com", "pool": pool, "device": "d"}
    assert not may_change(asked, {"status": {"devices": [entry]}}, {"status": {"devices": []}})
    assert not may_change(asked, {"status": {"devices": []}}, {"status": {"devices": [entry]}})


def test_a_node_writes_only_its_drivers_part_of_a_claim() -> None:
    asked = Asked("patch", CLAIMS, "ns", "used", "status")
    mine, foreign = ({"driver": f"{one}.example.com", "pool": "n1", "device": "d"} for one in ("gpu", "nic"))
    allocated = {"allocation": {"devices": {}}, "reservedFor": [{"uid": "u"}]}

    def claim(*devices: Any, **more: Any) -> dict[str, Any]:
        return {"status": {**allocated, "devices": [*devices], **more}}

    assert may_change(asked, {"status": allocated}, claim(mine))
    assert may_change(asked, claim(mine, foreign), claim(foreign, {**mine, "data": {}}))
    assert may_change(asked, claim(mine, foreign), claim(foreign))
    assert not may_change(asked, claim(), claim(foreign))
    assert not may_change(asked, claim(foreign), claim())
    assert not may_change(asked, claim(), claim(allocation=None))
    assert not may_change(asked, claim(), claim(reservedFor=[]))
    assert not may_change(asked, claim(), claim("nonsense"))
    assert not may_change(asked, claim(), claim(mine), node("n2"))


def test_paths() -> None:
    for path in ("/healthz", "/readyz/store", "/version"):
        check_path(ANONYMOUS, path)
    for path in ("/api", "/apis/resource.k8s.io/v1", "/openapi/v3"):
        check_path(node("n1"), path)
        with pytest.raises(DeniedError, match="cannot get path"):
            check_path(ANONYMOUS, path)
    check_path(reader(), "/metrics")
    for path in ("/metrics", "/healthzz", "/apix"):
        with pytest.raises(DeniedError):
            check_path(node("n1"), path)


def test_a_refusal_reads_as_an_api_servers() -> None:
    with pytest.raises(DeniedError) as caught:
        check_request(Identity("eve"), Asked("update", CLAIMS, "ns", "c", "status"), Cluster())
    assert str(caught.value) == (
        'resourceclaims.resource.k8s.io "c" is forbidden: User "eve" cannot update resource '
        '"resourceclaims/status" in API group "resource.k8s.io" in the namespace "ns"'
    )


def test_a_node_asks_about_its_callers_and_for_the_tokens_of_its_pods() -> None:
    reviews = ("tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io")
    assert all(may(N1, Asked("create", one)) for one in reviews)
    assert not may(N1, Asked("list", reviews[0]))
    assert may(N1, Asked("create", "serviceaccounts", "ns", "account", "token"))
    assert not may(node("n2"), Asked("create", "serviceaccounts", "ns", "account", "token"))
    assert not may(N1, Asked("create", "serviceaccounts", "ns", "another", "token"))
    assert not may(N1, Asked("create", "serviceaccounts", "ns", "account"))
