"""`dray.testing.launcher` and KubeVirt's own virt-launcher code (`tests/e2e/tools/kubevirt`) make the same of a variable.

Compared: every pop with its error, and for random VMs the devices of `gpus` and `hostDevices` in their order, each with
its alias, bus and address, or the reason why there are none.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dray.errors import Error, NotFoundError
from dray.testing.launcher import AddressPool, Assigned, take_gpus, take_host_devices
from tests.campaign import campaign, seeded
from tests.e2e.kubevirt_program import kubevirt_program

RESOURCES = [
    "nvidia.com/GPU",
    "nvidia.com/gpu",
    "a.b/c",
    "a/b.c",
    "intel.com/x710-vf",
    "devices.kubevirt.io/x_y",
]
"""Some pairs share a variable: case, dots and slashes are lost in its name."""
PREFIXES = ["PCI_RESOURCE", "MDEV_PCI_RESOURCE", "USB_RESOURCE"]
GOOD = {
    "PCI_RESOURCE": ["0000:05:00.0", "0000:0C:1f.7", "0000:e1:00.0", "ffff:FF:ff.0"],
    "MDEV_PCI_RESOURCE": [f"b8a1e1a0-0000-4000-8000-00000000000{digit}" for digit in range(4)],
    "USB_RESOURCE": ["1:2", "1:3", "2:11", "003:004"],
}
BAD = [
    "",
    " ",
    "1",
    "1:2:3",
    ":",
    "0000:05:00.8",
    "05:00.0",
    "0000:05:00.0 ",
    "10000:05:00.0",
    "ä",
    "\n0000:05:00.0",
]
REASONS = {
    "do not match the number of devices": "number",
    "failed to parse pci address": "pci",
    "bad value": "usb",
}

Case = dict[str, Any]


@pytest.fixture(scope="module")
def oracle() -> Path:
    return kubevirt_program()


def variable(prefix: str, resource: str) -> str:
    return prefix + "_" + resource.upper().replace("/", "_").replace(".", "_")


def addresses(rng: random.Random, prefix: str, bad: float) -> str:
    some = [
        rng.choice(BAD) if rng.random() < bad else rng.choice(GOOD[prefix]) for _ in range(rng.randrange(5))
    ]
    return ",".join(some) + rng.choice(["", "", ",", ",,"])


def random_case(rng: random.Random) -> Case:
    """A machine's variables and a VM. In every third case all addresses are good."""
    bad = rng.choice([0, 0.1, 0.5])
    known = rng.sample(RESOURCES, rng.randrange(1, len(RESOURCES)))
    environment = {
        variable(prefix, resource): addresses(rng, prefix, bad)
        for resource in known
        for prefix in PREFIXES
        if rng.random() < 0.4
    }
    wanted = [rng.choice(rng.choice([known, RESOURCES])) for _ in range(rng.randrange(5))]
    return {
        "environment": environment,
        "prefix": rng.choice(PREFIXES),
        "pops": [rng.choice(RESOURCES) for _ in range(rng.randrange(8))],
        "entries": [{"name": f"d{number}", "deviceName": name} for number, name in enumerate(wanted)],
    }


def fitting_case(rng: random.Random) -> Case:
    """A VM that gets what it asks for: one good address an entry, in a variable of one bus, and none given twice."""
    left = {prefix: rng.sample(GOOD[prefix], 4) for prefix in PREFIXES}
    case = random_case(rng)
    case["environment"], wanted = {}, []
    for resource in rng.sample(["x.io/a", "x.io/b", "x.io/c"], 2):
        prefix, count = rng.choice(PREFIXES), rng.randrange(1, 3)
        case["environment"][variable(prefix, resource)] = ",".join(left[prefix].pop() for _ in range(count))
        wanted += [resource] * count
    rng.shuffle(wanted)
    case["entries"] = [{"name": f"d{number}", "deviceName": name} for number, name in enumerate(wanted)]
    return case


def our_pops(case: Case) -> list[dict[str, str]]:
    pool = AddressPool(case["prefix"], case["pops"], case["environment"])
    found = []
    for resource in case["pops"]:
        try:
            found.append({"address": pool.pop(resource), "error": ""})
        except NotFoundError as error:
            found.append({"address": "", "error": str(error)})
    return found


def our_outcome(
    take: Callable[[dict[str, str], dict[str, str]], list[Assigned]], alias: str, case: Case
) -> dict[str, Any]:
    entries = {entry["name"]: entry["deviceName"] for entry in case["entries"]}
    try:
        taken = take(entries, case["environment"])
    except Error as error:
        return {"devices": [], "error": reason(str(error))}
    devices = [
        {
            "alias": ("usb-host-" if one.bus == "usb" else alias) + one.name,
            "type": one.bus,
            "address": one.address,
        }
        for one in taken
    ]
    return {"devices": devices, "error": ""}


def reason(text: str) -> str:
    """Which rule an error speaks of; KubeVirt's text goes on with whole objects."""
    found = [short for phrase, short in REASONS.items() if phrase in text.lower()]
    assert len(found) == (1 if text else 0), text
    return found[0] if found else ""


def our_answer(case: Case) -> dict[str, Any]:
    return {
        "pops": our_pops(case),
        "gpus": our_outcome(take_gpus, "gpu-", case),
        "hostDevices": our_outcome(take_host_devices, "hostdevice-", case),
    }


def their_answers(oracle: Path, cases: list[Case]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(
        [oracle, "launcher"], input=lines, capture_output=True, text=True, check=True, timeout=300
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for answer in answers:
        for key in ("gpus", "hostDevices"):
            answer[key]["error"] = reason(answer[key]["error"])
    return answers


@pytest.mark.parametrize("make", [random_case, fitting_case])
def test_random_cases(oracle: Path, make: Callable[[random.Random], Case]) -> None:
    rng = seeded(7)
    cases = [make(rng) for _ in range(campaign(300, 20_000))]
    theirs = their_answers(oracle, cases)
    assert len(theirs) == len(cases)
    for case, their in zip(cases, theirs, strict=True):
        assert our_answer(case) == their, json.dumps(case)
    seen = {their["hostDevices"]["error"] for their in theirs}  # or the cases would show little
    assert seen == ({"", "number", "pci", "usb"} if make is random_case else {""})
    assert any(len(their["hostDevices"]["devices"]) > 1 for their in theirs)
    assert make is fitting_case or any(pop["error"] for their in theirs for pop in their["pops"])
