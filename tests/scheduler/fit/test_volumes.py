"""Volumes that some nodes reach, and claims that cannot be used."""

from __future__ import annotations

import pytest

from dray.api.core import Pod
from dray.scheduler.fit.filters import Fit
from dray.scheduler.nodes import NodeInfo, Nodes
from tests.scheduler.fit.storage_objects import barred, fit_with, make_claim, make_volume, with_claims
from tests.scheduler.objects import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def _word(fit: Fit, **labels: str) -> str:
    """Of a node with these labels; "" where it does."""
    assert fit.barred() is None
    named = {key.replace("ZONE", ZONE): value for key, value in labels.items()}
    found = fit.refused(NodeInfo.of(make_node(labels=named)))
    return f"{found.check}: {found}" if found else ""


def _own(name: str = "scratch") -> Pod:
    return make_pod(volumes=[{"name": name, "ephemeral": {}}])


def test_a_node_must_reach_every_bound_volume() -> None:
    objects = (make_claim(), make_volume(disk="ssd"), make_claim("logs", "pv-2"), make_volume("pv-2"))
    fit = fit_with(with_claims("data", "logs"), *objects)
    assert _word(fit, disk="ssd") == ""
    expected = "VolumeBinding: node(s) didn't match PersistentVolume's node affinity"
    assert _word(fit, disk="hdd") == _word(fit) == expected


@pytest.mark.parametrize(
    ("label", "value", "does"), [("a", "a", True), ("a", "b", False), ("a__b", "b", True), ("a__", "b", True)]
)
def test_zones_of_a_volume(label: str, value: str, does: bool) -> None:
    """Also under the old name; a label that cannot be read is passed over, and so are nodes without zones."""
    for key in (ZONE, OLD_ZONE):
        fit = fit_with(with_claims("data"), make_claim(), make_volume(labels={key: label}))
        expected = "" if does else "VolumeZone: node(s) had no available volume zone"
        assert _word(fit, ZONE=value) == expected
        assert _word(fit) == ""


def test_a_claim_for_one_pod_is_taken_by_a_pod_on_any_node() -> None:
    claim, nodes = make_claim(modes=["ReadWriteOncePod"]), Nodes()
    nodes.put_node(make_node("far"))
    nodes.put_pod(with_claims("data", pod="stranger", node="far", namespace="other"))
    assert _word(fit_with(with_claims("data"), claim, make_volume(), nodes=nodes)) == ""
    nodes.put_pod(with_claims("data", pod="user", node="far"))
    fit = fit_with(with_claims("data"), claim, make_volume(), nodes=nodes)
    assert "ReadWriteOncePod access mode already in-use" in _word(fit)
    found = fit.refused(NodeInfo.of(make_node()))
    assert found is not None and found.can_resolve


def test_claims_that_cannot_be_used() -> None:
    pod, volume = with_claims("data"), make_volume()
    assert barred(pod) == ("VolumeRestrictions", 'persistentvolumeclaim "data" not found')
    assert barred(pod, make_claim()) == ("VolumeZone", 'persistentvolume "pv" not found')
    lost = 'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"'
    assert barred(pod, make_claim(status="Lost"), volume) == ("VolumeBinding", lost)
    deleted = make_claim(deletionTimestamp="2026-01-01T00:00:00Z")
    assert barred(pod, deleted, volume) == ("VolumeBinding", 'persistentvolumeclaim "data" is being deleted')


def test_claims_that_are_not_bound() -> None:
    pod, unbound = with_claims("data"), ("VolumeBinding", "pod has unbound immediate PersistentVolumeClaims")
    assert barred(pod, make_claim(is_bound=False), make_volume()) == unbound
    assert barred(pod, make_claim(volume="", storage_class="at-once")) == unbound
    assert barred(pod, make_claim(volume="", storage_class="unknown")) == unbound
    assert barred(pod, make_claim(volume="")) == unbound
    later = barred(pod, make_claim(volume="", storage_class="later"))
    assert later == (
        "VolumeBinding",
        'this scheduler does not choose volumes for persistentvolumeclaim "data", which waits for its first consumer',
    )


def test_volumes_of_the_pod_itself() -> None:
    """Their claims are made by a controller, for this pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod", "controller": True}
    own = make_claim("pod-scratch", ownerReferences=[owner])
    assert _word(fit_with(_own(), own, make_volume(disk="ssd")), disk="ssd") == ""
    wait = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-scratch"'
    assert barred(_own()) == ("VolumeBinding", wait)
    foreign = "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)"
    assert barred(_own(), make_claim("pod-scratch"), make_volume()) == ("VolumeBinding", foreign)
    gone = "VolumeBinding: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert _word(fit_with(_own(), own)) == gone


def test_other_volumes_ask_nothing() -> None:
    fit = fit_with(make_pod(volumes=[{"name": "v", "emptyDir": {}}]))
    assert fit.mounts.has_nothing_to_say
    assert _word(fit) == ""
