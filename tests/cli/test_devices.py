from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dray.cli import devices
from dray.cli.main import main
from dray.drivers.contract import Device, Discovery, Health
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.testing.host import Host, MdevType
from dray.up.place import RunningUp, UpPlace
from tests.cli.terminal import Terminal
from tests.interrupts import interruptible
from tests.small_kubelet import SmallKubelet
from tests.waiting import PATIENCE


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.char_device("/dev/kvm", 10, 232, mode=0o666)
    host.char_device("/dev/net/tun", 10, 200, mode=0o666)
    return host


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["devices", *words]) == 0
    return capsys.readouterr().out


def test_the_table(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "--host-root", str(host.root)).splitlines()
    assert lines[0].split() == ["KIND", "DEVICE", "RESOURCE", "HEALTH", "NUMA", "IOMMU", "HELD", "BY"]
    assert lines[1].split() == ["generic", "/dev/kvm", "devices.kubevirt.io/kvm", "Healthy", "-", "-", "-"]
    assert [line.split()[3] for line in lines[1:6]] == [
        "Healthy",
        "Unhealthy",
        "Healthy",
        "Unhealthy",
        "Unhealthy",
    ]
    assert lines[7].startswith("Unhealthy: /dev/sev does not exist, ")
    assert "\033" not in "".join(lines)


def test_json_and_yaml_are_one_document(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, "--host-root", str(host.root), "-o", "json"))
    assert document == yaml.safe_load(shown(capsys, "--host-root", str(host.root), "-o", "yaml"))
    assert document["problems"] == []
    assert document["devices"][0] == {
        "id": "kvm",
        "kind": "generic",
        "resource": "devices.kubevirt.io/kvm",
        "health": "Healthy",
        "reason": "",
        "numaNode": None,
        "iommuGroup": None,
        "pcieRoot": None,
        "shares": 1000,
        "attributes": {"node": "stand-in"},
        "paths": ["/dev/kvm"],
        "heldBy": [],
    }
    assert [device["health"] for device in document["devices"]].count("Healthy") == 2


def test_what_can_be_passed_to_a_vm(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12, numa_node=1)
    host.pci("0000:07:00.0", vendor="8086", device="10d3", driver="e1000e", iommu_group=14)
    card = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3, numa_node=0)
    parent = host.mdev_parent(card, {"nvidia-222": MdevType(16, "GRID T4-1Q")})
    parent.create("nvidia-222", "83b8f4f2-509f-382f-3c1e-e6bfe0fa0001", iommu_group=71)
    host.usb("1-2.3", vendor="46f4", product="0001")
    table = shown(capsys, "--host-root", str(host.root)).splitlines()
    assert [line.split() for line in table[6:9]] == [
        ["pci", "0000:05:00.0", "-", "Healthy", "1", "12", "-"],
        ["mdev", "83b8f4f2-509f-382f-3c1e-e6bfe0fa0001", "-", "Healthy", "0", "71", "-"],
        ["usb", "1-2.3", "-", "Healthy", "-", "-", "-"],
    ]
    document = json.loads(shown(capsys, "--host-root", str(host.root), "-o", "json"))
    pci = next(device for device in document["devices"] if device["kind"] == "pci")
    assert pci["paths"] == ["/dev/vfio/vfio", "/dev/vfio/12"]
    assert (pci["numaNode"], pci["iommuGroup"], pci["pcieRoot"]) == (1, 12, "pci0000:05")
    assert pci["attributes"]["driver"] == "vfio-pci"


def test_a_function_that_cannot_be_read_is_told_once(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    card = host.pci("0000:06:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=3)
    parent = host.mdev_parent(card, {"nvidia-222": MdevType(16, "GRID T4-1Q")})
    parent.create("nvidia-222", "83b8f4f2-509f-382f-3c1e-e6bfe0fa0001", iommu_group=71)
    host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    host.dangle("/sys/bus/pci/devices/0000:05:00.0/iommu_group")
    problems = json.loads(shown(capsys, "--host-root", str(host.root), "-o", "json"))["problems"]
    assert len([one for one in problems if "0000:05:00.0 is left out" in one["message"]]) == 1


def test_an_empty_tree_says_what_was_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--host-root", str(tmp_path))
    assert text.startswith(f"No healthy devices below {tmp_path}. Looked at: /dev/kvm, ")
    assert json.loads(shown(capsys, "--host-root", str(tmp_path), "-o", "json"))["devices"]


def test_problems_are_told(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.unreadable("/dev/kvm")
    assert "Note: /dev/kvm is not a device node" in shown(capsys, "--host-root", str(host.root))
    problems = json.loads(shown(capsys, "--host-root", str(host.root), "-o", "json"))["problems"]
    assert [problem["path"] for problem in problems] == ["/dev/kvm"]


def test_numa_group_and_colour() -> None:
    gpu = Device("0", "pci", "example.com/gpu", Health.HEALTHY, numa_node=1, iommu_group=12)
    gone = Device("1", "pci", "example.com/gpu", Health.UNHEALTHY, "/dev/vfio/13 does not exist")
    found = Discovery((gpu, gone), (), ())
    table = devices.as_table(found, {}, why=True)
    lines = table.lines()
    assert lines[1].split() == ["pci", "0", "example.com/gpu", "Healthy", "1", "12", "-", "-"]
    assert lines[2].endswith("   /dev/vfio/13 does not exist")
    assert "\033[31mUnhealthy\033[0m" in table.lines(colour=True)[2]
    assert [row.key for row in table.rows] == [("pci", "0"), ("pci", "1")]


def test_wide_and_names(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12, numa_node=1)
    head, *rows = shown(capsys, "--host-root", str(host.root), "-o", "wide").splitlines()
    assert head.endswith("PCIE ROOT    SHARES   ID            PATHS")
    assert next(row for row in rows if row.startswith("pci")).split()[-5:] == [
        "pci0000:05", "-", "12", "/dev/vfio/vfio,", "/dev/vfio/12",
    ]  # fmt: skip
    names = shown(capsys, "--host-root", str(host.root), "-o", "name").splitlines()
    assert names[0] == "generic/kvm" and names[-1] == "pci/12"


@pytest.mark.parametrize("output", ["json", "yaml", "name"])
def test_only_tables_are_watched(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--host-root", str(tmp_path), "--watch", "-o", output]) == 2
    assert "can be watched as a table only" in capsys.readouterr().err


def test_a_watch_of_nothing_ends_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--host-root", str(tmp_path / "none"), "--watch"]) == 2
    assert "--host-root" in capsys.readouterr().err


async def test_changes_are_shown_as_they_happen(host: Host, tmp_path: Path) -> None:
    """A node that comes at once; a device of sysfs, which tells of nothing, at the next look."""
    host.usb("1-2.3", vendor="46f4", product="0001")
    with interruptible():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", "devices", "--host-root", str(host.root), "--kubelet-dir", str(tmp_path / "none"), "--watch",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    assert process.stdout is not None
    out = process.stdout
    async with asyncio.timeout(PATIENCE):
        first = [(await out.readline()).decode() for _ in range(7)]
        assert first[0].split()[-1] == "WHY"
        assert (
            " ".join(first[2].split())
            == "generic /dev/sev devices.kubevirt.io/sev Unhealthy - - - /dev/sev does not exist"
        )
        assert first[6].startswith("usb ")
        host.char_device("/dev/sev", 10, 124, mode=0o666)
        assert (await out.readline()).split()[1:4] == [b"/dev/sev", b"devices.kubevirt.io/sev", b"Healthy"]
        (host.root / "sys/bus/usb/devices/1-2.3").unlink()
        assert await out.readline() == b"usb/1-2.3 is gone\n"
        process.send_signal(signal.SIGINT)
        left, said = await process.communicate()
    assert (process.returncode, left, said) == (130, b"", b"")


async def test_on_a_terminal_the_table_is_drawn_anew(host: Host) -> None:
    terminal = Terminal("devices", "--host-root", str(host.root), "--watch")
    await terminal.wait("\033[H\033[J")
    await terminal.wait("\033[32mHealthy")
    (host.root / "dev/kvm").unlink()
    await terminal.wait("\033[H\033[J")
    await terminal.wait("\033[31mUnhealthy")
    terminal.press("\x03")
    assert await terminal.end() == 130


async def test_what_takes_long_is_told(host: Host, tmp_path: Path) -> None:
    """A kubelet that does not answer holds it up."""
    (tmp_path / "k" / "pod-resources").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "k" / "pod-resources" / "kubelet.sock"))
        silent.listen()
        terminal = Terminal("devices", "--host-root", str(host.root), "--kubelet-dir", str(tmp_path / "k"))
        await terminal.wait("looking at the devices…")
        await terminal.wait("\r\033[K")
        await terminal.wait("\033[32mHealthy")
        assert await terminal.end() == 0


@pytest.mark.parametrize("root", ["missing", "file"])
def test_a_bad_root_is_bad_input(root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["devices", "--host-root", str(tmp_path / root)]) == 2
    assert "--host-root" in capsys.readouterr().err


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, "-o", "json"))
    generic = [one for one in document["devices"] if one["kind"] == "generic"]
    assert generic
    for device in generic:
        assert (device["health"] == "Healthy") == os.path.exists(device["paths"][0])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
def test_without_rights_it_still_finds_and_says_so(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    """As a user who may not open the node; by a fork, because that user may not read this Python either."""
    host.char_device("/dev/sev", 10, 124, mode=0o600)
    for directory in (host.root, *list(host.root.parents)[:2]):
        directory.chmod(0o755)
    main(["devices", "--host-root", str(host.root), "-o", "json"])  # everything is imported now
    capfd.readouterr()
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        os._exit(main(["devices", "--host-root", str(host.root), "-o", "json"]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    document = json.loads(capfd.readouterr().out)
    health = {device["id"]: device["health"] for device in document["devices"]}
    assert health["sev"] == "Healthy"
    assert [problem["path"] for problem in document["problems"]] == ["/dev/sev"]
    assert "may not open" in document["problems"][0]["message"]


def test_it_starts_light(tmp_path: Path) -> None:
    """The node's own parts (gRPC, HTTP) are not needed to look at files, only to ask a kubelet that is there."""
    code = (
        "import sys; from dray.cli.main import main;"
        f"main(['devices', '-o', 'json', '--kubelet-dir', '{tmp_path}']);"
        "print([m for m in ('aiohttp', 'grpclib', 'google', 'yaml') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


async def test_holders_are_those_the_kubelet_names(host: Host, tmp_path: Path) -> None:
    kubelet = SmallKubelet(tmp_path / "kubelet" / "device-plugins")
    kubelet.directory.mkdir(parents=True)
    kubelet.pods = {f"vm{number}": {"devices.kubevirt.io/kvm": [f"kvm{number}"]} for number in range(5)}
    argv = [sys.executable, "-m", "dray", "devices", "--host-root", str(host.root)]
    argv += ["--kubelet-dir", str(kubelet.directory.parent)]

    async def shown(*more: str) -> str:
        process = await asyncio.create_subprocess_exec(*argv, *more, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0].decode()

    up = UpPlace(kubelet.directory.parents[1])
    assert up.kubelet == kubelet.directory.parent
    pid = os.getpid()
    up.write(
        RunningUp(
            pid=pid, start_time=start_time(pid) or 0, boot=boot_id(), version="", server="", kubeconfig=""
        )
    )
    async with kubelet.running():
        assert "default/vm0, default/vm1, default/vm2 and 2 more" in (await shown()).splitlines()[1]
        first, *others = json.loads(await shown("-o", "json"))["devices"]
        assert first["heldBy"] == [f"default/vm{number}" for number in range(5)]
        assert not any(device["heldBy"] for device in others)
        argv[-2:] = ["--data-dir", str(up.data_dir)]
        assert json.loads(await shown("-o", "json"))["devices"] == [first, *others]
    up.remove(RunningUp)
    assert main(["devices", "--data-dir", str(up.data_dir)]) == 1
