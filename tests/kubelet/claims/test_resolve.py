from __future__ import annotations

import msgspec
import pytest

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
from dray.errors import DeniedError, InvalidError, UnavailableError
from dray.kubelet.claims.resolve import (
    base_request,
    check_may_use,
    claims_of,
    is_claim_backed,
    requests_of,
    resolve,
)
from dray.semantics.claims import ClaimName
from tests.kubelet.claims.world import claim_of, direct, pod_of

TEMPLATE = PodResourceClaim(name="gpu", resource_claim_template_name="t")


def test_a_claim_that_is_not_made_yet() -> None:
    assert resolve(pod_of(statuses=[PodResourceClaimStatus(name="gpu")]), TEMPLATE) is None, "not needed"
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
        ClaimName("a"),
        ClaimName("special"),
    ]


OWN = OwnerReference(kind="Pod", name="pod", uid="pod-uid", controller=True)
GROUP = OwnerReference(
    api_version="scheduling.k8s.io/v1alpha2", kind="PodGroup", name="grp", uid="g", controller=True
)


ALONE = pod_of()


NOT_OWNER = "ResourceClaim ns/c was not created for Pod ns/pod (Pod is not owner)"
NOT_ALLOWED = "pod pod (pod-uid) is not allowed to use ResourceClaim c (c-uid)"
NOT_GROUPS = "ResourceClaim ns/c was not created for Pod ns/pod (neither Pod nor PodGroup grp is the owner)"
IN_GROUP = pod_of(group="grp")


def in_namespace(claim: ResourceClaim, namespace: str) -> ResourceClaim:
    meta = msgspec.structs.replace(claim.metadata, namespace=namespace)
    return msgspec.structs.replace(claim, metadata=meta)


def test_who_may_use_a_claim() -> None:
    made, direct_one = ClaimName("c", from_template=True), ClaimName("c")
    check_may_use(ALONE, claim_of("c", owner=OWN), made)
    check_may_use(ALONE, claim_of("c"), direct_one)
    check_may_use(IN_GROUP, claim_of("c", pods=(), owner=GROUP, groups=["grp"]), made, pod_groups=True)


@pytest.mark.parametrize(
    ("claim", "from_template", "pod_groups", "error"),
    [
        (claim_of("c"), True, False, NOT_OWNER),
        (claim_of("c", pods=["other"], owner=OWN), True, False, NOT_ALLOWED),
        (claim_of("c", pods=()), False, False, NOT_ALLOWED),
        (claim_of("c", owner=GROUP), True, False, NOT_OWNER),
        (claim_of("c", pods=(), owner=OWN, groups=["grp"]), True, False, NOT_ALLOWED),
        (claim_of("c"), True, True, NOT_GROUPS),
        *(
            (
                in_namespace(claim_of("c", owner=OWN), other),
                True,
                False,
                f"ResourceClaim {other}/c is not in the same namespace as Pod ns/pod",
            )
            for other in ("a", "z")
        ),
    ],
)
def test_why_a_claim_is_refused(
    claim: ResourceClaim, from_template: bool, pod_groups: bool, error: str
) -> None:
    with pytest.raises(DeniedError) as refused:
        check_may_use(IN_GROUP, claim, ClaimName("c", from_template), pod_groups=pod_groups)
    assert str(refused.value) == error


def test_a_pod_without_a_group_is_refused_as_if_there_were_none() -> None:
    with pytest.raises(DeniedError) as refused:
        check_may_use(ALONE, claim_of("c", owner=GROUP), ClaimName("c", from_template=True), pod_groups=True)
    assert str(refused.value) == NOT_OWNER


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
