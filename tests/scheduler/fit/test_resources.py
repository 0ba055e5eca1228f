"""Amounts of resources and numbers of pods."""

from __future__ import annotations

from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.fit.resources import refused
from dray.scheduler.nodes import NodeInfo, PlacedPod
from dray.scheduler.requests import wanted
from tests.scheduler.objects import make_node, make_pod

GPU = "example.com/gpu"


def ask(info: NodeInfo, *served: str, **requests: str) -> Rejection | None:
    return refused(
        wanted(make_pod(requests={key.replace("gpu", GPU): value for key, value in requests.items()})),
        info,
        served,
    )


def test_what_is_left_counts() -> None:
    info = NodeInfo.of(make_node(cpu="4", memory="1Gi"))
    info.put(PlacedPod.of(make_pod("p", requests={"cpu": "3"})))
    assert ask(info, cpu="1") is None
    found = ask(info, cpu="1001m", memory="1Gi")
    assert found is not None and found.reasons == ("Insufficient cpu",) and found.can_resolve


def test_every_lack_is_told_and_one_that_no_eviction_mends() -> None:
    info = NodeInfo.of(make_node(cpu="1", memory="1Gi", pods="0"))
    found = ask(info, gpu="1", memory="2Gi", cpu="2", **{"ephemeral-storage": "1"})
    assert found is not None and not found.can_resolve
    lacking = (
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        f"Insufficient {GPU}",
    )
    assert found.reasons == ("Too many pods", *lacking)


def test_a_full_node_takes_nobody() -> None:
    info = NodeInfo.of(make_node(cpu="8", pods="1"))
    assert ask(info) is None
    info.put(PlacedPod.of(make_pod("p")))
    found = ask(info)
    assert found is not None and found.reasons == ("Too many pods",) and found.can_resolve


def test_asking_for_nothing_fits_a_node_that_is_overfull() -> None:
    info = NodeInfo.of(make_node(cpu="1"))
    info.put(PlacedPod.of(make_pod("p", requests={"cpu": "2"})))
    assert info.free("cpu") == -1000 and ask(info, cpu="0") is None and ask(info) is None


def test_resources_that_devices_serve_are_left_to_them() -> None:
    bare, own = NodeInfo.of(make_node()), NodeInfo.of(make_node())
    own.allocatable = {**own.allocatable, GPU: 1}
    assert ask(bare, gpu="2") is not None
    assert ask(bare, GPU, gpu="2") is None
    assert ask(own, GPU, gpu="2") is not None
