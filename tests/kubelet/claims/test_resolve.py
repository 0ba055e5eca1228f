from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from dray.api.core import Pod
from dray.api.core.container import Container, ContainerClaim, ResourceRequirements
from dray.api.core.pod import (
    ContainerExtendedResourceRequest,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
)
from dray.api.meta import OwnerReference
from dray.api.quantity import Quantity
from dray.api.resource import ResourceClaim
from dray.errors import DeniedError, Error, InvalidError, UnavailableError
from dray.kubelet.claims.resolve import (
    ClaimName,
    base_request,
    check_may_use,
    claims_of,
    is_claim_backed,
    requests_of,
    resolve,
)
from tests.kubelet.claims.world import claim_of, direct, pod_of

TEMPLATE = PodResourceClaim(name="gpu", resource_claim_template_name="t")


def test_a_direct_claim() -> None:
    assert resolve(pod_of(), direct("gpu", "object")) == ClaimName("object", from_template=False)


def test_a_claim_from_a_template() -> None:
    status = PodResourceClaimStatus(name="gpu", resource_claim_name="pod-gpu-x")
    assert resolve(pod_of(statuses=[status]), TEMPLATE) == ClaimName("pod-gpu-x", from_template=True)
    assert resolve(pod_of(statuses=[PodResourceClaimStatus(name="gpu")]), TEMPLATE) is None


def test_the_status_of_another_claim_says_nothing_of_this_one() -> None:
    others = [
        PodResourceClaimStatus(name="nic", resource_claim_name="pod-nic-x"),
        PodResourceClaimStatus(name="gpu2"),
    ]
    with pytest.raises(UnavailableError, match="not created yet"):
        resolve(pod_of(statuses=others), TEMPLATE)
    made = PodResourceClaimStatus(name="gpu", resource_claim_name="pod-gpu-x")
    assert resolve(pod_of(statuses=[*others, made]), TEMPLATE) == ClaimName("pod-gpu-x", from_template=True)


def test_a_claim_that_is_not_made_yet() -> None:
    with pytest.raises(UnavailableError) as caught:
        resolve(pod_of(), TEMPLATE)
    assert str(caught.value) == 'pod "ns/pod": ResourceClaim not created yet'


def test_a_claim_without_a_source() -> None:
    with pytest.raises(InvalidError) as caught:
        resolve(pod_of(), PodResourceClaim(name="gpu"))
    assert str(caught.value) == 'pod "ns/pod", spec.resourceClaim "gpu": none of the supported fields are set'


def test_the_claim_of_extended_resources_comes_last() -> None:
    extended = PodExtendedResourceClaimStatus(resource_claim_name="special")
    pod = pod_of("pod", direct("a"), extended=extended)
    assert [resolve(pod, claim) for claim in claims_of(pod)] == [
        ClaimName("a", from_template=False),
        ClaimName("special", from_template=False),
    ]


OWN = OwnerReference(kind="Pod", name="pod", uid="pod-uid", controller=True)
GROUP = OwnerReference(
    api_version="scheduling.k8s.io/v1alpha2", kind="PodGroup", name="grp", uid="g", controller=True
)


ALONE = pod_of()


@dataclass
class Use:
    claim: ResourceClaim
    error: str = ""
    from_template: bool = True
    pod: Pod = ALONE
    pod_groups: bool = False


NOT_OWNER = "ResourceClaim ns/c was not created for Pod ns/pod (Pod is not owner)"
NOT_ALLOWED = "pod pod (pod-uid) is not allowed to use ResourceClaim c (c-uid)"
NOT_GROUPS = "ResourceClaim ns/c was not created for Pod ns/pod (neither Pod nor PodGroup grp is the owner)"
IN_GROUP = pod_of(group="grp")
USES = {
    "own": Use(claim_of("c", owner=OWN)),
    "no owner": Use(claim_of("c"), NOT_OWNER),
    "no owner, direct": Use(claim_of("c"), from_template=False),
    "owner is not the controller": Use(claim_of("c", owner=OwnerReference(uid="pod-uid")), NOT_OWNER),
    "not reserved": Use(claim_of("c", pods=["other"], owner=OWN), NOT_ALLOWED),
    "not reserved, direct": Use(claim_of("c", pods=()), NOT_ALLOWED, from_template=False),
    "group, gate off": Use(claim_of("c", owner=GROUP), NOT_OWNER, pod=IN_GROUP),
    "group, gate on": Use(claim_of("c", pods=(), owner=GROUP, groups=["grp"]), pod=IN_GROUP, pod_groups=True),
    "group reserved, gate off": Use(
        claim_of("c", pods=(), owner=OWN, groups=["grp"]), NOT_ALLOWED, pod=IN_GROUP
    ),
    "another group": Use(
        claim_of("c", owner=GROUP),
        "ResourceClaim ns/c was not created for Pod ns/pod (neither Pod nor PodGroup other is the owner)",
        pod=pod_of(group="other"),
        pod_groups=True,
    ),
    "another group reserved": Use(
        claim_of("c", pods=(), owner=OWN, groups=["grp"]), NOT_ALLOWED, pod=pod_of(group="x"), pod_groups=True
    ),
    "a Job of the group's name": Use(
        claim_of("c", owner=OwnerReference(kind="Job", name="grp", uid="g", controller=True)),
        NOT_GROUPS,
        pod=IN_GROUP,
        pod_groups=True,
    ),
    "group, no owner": Use(claim_of("c"), NOT_GROUPS, pod=IN_GROUP, pod_groups=True),
    "no group, gate on": Use(claim_of("c", owner=GROUP), NOT_OWNER, pod_groups=True),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_who_may_use_a_claim(use: Use) -> None:
    name = ClaimName("c", use.from_template)
    try:
        check_may_use(use.pod, use.claim, name, pod_groups=use.pod_groups)
        error = ""
    except Error as refused:
        assert isinstance(refused, DeniedError)
        error = str(refused)
    assert error == use.error


@pytest.mark.parametrize("namespace", ["a", "z"])
def test_a_claim_of_another_namespace_is_refused(namespace: str) -> None:
    claim = claim_of("c", owner=OWN)
    meta = msgspec.structs.replace(claim.metadata, namespace=namespace)
    with pytest.raises(DeniedError, match="is not in the same namespace as Pod ns/pod"):
        check_may_use(
            ALONE, msgspec.structs.replace(claim, metadata=meta), ClaimName("c", from_template=True)
        )


def test_groups_do_not_count_unless_it_is_asked_for() -> None:
    with pytest.raises(DeniedError, match="Pod is not owner"):
        check_may_use(IN_GROUP, claim_of("c", owner=GROUP), ClaimName("c", from_template=True))


def container(**resources: int) -> Container:
    return Container(
        name="main",
        resources=ResourceRequirements(
            requests={
                name.replace("__", "/").replace("_", "."): Quantity.from_int(n)
                for name, n in resources.items()
            }
        ),
    )


def test_requests_of_a_container() -> None:
    used = ResourceRequirements(
        claims=(
            ContainerClaim(name="b", request="two"),
            ContainerClaim(name="a"),
            ContainerClaim(name="b", request="one"),
        )
    )
    pod = pod_of("pod", direct("a", "A"), direct("b", "B"), direct("unused"))
    assert requests_of(pod, Container(name="main", resources=used)) == {"A": [""], "B": ["two", "one"]}


def test_a_claim_that_was_not_needed_is_skipped() -> None:
    pod = pod_of("pod", TEMPLATE, uses=[("gpu", "")], statuses=[PodResourceClaimStatus(name="gpu")])
    assert requests_of(pod, pod.spec.containers[0]) == {}


def test_extended_resources_of_a_container() -> None:
    mappings = [
        ("main", "a.io/gpu", "r0"),
        ("main", "a.io/gpu", "r1"),
        ("main", "a.io/zero", "r2"),
        ("other", "a.io/gpu", "r3"),
        ("main", "deviceclass.resource.kubernetes.io/x", "r4"),
        ("main", "cpu", "r5"),
    ]
    extended = PodExtendedResourceClaimStatus(
        resource_claim_name="special",
        request_mappings=tuple(
            ContainerExtendedResourceRequest(container_name=a, resource_name=b, request_name=c)
            for a, b, c in mappings
        ),
    )
    asks = container(a_io__gpu=2, a_io__zero=0, deviceclass_resource_kubernetes_io__x=1, cpu=1)
    assert requests_of(pod_of(extended=extended), asks) == {"special": ["r0", "r1", "r4"]}


def test_names_that_a_claim_can_serve() -> None:
    assert is_claim_backed("a.io/gpu")
    assert is_claim_backed("deviceclass.resource.kubernetes.io/x")
    assert not is_claim_backed("cpu")
    assert not is_claim_backed("kubernetes.io/x")


def test_base_request() -> None:
    assert [base_request(text) for text in ("r", "r/sub", "")] == ["r", "r", ""]
