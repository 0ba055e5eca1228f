"""A guest with real devices: what Dray reads there is what `lspci` and `lsusb` say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dray.errors import UnavailableError
from dray.testing.kubernetes import leftovers
from dray.testing.machine import Machine
from dray.testing.machine.hardware import KEYBOARD, MOUSE, STICK
from tests.waiting import PATIENCE, block_until

pytest_plugins = ("dray.testing.machine.fixture",)

PROGRAMS = Path(__file__).parent / "programs"
ALONE, DISK, VIRTUAL = "0000:00:04.0", "0000:02:00.0", "0000:02:00.1"
UUID = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
STARTS_ONE = "from dray.testing.machine import Machine\nwith Machine(): pass"


class Changer:
    """Changes the guest's devices through Dray's executor."""

    def __init__(self, machine: Machine) -> None:
        self.program = machine.start(["python", PROGRAMS / "host_change.py"])

    def make(self, kind: str, *, isolate: bool = False, **fields: Any) -> str | None:
        self.program.write(json.dumps({"change": {"change": kind, **fields}, "isolate": isolate}) + "\n")
        error: str | None = json.loads(self.program.read_line(90.0))["error"]
        return error


@pytest.fixture(scope="module")
def changer(machine: Machine) -> Iterator[Changer]:
    changer = Changer(machine)
    yield changer
    changer.program.kill()


@pytest.fixture(scope="module")
def changed(machine: Machine, changer: Changer) -> Iterator[Machine]:
    """The guest with two functions on vfio-pci, virtual ones and a mediated device."""
    machine.shell(f"echo 0 > /sys/bus/pci/devices/{DISK}/sriov_drivers_autoprobe")
    assert changer.make("BindDriver", address=ALONE, driver="vfio-pci", isolate=True) is None
    assert changer.make("SetSriovVfs", address=DISK, count=2) is None
    assert changer.make("BindDriver", address=VIRTUAL, driver="vfio-pci") is None
    assert changer.make("CreateMdev", parent="mtty", type_id="mtty-1", uuid=UUID) is None
    yield machine
    assert changer.make("RemoveMdev", uuid=UUID) is None
    assert changer.make("SetSriovVfs", address=DISK, count=0) is None
    assert changer.make("BindDriver", address=ALONE, driver="e1000e", override="") is None


@pytest.fixture(scope="module")
def looked(changed: Machine) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `dray.hardware` reads and what `dray devices` shows; both at once, because they take long to start."""
    commands: tuple[list[str | Path], ...] = (
        ["python", PROGRAMS / "machine_facts.py"],
        ["dray", "devices", "-o", "json"],
    )
    programs = [changed.start(command) for command in commands]
    for program in programs:
        assert program.wait(90.0) == 0, program.stderr
    facts, shown = (json.loads(program.stdout) for program in programs)
    assert facts["problems"] == shown["problems"] == []
    return facts, shown


@pytest.fixture(scope="module")
def facts(looked: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return looked[0]


@pytest.fixture(scope="module")
def shown(looked: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{device['kind']} {device['id']}": device for device in looked[1]["devices"]}


def lspci(machine: Machine) -> dict[str, dict[str, str]]:
    """Slot to fields, as `lspci` reads them."""
    done = machine.run([machine.parts.program("lspci"), "-Dnkvmm"], env=machine.parts.libraries)
    assert done.returncode == 0, done.stderr
    records = [
        dict(line.split(":\t", 1) for line in block.splitlines())
        for block in done.stdout.split("\n\n")
        if block
    ]
    return {record["Slot"]: record for record in records}


def lsusb(machine: Machine) -> dict[tuple[int, int], dict[str, str]]:
    """Bus and device number to what `lsusb` reads from the device itself; root hubs are left out."""
    done = machine.run([machine.parts.program("lsusb"), "-v"], env=machine.parts.libraries)
    found = {}
    for block in re.split(r"^(?=Bus \d+ Device)", done.stdout, flags=re.MULTILINE)[1:]:
        head = re.match(r"Bus (\d+) Device (\d+): ID (\S+)", block)
        assert head is not None
        texts = dict(re.findall(r"^  (iManufacturer|iProduct|iSerial) +\d+ (.*)$", block, flags=re.MULTILINE))
        if not head[3].startswith("1d6b:"):
            found[int(head[1]), int(head[2])] = {"id": head[3], **texts}
    return found


def lsusb_ports(machine: Machine) -> dict[tuple[int, int], str]:
    """Bus and device number to port path, out of the tree that `lsusb -t` draws."""
    done = machine.run([machine.parts.program("lsusb"), "-t"], env=machine.parts.libraries)
    found: dict[tuple[int, int], str] = {}
    bus, path = 0, [""]
    for line in done.stdout.splitlines():
        if root := re.match(r"/:  Bus 0*(\d+)\.", line):
            bus = int(root[1])
        elif port := re.match(r"( +)\|__ Port 0*(\d+): Dev (\d+)", line):
            path = [*path[: len(port[1]) // 4 - 1], port[2]]
            found[bus, int(port[3])] = f"{bus}-{'.'.join(path)}"
    return found


def test_every_pci_function_is_as_lspci_has_it(
    changed: Machine, facts: dict[str, list[dict[str, Any]]]
) -> None:
    theirs = lspci(changed)
    assert len(theirs) > 20
    assert theirs[ALONE]["Driver"] == "vfio-pci"
    ours = {
        function["address"]: {
            "Slot": function["address"],
            "Class": function["class_code"][:4],
            "Vendor": function["vendor"],
            "Device": function["device"],
            "Driver": function["driver"],
            "IOMMUGroup": None if function["iommu_group"] is None else str(function["iommu_group"]),
            "NUMANode": None if function["numa_node"] is None else str(function["numa_node"]),
        }
        for function in facts["pci"]
    }
    fields = next(iter(ours.values())).keys()
    assert ours == {slot: {name: record.get(name) for name in fields} for slot, record in theirs.items()}
    assert {function["numa_node"] for function in facts["pci"]} == {None, 1}


def test_virtual_functions_know_their_physical_one(facts: dict[str, list[dict[str, Any]]]) -> None:
    functions = {function["address"]: function for function in facts["pci"]}
    assert functions[DISK]["sriov"] == {"total": 2, "functions": [VIRTUAL, "0000:02:00.2"]}
    assert functions[VIRTUAL]["physical_function"] == DISK
    assert functions[VIRTUAL]["driver"] == "vfio-pci"
    assert functions["0000:02:00.2"]["driver"] is None


def test_every_usb_device_is_as_lsusb_has_it(
    changed: Machine, facts: dict[str, list[dict[str, Any]]]
) -> None:
    theirs, ports = lsusb(changed), lsusb_ports(changed)
    ours = {
        (device["bus"], device["number"]): {
            "id": f"{device['vendor']}:{device['product']}",
            "iManufacturer": device["manufacturer"],
            "iProduct": device["text"],
            "iSerial": device["serial"],
        }
        for device in facts["usb"]
    }
    assert ours == theirs
    assert {(device["bus"], device["number"]): device["port"] for device in facts["usb"]} == {
        key: port for key, port in ports.items() if key in theirs
    }
    assert {KEYBOARD, STICK, MOUSE} <= {device["serial"] for device in facts["usb"]}


def test_dray_devices_shows_what_can_be_handed_out(
    changed: Machine, shown: dict[str, dict[str, Any]]
) -> None:
    theirs = lspci(changed)
    on_vfio = {slot: record for slot, record in theirs.items() if record.get("Driver") == "vfio-pci"}
    assert {device["attributes"]["address"]: device["iommuGroup"] for device in of("pci", shown)} == {
        slot: int(record["IOMMUGroup"]) for slot, record in on_vfio.items()
    }
    assert {device["attributes"]["serial"] for device in of("usb", shown)} == {KEYBOARD, STICK, MOUSE}
    [mdev] = of("mdev", shown)
    assert mdev["attributes"] == {
        "parent": "mtty",
        "type": "Single_port_serial",
        "typeId": "mtty-1",
        "uuid": UUID,
        "mdevUUID": UUID,
    }
    handed_out = [*of("pci", shown), *of("usb", shown), mdev]
    assert {device["health"] for device in handed_out} == {"Healthy"}
    for path in sorted({path for device in handed_out for path in device["paths"]}):
        changed.shell(f"test -c {path}")


def test_what_a_process_holds_is_not_taken_away(changed: Machine, changer: Changer) -> None:
    held: dict[str, tuple[dict[str, Any], str]] = {
        "UnbindDriver": ({"address": ALONE}, f"/sys/bus/pci/devices/{ALONE}"),
        "RemoveMdev": ({"uuid": UUID}, f"/sys/bus/mdev/devices/{UUID}"),
    }
    for change, (fields, directory) in held.items():
        group = changed.shell(f"readlink {directory}/iommu_group").strip().rpartition("/")[2]
        holder = changed.start(["sh", "-c", f"exec 3<>/dev/vfio/{group}; echo held; read nothing"])
        try:
            assert holder.read_line(30.0) == "held"
            error = changer.make(change, **fields)
        finally:
            holder.kill()
        [name] = fields.values()
        assert error == f"{name} is in use by process {holder.pid} (sh): stop it first"
        changed.shell(f"test -c /dev/vfio/{group}")


def of(kind: str, shown: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [device for device in shown.values() if device["kind"] == kind]


def test_install_of_what_is_there_does_nothing(machine: Machine) -> None:
    def state() -> dict[Path, int]:
        return {
            path: path.lstat().st_mtime_ns for path in machine.parts.directory.parent.glob("machine*/**/*")
        }

    before = state()
    assert len(before) > 500
    command = [sys.executable, "-m", "dray.testing.machine", "install"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert state() == before


def test_programs_run_beside_each_other_with_input_output_and_status(machine: Machine) -> None:
    slow = machine.start(["sh", "-c", "read word; echo $word; echo no >&2; exit 7"])
    assert machine.run(["cat"], stdin="ä\n" * 50_000).stdout == "ä\n" * 50_000
    slow.write("yes\n")
    assert slow.wait(PATIENCE) == 7
    assert (slow.stdout, slow.stderr) == ("yes\n", "no\n")


def test_what_takes_too_long_or_cannot_start_is_told(machine: Machine) -> None:
    with pytest.raises(UnavailableError, match=r"`sleep 1000` in the guest: not in 0.3 s"):
        machine.run(["sleep", "1000"], timeout=0.3)
    with pytest.raises(UnavailableError, match=r"it did not start: .*No such file"):
        machine.run(["/nothing/there"])
    # A process may end between its name and its content.
    commands = "for file in /proc/[0-9]*/cmdline; do (tr '\\0' ' ' < $file) 2> /dev/null || true; echo; done"
    block_until(lambda: "sleep 1000" not in machine.shell(commands).splitlines())


def test_nothing_of_this_machine_can_be_written(machine: Machine) -> None:
    done = machine.run(["touch", PROGRAMS / "written"])
    assert "Read-only file system" in done.stderr
    machine.write("/run/some/where", "text\n")
    assert machine.shell("cat /run/some/where") == "text\n"
    assert not Path("/run/some/where").exists()


def test_when_the_owner_is_killed_nothing_is_left() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS_ONE], start_new_session=True) as owner:
        directory = block_until(lambda: _locked_by(owner.pid))
        block_until((directory / "guest").exists)
        os.kill(owner.pid, signal.SIGKILL)
    block_until(lambda: leftovers.remains(directory) == [])


def _locked_by(pid: int) -> Path | None:
    """The private directory whose lock this process has open."""
    files = []
    with suppress(FileNotFoundError):  # files come and go
        files = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return next((path for path in leftovers.directories() if str(path / leftovers.LOCK) in files), None)
