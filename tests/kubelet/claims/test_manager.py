"""What containers and pod resources are told, and the manager's own loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.core.container import Container, ResourceRequirements
from dray.api.core.pod import (
    ContainerExtendedResourceRequest,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
)
from dray.api.quantity import Quantity
from dray.errors import Error, InvalidError, InvariantError, NotFoundError, UnavailableError
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.kubelet.claims.manager import ClaimConfig, ClaimManager
from dray.kubelet.claims.state_file import FILE_NAME, encode
from dray.kubelet.plugins.handler import PluginHandler
from dray.runtime.clock import FakeClock, settle
from dray.runtime.metrics import Metrics
from tests.kubelet.claims.world import Driver, World, claim_of, direct, pod_of
from tests.waiting import wait_until

DEVICES = (
    ClaimDevice("p", "1", None, ("one",), ("v/c=1",)),
    ClaimDevice("p", "2", None, ("two",), ("v/c=2a", "v/c=2b")),
)
CLAIM = ClaimInfo("ns", "C", "u", frozenset({"pod-uid"}), {"a.io": DEVICES})
SPECIAL = ClaimInfo("ns", "special", "s", frozenset({"pod-uid"}), {"b.io": DEVICES[:1]})


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state", active={"pod-uid"})
    world.directory.mkdir()
    (world.directory / FILE_NAME).write_bytes(encode([CLAIM, SPECIAL]))
    return world


@pytest.mark.parametrize(
    ("uses", "ids"),
    [
        ((("c", ""),), ("v/c=1", "v/c=2a", "v/c=2b")),
        ((("c", "one"),), ("v/c=1",)),
        ((("c", "two"), ("c", "one")), ("v/c=2a", "v/c=2b", "v/c=1")),
        ((("c", "one"), ("c", "one")), ("v/c=1", "v/c=1")),
        ((("c", "one/sub"),), ()),
        ((), ()),
    ],
)
def test_cdi_devices(world: World, uses: tuple[tuple[str, str], ...], ids: tuple[str, ...]) -> None:
    pod = pod_of("pod", direct("c", "C"), uses=uses)
    with world.manager() as manager:
        assert manager.cdi_devices(pod, pod.spec.containers[0]) == ids


def test_cdi_devices_of_a_claim_that_is_not_known(world: World) -> None:
    pod = pod_of("pod", direct("c", "gone"), uses=[("c", "")])
    with world.manager() as manager, pytest.raises(NotFoundError) as caught:
        manager.cdi_devices(pod, pod.spec.containers[0])
    assert (
        str(caught.value) == "internal error: unable to get claim info for ResourceClaim gone in namespace ns"
    )


EXTENDED = PodExtendedResourceClaimStatus(
    resource_claim_name="special",
    request_mappings=(
        ContainerExtendedResourceRequest(container_name="main", resource_name="x.io/gpu", request_name="one"),
    ),
)
ASKS = ResourceRequirements(requests={"x.io/gpu": Quantity.from_int(1)})


def test_an_extended_resource(world: World) -> None:
    pod = pod_of(extended=EXTENDED)
    with world.manager() as manager:
        assert manager.cdi_devices(pod, Container(name="main", resources=ASKS)) == ("v/c=1",)
        assert manager.cdi_devices(pod, Container(name="other", resources=ASKS)) == ()
        assert manager.cdi_devices(pod, Container(name="main")) == ()
        assert manager.container_claims(pod, Container(name="main")) == (SPECIAL,)
        assert manager.container_claims(pod, Container(name="other")) == ()


def test_claims_of_a_container_are_whole(world: World) -> None:
    pod = pod_of("pod", direct("c", "C"), direct("unused", "gone"), uses=[("c", "one")])
    with world.manager() as manager:
        assert manager.container_claims(pod, pod.spec.containers[0]) == (CLAIM,)


@pytest.mark.parametrize(
    ("claim", "kind", "text"),
    [
        (direct("c", "gone"), NotFoundError, "unable to get information for ResourceClaim gone"),
        (
            PodResourceClaim(name="c"),
            InvalidError,
            'pod "ns/pod", spec.resourceClaim "c": none of the supported fields are set',
        ),
        (
            PodResourceClaim(name="c", resource_claim_template_name="t"),
            UnavailableError,
            'pod "ns/pod": ResourceClaim not created yet',
        ),
    ],
)
def test_claims_of_a_container_that_cannot_be_told(
    world: World, claim: PodResourceClaim, kind: type[Error], text: str
) -> None:
    pod = pod_of("pod", claim, uses=[("c", "")])
    with world.manager() as manager, pytest.raises(kind) as caught:
        manager.container_claims(pod, pod.spec.containers[0])
    assert str(caught.value) == text


def test_an_extended_claim_that_is_not_known(world: World) -> None:
    (world.directory / FILE_NAME).write_bytes(encode([]))
    with world.manager() as manager, pytest.raises(NotFoundError) as caught:
        manager.container_claims(pod_of(extended=EXTENDED), Container(name="main"))
    assert str(caught.value) == "unable to get claim info for claim special in namespace ns"


def test_a_claim_that_was_not_needed(world: World) -> None:
    template = PodResourceClaim(name="c", resource_claim_template_name="t")
    pod = pod_of("pod", template, uses=[("c", "")], statuses=[PodResourceClaimStatus(name="c")])
    with world.manager() as manager:
        assert manager.container_claims(pod, pod.spec.containers[0]) == ()
        assert manager.cdi_devices(pod, pod.spec.containers[0]) == ()


def test_who_must_be_kept(world: World) -> None:
    with world.manager() as manager:
        assert manager.may_need_unprepare("pod-uid")
        assert not manager.may_need_unprepare("other-uid")


def test_the_drivers_are_a_plugin_handler(world: World) -> None:
    with world.manager() as manager:
        handler: PluginHandler = manager.drivers
        assert handler is manager.drivers


async def test_a_look_every_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    world = World(tmp_path / "state", clock=clock, active={"pod-uid"})
    world.api.add(claim_of("c"))
    driver = Driver("a.io", tmp_path / "a.sock")
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(pod_of("pod", direct("c")))
        world.active = set()
        await clock.advance(59.9)
        await settle()
        assert driver.prepared
        await clock.advance(0.2)
        await wait_until(lambda: not manager.may_need_unprepare("pod-uid"))
    assert driver.prepared == set()


async def test_a_bug_while_claims_are_given_back_ends_the_loop_as_what_it_is(world: World) -> None:
    def reached(step: str) -> None:
        raise InvariantError("a bug")

    with (
        ClaimManager(
            ClaimConfig(world.directory, "node-1"),
            world.api,
            world.clock,
            active_pods=lambda: ["another"],
            sources_ready=lambda: True,
            metrics=Metrics(),
            reached=reached,
        ) as manager,
        pytest.raises(InvariantError, match="a bug"),
    ):
        await manager.reconcile()


def test_claims_of_pod_groups_are_taken_only_where_it_is_asked_for(tmp_path: Path) -> None:
    assert not ClaimConfig(tmp_path, "node-1").pod_groups


async def test_a_corrupt_record_does_not_stop_the_node(world: World, tmp_path: Path) -> None:
    (world.directory / FILE_NAME).write_bytes(b"\0" * 100)
    world.api.add(claim_of("C"))
    driver = Driver("a.io", tmp_path / "a.sock")
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "")])
    async with driver.serving(), world.running(driver) as manager:
        # A pod that runs is prepared once more, and all is known again.
        await manager.prepare(pod)
        assert manager.cdi_devices(pod, pod.spec.containers[0]) == ("a.io/dev=C",)
