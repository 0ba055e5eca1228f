"""The agent as DRA driver on a real node: every kind of claim, from kube-scheduler to the container and back."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.dra.claims.state import Phase
from dray.testing.kubernetes.cluster import Cluster
from tests.e2e.dra_agent import (
    BIG,
    CUT,
    GENERIC,
    GPU,
    SHOWS,
    SIM,
    STAYS,
    DraNode,
    claim,
    container,
    documents,
    dra_node,
    metadata_path,
    of,
    opaque,
    pod,
    requests,
    sim_config,
    template,
)

END = "that is all"
PRINTS = f"{SHOWS}; echo {END}; {STAYS}"
# A real device: without KVM the one that every Linux has.
REAL = "/dev/kvm" if Path("/dev/kvm").exists() else "/dev/net/tun"


@pytest.fixture(scope="module")
def served(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DraNode]:
    with dra_node(cluster, "agent-dra", tmp_path_factory.mktemp("dra-agent"), sim_config()) as node:
        yield node


@pytest.fixture
def node(served: DraNode) -> Iterator[DraNode]:
    """What a test creates is deleted after it; that nothing is left is looked at once for all."""
    yield served
    served.remove_all()


def test_a_pod_with_a_template_gets_exactly_its_device_and_gives_it_back(node: DraNode) -> None:
    node.create(template("one", requests(gpu=of(GPU))))
    path = metadata_path("device", "gpu")
    script = f"{SHOWS}; cat {path}; (echo x >/dev/dray-sim/gpu-*) && echo works; echo {END}; {STAYS}"
    node.run(pod("exact", container(script, "device"), device="template:one"))
    name = node.claim_of("exact", "device")
    (device,) = node.allocated(name)
    nodes, variable, *told, works = node.printed("exact", END)
    assert (nodes, variable, works) == (device, f"SIM_RESOURCE_DEVICE_GPU={device}", "works")
    for document, version in zip(documents("\n".join(told)), ("v1beta1", "v1alpha1"), strict=True):
        assert document["apiVersion"] == f"metadata.resource.k8s.io/{version}"
        assert (document["metadata"]["name"], document["podClaimName"]) == (name, "device")
        (request,) = document["requests"]
        (given,) = request["devices"]
        assert (given["driver"], given["pool"], given["name"]) == (SIM, node.cluster.node_name, device)
        assert given["attributes"]["resource"] == {"string": GPU}
    found = node.find("ResourceClaim", name)
    uid = found["metadata"]["uid"]
    node.wait(lambda: "devices" in node.find("ResourceClaim", name)["status"], "status.devices")
    (status,) = node.find("ResourceClaim", name)["status"]["devices"]
    assert (status["driver"], status["device"]) == (SIM, device)
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("Ready", "True")]
    assert node.entries() == {uid: Phase.COMPLETED}
    assert node.held() == [f"{device} by default/{name}"]
    assert len([file for file in node.cdi_files() if uid in file]) == 2
    node.delete_pod("exact")
    node.wait_released()
    node.wait(lambda: node.find("ResourceClaim", name) is None, "the claim to be gone")


def test_a_pod_gets_a_real_device_and_no_other(node: DraNode) -> None:
    expression = f'device.attributes["{GENERIC}"].resource == "devices.kubevirt.io/{Path(REAL).name}"'
    wanted = {"deviceClassName": GENERIC, "selectors": [{"cel": {"expression": expression}}]}
    node.create(template("real", requests(node=wanted)))
    opens = f"(exec 3<>{REAL}) && echo opened; ls /dev/kvm /dev/net/tun 2>/dev/null"
    shows = f"stat -c '%t:%T' {REAL}; cat {metadata_path('device', 'node', driver=GENERIC)}"
    script = f"{opens}; {shows}; echo {END}; {STAYS}"
    node.run(pod("real", container(script, "device"), device="template:real"))
    opened, seen, numbers, *told = node.printed("real", END)
    there = os.stat(REAL)
    assert stat.S_ISCHR(there.st_mode)
    assert (opened, seen) == ("opened", REAL)
    assert numbers == f"{os.major(there.st_rdev):x}:{os.minor(there.st_rdev):x}"
    ((given,),) = (
        [one["name"] for one in each["requests"][0]["devices"]] for each in documents("\n".join(told))[:1]
    )
    assert given == Path(REAL).name
    assert node.allocated(node.claim_of("real", "device")) == [given]
    assert list(node.entries(GENERIC).values()) == [Phase.COMPLETED]
    assert node.held() == [], "what many share is held by nobody"


def test_two_pods_and_three_containers_share_one_claim(node: DraNode) -> None:
    node.create(claim("shared", requests(gpu=of(GPU))))
    two = [container(PRINTS, "device", name=name) for name in ("first", "second")]
    node.create(pod("sharer-a", *two, device="shared"))
    node.run(pod("sharer-b", container(PRINTS, "device"), device="shared"))
    node.cluster.wait_pod("sharer-a")
    (device,) = node.allocated("shared")
    wanted = [device, f"SIM_RESOURCE_SHARED_GPU={device}"]
    assert node.printed("sharer-a", END, where="first") == wanted
    assert node.printed("sharer-a", END, where="second") == wanted
    assert node.printed("sharer-b", END) == wanted
    assert len(node.entries()) == 1
    node.delete_pod("sharer-a")
    assert len(node.entries()) == 1, "the other pod still has it"
    assert node.cluster.wait_pod("sharer-b")["status"]["containerStatuses"][0]["restartCount"] == 0
    node.delete_pod("sharer-b")
    node.wait_released()
    found = node.find("ResourceClaim", "shared")
    node.wait(lambda: not node.find("ResourceClaim", "shared")["status"], "the claim to be free")
    assert "allocation" not in found["status"] or node.allocated("shared") == []


def test_containers_get_the_requests_they_name(node: DraNode) -> None:
    node.create(template("several", requests(pair=of(GPU, count=2), single=of(GPU))))
    both = container(PRINTS, "device", name="both")
    one = container(PRINTS, "device/single", name="one")
    node.run(pod("several", both, one, device="template:several"))
    given = node.allocated(node.claim_of("several", "device"))
    assert len(set(given)) == 3
    lines = node.printed("several", END, where="one")
    assert lines[0] == given[2] and lines[1].endswith(f"_SINGLE={given[2]}") and len(lines) == 2
    lines = node.printed("several", END, where="both")
    assert lines[:3] == sorted(given)
    assert [line.partition("=")[2] for line in lines[3:]] == [",".join(given[:2]), given[2]]


def test_admin_access_sees_devices_that_others_have(node: DraNode) -> None:
    label = {"resource.kubernetes.io/admin-access": "true"}
    meta = {"name": "dra-admin", "labels": label}
    node.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    node.create(claim("user", requests(gpu=of(GPU))))
    node.run(pod("user", container(PRINTS, "device"), device="user"))
    (device,) = node.allocated("user")
    expression = (
        f'device.attributes["{SIM}"].uuid == "{node.devices()[device]["attributes"]["uuid"]["string"]}"'
    )
    wanted = of(GPU, adminAccess=True, selectors=[{"cel": {"expression": expression}}])
    looking = claim("admin", requests(gpu=wanted))
    looking["metadata"]["namespace"] = "dra-admin"
    node.create(looking)
    node.run(pod("admin", container(PRINTS, "device"), namespace="dra-admin", device="admin"))
    assert node.printed("admin", END, "dra-admin") == [
        device, "DRA_ADMIN_ACCESS=true", f"SIM_RESOURCE_ADMIN_GPU={device}"
    ]  # fmt: skip
    assert node.held() == [f"{device} by default/user"], "adminAccess holds nothing"
    node.delete_pod("admin", "dra-admin")
    assert len(node.entries()) == 1


def test_the_first_available_alternative_is_taken(node: DraNode) -> None:
    best = of(GPU, name="best", count=100)
    good = of(GPU, name="good", count=2)
    node.create(claim("choice", requests(gpus={"firstAvailable": [best, good]})))
    path = metadata_path("choice", "gpus", is_template=False)
    script = f"{SHOWS}; cat {path}; echo {END}; {STAYS}"
    node.run(pod("choice", container(script, "device/gpus"), device="choice"))
    given = node.allocated("choice")
    first, second, variable, *told = node.printed("choice", END)
    assert sorted(given) == [first, second]
    assert variable == f"SIM_RESOURCE_CHOICE_GPUS={','.join(given)}"
    assert documents("\n".join(told))[0]["requests"][0]["name"] == "gpus/good"


def test_partitions_are_given_until_their_counters_are_used_up(node: DraNode) -> None:
    shared = [one["spec"]["sharedCounters"] for one in node.slices() if one["spec"].get("sharedCounters")]
    assert [each["name"] for one in shared for each in one] == ["cut-0-slices"]
    node.create(claim("parts", requests(large=of(f"{CUT}-3g"), small=of(f"{CUT}-1g", count=3))))
    node.create(claim("whole", requests(gpu=of(CUT))))
    node.run(pod("parts", container(PRINTS, "device"), device="parts"))
    node.create(pod("whole", container(PRINTS, "device"), device="whole"))
    given = node.allocated("parts")
    assert node.printed("parts", END)[:4] == sorted(given)
    assert [one.rpartition("-")[0] for one in given] == ["cut-0-3g", *["cut-0-1g"] * 3]
    node.wait(
        lambda: any(one["involvedObject"]["name"] == "whole" for one in node.events("FailedScheduling")),
        "a refusal",
    )
    assert node.allocated("whole") == []
    node.delete_pod("parts")
    node.cluster.wait_pod("whole")
    assert node.printed("whole", END)[0] == "cut-0"


def test_claims_take_parts_of_a_capacity(node: DraNode) -> None:
    asks = {"capacity": {"requests": {"memory": "100Gi"}}}
    for name, more in (("much", asks), ("little", {}), ("too-much", asks)):
        node.create(claim(name, requests(gpu=of(BIG, **more))))
    node.run(pod("much", container(PRINTS, "device"), device="much"))
    node.create(pod("too-much", container(PRINTS, "device"), device="too-much"))
    node.run(pod("little", container(PRINTS, "device"), device="little"))
    assert node.printed("much", END)[:2] == [
        "big-0",
        "SIM_CONSUMED_MUCH_GPU=big-0/memory=100Gi,big-0/shares=1",
    ]
    assert node.printed("little", END)[1] == "SIM_CONSUMED_LITTLE_GPU=big-0/memory=24Gi,big-0/shares=1"
    assert node.allocated("too-much") == []
    shares = [
        one["status"]["allocation"]["devices"]["results"][0]["shareID"]
        for one in node.claims()
        if one["metadata"]["name"] != "too-much"
    ]
    told = [
        one["status"]["devices"][0]["shareID"]
        for one in node.claims()
        if one["metadata"]["name"] != "too-much"
    ]
    assert shares == told and len(set(shares)) == 2
    node.delete_pod("much")
    node.cluster.wait_pod("too-much")


def test_parameters_reach_the_container_and_bad_ones_are_named(node: DraNode) -> None:
    good = opaque(env={"LEVEL": "3"}, mode="TimeSlicing", interval="Short")
    node.create(claim("good", requests([good], gpu=of(GPU))))
    node.create(claim("bad", requests([opaque(mode="Shared")], gpu=of(GPU))))
    node.create(pod("bad", container(PRINTS, "device"), device="bad"))
    script = f"env | grep -E '^(LEVEL|SIM_[MI])' | sort; echo {END}; {STAYS}"
    node.run(pod("good", container(script, "device"), device="good"))
    assert node.printed("good", END) == [
        "LEVEL=3",
        "SIM_INTERVAL_GOOD_GPU=Short",
        "SIM_MODE_GOOD_GPU=TimeSlicing",
    ]

    def told() -> list[str]:
        reasons = ("DevicePrepareFailed", "FailedPrepareDynamicResources")
        found = [one for reason in reasons for one in node.events(reason)]
        return [
            one["message"]
            for one in found
            if one["involvedObject"]["name"] == "bad"
            and 'mode: Unsupported value: "Shared"' in one["message"]
        ]

    node.wait(lambda: len(told()) >= 2, "claim and pod to say what is wrong")
    assert node.find("Pod", "bad")["status"]["phase"] == "Pending"
