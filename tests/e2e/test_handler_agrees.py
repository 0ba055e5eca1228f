"""Our drivers and KubeVirt's own device plugins say the same of one machine: resources, ids, NUMA nodes and answers.

KubeVirt's code runs with the machine's tree as its root and as process 1, so that /sys, /dev and /proc/1/root are the
tree's. Where Dray differs on purpose (docs/reference/kubevirt.md) the machines leave it out or `expected` says how.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.deviceplugin.allocate import to_response
from dray.deviceplugin.listing import listing
from dray.drivers.contract import Device, Driver, Health
from dray.drivers.health import check_required
from dray.errors import Error
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, MdevType
from tests.campaign import campaign, seeded
from tests.drivers.configured import drivers_by_resource, sockets_by_resource
from tests.e2e.kubevirt_program import kubevirt_program

Json = dict[str, Any]
UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa{:04x}"
KINDS = ("generic", "pci", "mdev", "usb")
GENERIC = {"kvm": "/dev/kvm", "tun": "/dev/net/tun", "vhost-net": "/dev/vhost-net", "sev": "/dev/sev"}
TYPES = {
    "nvidia-222": MdevType(8, "GRID T4-1Q"),
    "nvidia-223": MdevType(8, "FAKE 123"),
    "i915-GVTg_V5_4": MdevType(8),
}


@pytest.fixture(scope="module")
def program() -> Path:
    return kubevirt_program()


def random_machine(rng: random.Random, path: Path) -> Host:
    """Every PCI function has a group of its own: what Dray makes of shared ones differs on purpose."""
    host = Host(path, vfio=rng.choice(["cdev", "group"]))
    host.cgroup(2)
    groups = iter(rng.sample(range(1000), 64))
    for slot in range(rng.randrange(6)):
        host.pci(
            f"000{rng.randrange(2)}:{rng.randrange(1, 32):02x}:{slot:02x}.{rng.randrange(8)}",
            vendor=rng.choice(["10de", "8086"]),
            device=rng.choice(["1eb8", "10d3"]),
            driver=rng.choice(["vfio-pci", "vfio-pci", "nvidia", "e1000e", ""]),
            iommu_group=next(groups),
            numa_node=rng.choice([-1, 0, 1]),
        )
    add_virtual_functions(rng, host, groups)
    card = host.pci(
        "0000:f1:00.0", vendor="10de", device="1db4", driver="nvidia", iommu_group=next(groups), numa_node=1
    )
    parent = host.mdev_parent(card, TYPES)
    for index in range(rng.randrange(5)):
        parent.create(
            rng.choice(list(TYPES)), UUID.format(rng.randrange(4096) * 16 + index), iommu_group=next(groups)
        )
    for port in rng.sample(range(1, 8), rng.randrange(6)):
        vendor, product = rng.choice([("46f4", "0001"), ("46f4", "0002"), ("1050", "0407")])
        host.usb(f"{rng.choice([1, 2])}-{port}", vendor=vendor, product=product)
    return host


def add_virtual_functions(rng: random.Random, host: Host, groups: Iterator[int]) -> None:
    card = host.pci(
        "0000:e1:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=next(groups), sriov_total=4
    )
    for _ in range(rng.randrange(4)):
        driver = rng.choice(["nvidia", "nvidia", "vfio-pci", "nouveau"])
        vf = card.vf(driver=driver, vgpu_types={1414: "NVIDIA H200X-1-18C"}, iommu_group=next(groups))
        if driver == "nvidia":
            vf.set_vgpu_type(rng.choice([0, 1414]))


def random_permit(rng: random.Random) -> Json:
    """Some of what the machines may have, under names of all shapes. A selector has one resource, a device one owner."""
    ids = rng.sample(["10DE:1EB8", "8086:10d3", "10de:2335", "8086:1EB8"], rng.randrange(5))
    types = rng.sample(["GRID T4-1Q", "FAKE_123", "i915-GVTg_V5_4"], rng.randrange(4))
    single = [{"vendor": "46F4", "product": "0001"}]
    pair = [{"vendor": "1050", "product": "407"}, {"vendor": "46f4", "product": "0002"}]
    usb = [("kubevirt.io/storage", single), ("kubevirt.io/pair", pair), ("example.org/late", single)]
    return {
        "pciHostDevices": [
            {
                "pciVendorSelector": text,
                "resourceName": rng.choice(["nvidia.com/GPU", f"a.b-c.io/{index}_X.y"]),
            }
            for index, text in enumerate(ids)
        ],
        "mediatedDevices": [
            {"mdevNameSelector": text, "resourceName": f"nvidia.com/{text.replace(' ', '_')}"}
            for text in types
        ],
        "usb": [
            {"resourceName": name, "selectors": selectors, "externalResourceProvider": rng.random() < 0.2}
            for name, selectors in rng.sample(usb, rng.randrange(4))
        ],
    }


def ask(program: Path, host: Host, question: Json) -> dict[str, Json]:
    """What KubeVirt says of the machine."""
    (host.root / "proc").mkdir(exist_ok=True)
    descriptor = os.open(program, os.O_RDONLY)
    command = ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--root", str(host.root)]
    command += [f"/proc/self/fd/{descriptor}", "handler"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(question).encode(),
            stdout=subprocess.PIPE,
            pass_fds=[descriptor],
            check=True,
            timeout=60,
        )
    finally:
        os.close(descriptor)
    answer: dict[str, Json] = json.loads(done.stdout)
    return answer


def random_pick(rng: random.Random, count: int, kind: str) -> list[int]:
    """Numbers of devices in any order, maybe of one more than there are.

    A generic node is always asked for: KubeVirt hands it out whatever is asked, Dray to those that have one.
    """
    pick = rng.sample(range(count + 1), rng.randrange(count + 1))
    return [*pick, 0] if kind == "generic" and 0 not in pick else pick


def our_allocation(host: Host, driver: Driver, resource: str, devices: list[Device]) -> Json:
    try:
        prepared = driver.prepare(resource, devices)
        check_required(HostRoot(host.root), prepared)
    except Error:
        return {"environment": {}, "nodes": [], "failed": True}
    answer = to_response(prepared.edits)
    nodes = [[node.host_path, node.container_path, node.permissions] for node in answer.devices]
    return {"environment": dict(answer.envs), "nodes": nodes, "failed": False}


def expected(allocation: Json) -> Json:
    """KubeVirt's answer with each node once: it gives /dev/vfio/vfio again with every device."""
    nodes = list(dict.fromkeys(map(tuple, allocation["nodes"])))
    return {**allocation, "nodes": [list(node) for node in nodes]}


def compare(program: Path, host: Host, rng: random.Random) -> Counter[str]:
    """How many ids of each kind both found."""
    permitted = random_permit(rng)
    text = json.dumps({"permittedHostDevices": permitted, "virtualMachineInstancesPerNode": 3})
    drivers = drivers_by_resource(text)
    ours: dict[str, list[Device]] = {}
    for resource, driver in drivers.items():
        looked = driver.discover(HostRoot(host.root)).devices
        ours[resource] = [one for one in looked if one.resource == resource and one.health is Health.HEALTHY]
    generic = [
        {"name": name, "path": path, "count": 3, "permissions": "rwm"} for name, path in GENERIC.items()
    ]
    counts = {name: sum(len(one.share_ids) for one in devices) for name, devices in ours.items()}
    picks = {
        name: [random_pick(rng, count, drivers[name].kind) for _ in range(2)]
        for name, count in counts.items()
    }
    theirs = ask(program, host, {"permitted": permitted, "generic": generic, "picks": picks})
    assert set(theirs) == {name for name, count in counts.items() if count}
    sockets = sockets_by_resource(drivers)
    for resource, their in theirs.items():
        driver, devices = drivers[resource], ours[resource]
        if driver.kind in ("generic", "pci"):
            assert their["socket"] == sockets[resource]
        owners = compare_lists(driver, devices, their["devices"])
        for pick, allocation in zip(picks[resource], their["allocated"], strict=True):
            wanted = [owners[number] for number in pick if number < len(owners)]
            assert our_allocation(host, driver, resource, wanted) == expected(allocation), (resource, pick)
    found = Counter[str]()
    for name, count in counts.items():
        found[drivers[name].kind] += count
    return found


def compare_lists(driver: Driver, devices: list[Device], listed: list[Json]) -> list[Device]:
    """Our device behind each of their ids. USB ids are random there: the order tells."""
    told = listing(devices).message.devices
    our: list[Json] = [
        {"id": one.ID, "health": one.health, "nodes": [node.ID for node in one.topology.nodes]}
        for one in told
    ]
    owners = {share: one for one in devices for share in one.share_ids}
    if driver.kind == "usb":
        assert [(one["health"], one["nodes"]) for one in our] == [
            (one["health"], one["nodes"]) for one in listed
        ]
        return [owners[one["id"]] for one in our]
    by_id = {one["id"]: one for one in our}
    assert by_id == {one["id"]: one for one in listed} and len(by_id) == len(listed)
    return [owners[one["id"]] for one in listed]


def test_random_machines(program: Path, tmp_path: Path) -> None:
    rng = seeded(11)
    found = Counter[str]()
    number, least = 0, campaign(12, 200)
    while number < least or min(found[kind] for kind in KINDS) <= 20:
        host = random_machine(rng, tmp_path / str(number))
        for path in GENERIC.values():
            host.file(path, "")
        for _ in range(5):
            found += compare(program, host, rng)
        shutil.rmtree(host.root)
        number += 1
        assert number < 2 * least, found


def test_a_mediated_device_whose_node_is_gone_is_refused_by_both(program: Path, tmp_path: Path) -> None:
    host = Host(tmp_path)
    card = host.pci("0000:f1:00.0", vendor="10de", device="1db4", driver="nvidia", iommu_group=3)
    host.mdev_parent(card, TYPES).create("nvidia-223", UUID.format(1), iommu_group=9)
    permitted = {"mediatedDevices": [{"mdevNameSelector": "FAKE 123", "resourceName": "a.com/b"}]}
    question = {"permitted": permitted, "picks": {"a.com/b": [[0], []]}}
    driver = drivers_by_resource(json.dumps({"permittedHostDevices": permitted}))["a.com/b"]
    devices = list(driver.discover(HostRoot(host.root)).devices)
    for refused in (False, True):
        both = [our_allocation(host, driver, "a.com/b", some) for some in (devices, [])]
        assert [expected(one) for one in ask(program, host, question)["a.com/b"]["allocated"]] == both
        assert [one["failed"] for one in both] == [refused, True]
        (host.root / "dev/vfio/9").unlink(missing_ok=True)


def test_usb_nodes_are_given_to_qemu_by_both(program: Path, tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.usb("1-1", vendor="46f4", product="0001")
    node = tmp_path / "dev/bus/usb/001/002"
    permitted = {"usb": [{"resourceName": "a.com/b", "selectors": [{"vendor": "46f4", "product": "0001"}]}]}
    ask(program, host, {"permitted": permitted, "picks": {"a.com/b": [[0]]}})
    assert (node.stat().st_uid, node.stat().st_gid) == (107, 107)
    driver = drivers_by_resource(json.dumps({"permittedHostDevices": permitted}))["a.com/b"]
    (device,) = driver.discover(HostRoot(host.root)).devices
    (change,) = driver.prepare("a.com/b", [device]).changes
    assert (change.target, getattr(change, "uid", None), getattr(change, "gid", None)) == (
        "/dev/bus/usb/001/002",
        107,
        107,
    )


def test_where_we_differ_kubevirt_is_as_the_page_says(program: Path, tmp_path: Path) -> None:
    host = Host(tmp_path / "host", vfio="cdev")
    for function in (0, 1):
        host.pci(f"0000:05:00.{function}", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    bound = host.pci("0000:06:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=13)
    bound.unbind()
    host.garbage(
        host.pci("0000:07:00.0", vendor="8086", device="10d3", driver="vfio-pci", iommu_group=14).path
        / "numa_node",
        b"x",
    )
    host.usb("1-1", vendor="46f4", product="0001")
    selector = {"vendor": "46f4", "product": "0001"}
    permitted = {
        "pciHostDevices": [
            {"pciVendorSelector": "10de:2330", "resourceName": "a.com/gpu"},
            {"pciVendorSelector": "8086:10d3", "resourceName": "a.com/nic"},
        ],
        "usb": [{"resourceName": "a.com/pair", "selectors": [selector, selector]}],
    }
    question = {"permitted": permitted, "picks": {"a.com/gpu": [[0, 1]], "a.com/pair": [[0]]}}
    theirs = ask(program, host, question)
    assert [one["id"] for one in theirs["a.com/gpu"]["devices"]] == ["12", "12"]
    (gpus,) = theirs["a.com/gpu"]["allocated"]
    assert gpus["environment"] == {"PCI_RESOURCE_A_COM_GPU": "0000:05:00.1,0000:05:00.1"}
    assert [node[0] for node in gpus["nodes"]].count("/dev/vfio/vfio") == 2
    assert [one["nodes"] for one in theirs["a.com/nic"]["devices"]] == [[0]]
    (pair,) = theirs["a.com/pair"]["devices"]
    assert re.fullmatch("a.com/pair-[bcdfghjklmnpqrstvwxz2456789]{4}-0", pair["id"])
    assert theirs["a.com/pair"]["allocated"][0]["environment"] == {"USB_RESOURCE_A_COM_PAIR": "1:2,1:2"}
    assert theirs["a.com/pair"]["socket"] == "kubevirt-usb-pair.sock"
    shutil.rmtree(host.root / "sys/bus/pci")
    with pytest.raises(subprocess.CalledProcessError):  # a nil pointer
        ask(program, host, question)
