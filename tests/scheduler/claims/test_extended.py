from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dray.api.core import Pod
from dray.api.limits import EXTENDED_RESOURCE_CLAIM_ANNOTATION, IMPLICIT_EXTENDED_RESOURCE_PREFIX
from dray.api.resource import ResourceClaim
from dray.errors import Error, UnavailableError
from dray.scheduler.claims.extended import IN_MEMORY, is_extended, requests_and_mappings, wanted_by
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.outcome import SKIP, SUCCESS, failure, unresolvable, unschedulable
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.writes import Verb, Write
from tests.scheduler.claims.driving import DEFAULT, Cycle, World, settings_with
from tests.scheduler.claims.objects import (
    CLASS,
    GPU,
    NOW,
    allocated,
    claim,
    container,
    device_class,
    node,
    owned_by,
    pod,
    slice_of,
)

Json = dict[str, Any]
IMPLICIT = f"{IMPLICIT_EXTENDED_RESOURCE_PREFIX}classInit"
CLASSES = {GPU: "class", f"{GPU}1": "class1", f"{GPU}init": "classInit", IMPLICIT: "classInit"}


def asking(*lasting: Json, init: Sequence[Json] = ()) -> Pod:
    return pod(containers=list(lasting), initContainers=list(init))


def implicit(one: Json, amount: int) -> Json:
    """The container asks for the implicit name too."""
    one["resources"]["requests"][IMPLICIT] = str(amount)
    return one


ONE = asking(container("con0", gpu=1, gpu1=2))
TWO = asking(container("con0", gpu=1), container("con1", gpu1=2))
INIT = asking(container("con0", gpu=1), init=[container("init-con0", gpuinit=2)])
INIT_2 = asking(
    container("con0", gpu=1), init=[container("init-con0", gpuinit=1), container("init-con1", gpuinit=2)]
)
INIT_3 = asking(
    container("con0", gpu=1),
    init=[
        container("init-con0", gpuinit=1),
        container("sidecar-con1", always=True, gpuinit=1),
        container("init-con2", gpuinit=2),
    ],
)
ONE_IMPLICIT = asking(init=[implicit(container("init-con0", gpuinit=1), 2)])
INIT_IMPLICIT = asking(
    container("con0", gpu=1), init=[container("init-con0", gpuinit=1), implicit(container("init-con1"), 2)]
)


@pytest.mark.parametrize(
    ("user", "resources", "classes", "wanted"),
    [
        pytest.param(ONE, [], [GPU], [], id="nil"),
        pytest.param(ONE, ["gpu"], [GPU], ["0-request-0 class 1"], id="one resource match"),
        pytest.param(
            ONE,
            ["gpu", "gpu1"],
            [GPU],
            ["0-request-0 class 1"],
            id="one resource match, one resource not match",
        ),
        pytest.param(
            ONE,
            ["gpu", "gpu1"],
            [GPU, f"{GPU}1"],
            ["0-request-0 class 1", "0-request-1 class1 2"],
            id="two resources match",
        ),
        pytest.param(
            TWO,
            ["gpu", "gpu1"],
            [GPU, f"{GPU}1"],
            ["0-request-0 class 1", "1-request-0 class1 2"],
            id="two containers match",
        ),
        pytest.param(
            INIT,
            ["gpu", "gpuinit"],
            [GPU, f"{GPU}init"],
            ["0-request-0 classInit 2", "1-request-0 class 1"],
            id="one init container, one regular container",
        ),
        pytest.param(
            INIT_2,
            ["gpu", "gpuinit"],
            [GPU, f"{GPU}init"],
            ["1-request-0 classInit 2", "2-request-0 class 1"],
            id="two init containers, one regular container",
        ),
        pytest.param(
            INIT_3,
            ["gpu", "gpuinit"],
            [GPU, f"{GPU}init"],
            ["1-request-0 classInit 1", "2-request-0 classInit 2", "3-request-0 class 1"],
            id="three init containers, one sidecar, one regular container",
        ),
    ],
)
def test_requests(user: Pod, resources: list[str], classes: list[str], wanted: list[str]) -> None:
    names = [f"example.com/{one}" for one in resources]
    requests, _ = requests_and_mappings(user, names, {one: CLASSES[one] for one in classes})
    shown = []
    for one in requests:
        assert one.exactly is not None
        assert one.exactly.allocation_mode == "ExactCount"
        name = one.name.removeprefix("container-")
        shown.append(f"{name} {one.exactly.device_class_name} {one.exactly.count}")
    assert shown == wanted


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        pytest.param(
            ONE, ["con0 gpu 0-request-0", "con0 gpu1 0-request-1"], id="one container, two requests"
        ),
        pytest.param(
            ONE_IMPLICIT,
            ["init-con0 implicit 0-request-0", "init-con0 gpuinit 0-request-1"],
            id="one container, one explicit and one implicit request",
        ),
        pytest.param(
            TWO, ["con0 gpu 0-request-0", "con1 gpu1 1-request-0"], id="two containers, two requests"
        ),
        pytest.param(
            INIT,
            ["init-con0 gpuinit 0-request-0", "con0 gpu 1-request-0"],
            id="one init container, one regular container, one request",
        ),
        pytest.param(
            INIT_2,
            ["init-con0 gpuinit 1-request-0", "init-con1 gpuinit 1-request-0", "con0 gpu 2-request-0"],
            id="three containers (two are init container), two requests",
        ),
        pytest.param(
            INIT_IMPLICIT,
            ["init-con0 gpuinit 0-request-0", "init-con1 implicit 1-request-0", "con0 gpu 2-request-0"],
            id="three containers (two are init container), both explicit and implicit resources",
        ),
        pytest.param(
            INIT_3,
            [
                "init-con0 gpuinit 1-request-0",
                "sidecar-con1 gpuinit 1-request-0",
                "init-con2 gpuinit 2-request-0",
                "con0 gpu 3-request-0",
            ],
            id="four containers (two are init container, one sidecar), three requests",
        ),
    ],
)
def test_mappings(user: Pod, wanted: list[str]) -> None:
    _, mappings = requests_and_mappings(user, list(CLASSES), CLASSES)
    ordered = sorted(mappings, key=lambda one: (one.request_name, one.container_name))
    shown = [
        f"{one.container_name} {'implicit' if one.resource_name == IMPLICIT else one.resource_name[12:]} "
        f"{one.request_name.removeprefix('container-')}"
        for one in ordered
    ]
    assert shown == wanted


def test_names_of_extended_resources() -> None:
    assert is_extended(GPU)
    assert is_extended(f"{IMPLICIT_EXTENDED_RESOURCE_PREFIX}any")
    for name in ("cpu", "memory", "kubernetes.io/x", "requests.example.com/gpu", "hugepages-2Mi"):
        assert not is_extended(name)


def test_wanted_counts_all_resources_where_a_class_serves_one() -> None:
    user = asking(container("a", gpu=2, other=1, none=0))
    assert wanted_by(user, {GPU: "class"}) == {GPU: 2, "example.com/other": 1}
    assert wanted_by(user, {"example.com/none": "class"}) == {}


SERVED = (device_class(CLASS, resource=GPU), device_class("second", resource=f"{GPU}2"))
USER = asking(container("con0", gpu=1))
BOTH = asking(container("con0", gpu=1, gpu2=1))
TWO_NAMES = asking(
    {"name": "con0", "resources": {"requests": {f"{IMPLICIT_EXTENDED_RESOURCE_PREFIX}{CLASS}": "1"}}},
    container("con1", gpu=2),
)
FREE = World([], [slice_of("worker", "instance-1", "instance-2", "instance-3")], SERVED)
LEFT_META = {"annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}, **owned_by(USER)}


def stored(cycle: Cycle) -> ResourceClaim:
    """The claim that was made for the pod."""
    (name,) = cycle.server.claims
    return cycle.server.get(name)


def test_extended_resource_name_with_node_resource() -> None:
    """The device plugin has some: nothing is made."""
    cycle = replace(FREE, nodes=[node(gpu="1")]).drive(USER)
    assert cycle.filtered == {"worker": SUCCESS}
    assert (cycle.bound, cycle.writes, cycle.in_flight) == (SUCCESS, [], [])


def test_extended_resource_one_device_plugin_one_dra() -> None:
    cycle = replace(FREE, nodes=[node(gpu="1")]).drive(BOTH)
    assert cycle.devices == ["container-0-request-1=instance-1"]
    assert cycle.bound == SUCCESS


def test_user_claim_beside_a_resource_of_the_device_plugin() -> None:
    """No claim without requests is made for what the plugin serves."""
    user = pod("my-claim", containers=[container("con0", gpu=1)])
    world = replace(FREE, nodes=[node(gpu="1")], claims=[claim()])
    cycle = world.drive(user)
    assert cycle.devices == ["req-1=instance-1"]
    assert list(cycle.server.claims) == ["my-claim"]
    assert cycle.bound == SUCCESS


@pytest.mark.parametrize("allocatable", [{"gpu": "0"}, {}], ids=["with-zero-allocatable", "with-resources"])
def test_extended_resource_name(allocatable: dict[str, str]) -> None:
    cycle = replace(FREE, nodes=[node(**allocatable)]).drive(USER)
    assert cycle.in_flight == [IN_MEMORY]
    assert cycle.devices == ["container-0-request-0=instance-1"]
    assert [write.verb for write in cycle.writes] == [Verb.CREATE, Verb.PATCH, Verb.PATCH, Verb.PATCH]
    made = stored(cycle)
    assert made.metadata.name.startswith("my-pod-extended-resources-")
    assert made.metadata.annotations == {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}
    assert [one.uid for one in made.metadata.owner_references] == ["uid-my-pod"]
    assert [one.uid for one in made.status.reserved_for] == ["uid-my-pod"]
    told = cycle.server.pods["my-pod"]["status"]["extendedResourceClaimStatus"]
    assert told == {
        "resourceClaimName": made.metadata.name,
        "requestMappings": [
            {"containerName": "con0", "resourceName": GPU, "requestName": "container-0-request-0"}
        ],
    }


def test_devices_stay_held_until_the_informer_has_the_claim() -> None:
    cycle = FREE.drive(USER)
    (entry,) = cycle.tracker.in_flight
    assert entry.ends is not None
    assert {one.device for one in cycle.tracker.allocated().devices} == {"instance-1"}
    first = next(one for kind, one in cycle.server.history if kind == "set")
    cycle.tracker.set_claim(first)
    assert len(cycle.tracker.in_flight) == 1
    cycle.tracker.set_claim(stored(cycle))
    assert not cycle.tracker.in_flight
    assert {one.device for one in cycle.tracker.allocated().devices} == {"instance-1"}
    assert cycle.tracker.special_of("uid-my-pod") == stored(cycle)


def test_non_dra_extended_resource_name_with_zero_allocatable() -> None:
    cycle = replace(FREE, classes=[device_class()], nodes=[node(gpu="0")]).drive(USER)
    assert cycle.prefiltered == SKIP


def test_extended_resource_gate_off() -> None:
    assert replace(FREE, settings=settings_with(extended=False)).drive(USER).prefiltered == SKIP


def test_extended_resource_name_no_resource() -> None:
    cycle = replace(FREE, slices=[]).drive(USER)
    assert cycle.filtered == {"worker": unresolvable("cannot allocate all claims")}
    assert cycle.postfiltered is not None
    assert cycle.postfiltered.status == unschedulable("still not schedulable")


def test_resource_that_nobody_has() -> None:
    cycle = FREE.drive(asking(container("con0", gpu=1, unknown=1)))
    assert cycle.filtered == {"worker": unresolvable("cannot fit resource")}


def test_implicit_extended_resource_name_with_resources() -> None:
    """One container asks for a class under both of its names; requests are numbered as the names are sorted."""
    one = container("con0", gpu=2)
    one["resources"]["requests"][f"{IMPLICIT_EXTENDED_RESOURCE_PREFIX}{CLASS}"] = "1"
    cycle = FREE.drive(asking(one))
    assert cycle.devices == [
        "container-0-request-0=instance-1",
        "container-0-request-1=instance-2",
        "container-0-request-1=instance-3",
    ]
    assert cycle.bound == SUCCESS


def test_nodes_that_serve_the_same_share_one_answer() -> None:
    """And one where a device plugin serves the resource needs no claim at all."""
    nodes = [node("worker"), node("worker-2"), node("plugin", gpu="1")]
    slices = [slice_of(name, "g0") for name in ("worker", "worker-2")]
    world = replace(FREE, nodes=nodes, slices=slices)
    tracker = world.start().tracker
    asked = Filter(pre_filter(USER, tracker, DEFAULT).plan, tracker, DEFAULT, NOW)
    assert [asked.check(one).status.is_success for one in nodes] == [True, True, True]
    (first,), (second,), served = (asked.claims_for(one) for one in nodes)
    assert first is second
    assert served == ()
    tracker.catalogue.set_class(device_class("another-class", resource=GPU))
    (third,) = asked.claims_for(nodes[0])
    assert third is not first


def test_implicit_extended_resource_name_two_containers_with_resources() -> None:
    cycle = FREE.drive(TWO_NAMES)
    assert cycle.devices == [
        "container-0-request-0=instance-1",
        "container-1-request-0=instance-2",
        "container-1-request-0=instance-3",
    ]
    assert cycle.bound == SUCCESS


def failing(verb: Verb, kind: str, status: bool = True) -> Any:
    def fails(write: Write) -> Error | None:
        is_it = write.verb is verb and write.resource.kind == kind
        return UnavailableError("no") if is_it and bool(write.subresource) is status else None

    return fails


@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(failing(Verb.PATCH, "Pod"), id="fail-patch"),
        pytest.param(failing(Verb.PATCH, "ResourceClaim"), id="bind-failure"),
        pytest.param(failing(Verb.CREATE, "ResourceClaim", status=False), id="claim-creation-failure"),
    ],
)
def test_a_claim_that_could_not_be_finished_is_deleted(fails: Any) -> None:
    cycle = replace(FREE, fails=fails).drive(USER)
    assert cycle.bound == failure("no")
    assert cycle.server.claims == {}
    cycle.tracker.drop_overdue(FREE.now.replace(year=2031).timestamp())
    assert cycle.tracker.allocated().devices == frozenset()


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(claim(name="left", **LEFT_META), id="has-claim"),
        pytest.param(allocated(name="left", meta=LEFT_META), id="delete-claim"),
    ],
)
def test_a_claim_of_an_earlier_cycle_is_deleted(left: ResourceClaim) -> None:
    cycle = replace(FREE, claims=[left]).drive(USER)
    assert cycle.filtered == {"worker": unresolvable("cannot schedule extended resource claim")}
    assert cycle.postfiltered is not None
    assert cycle.postfiltered.status == unschedulable("deletion of ResourceClaim completed")
    assert cycle.server.claims == {}


def test_skip_bind() -> None:
    """The stored claim of another pod is not taken for this one's."""
    other = claim(name="left", **{**LEFT_META, **owned_by(USER, uid="another")})
    cycle = replace(FREE, claims=[other]).drive(USER)
    assert cycle.bound == SUCCESS
    assert len(cycle.server.claims) == 2
