from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.drivers.sim.config import SimFault
from dray.drivers.sim.health import look, phase
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock
from tests.campaign import campaign, seeded


@pytest.mark.parametrize(
    ("fault", "elapsed", "expected"),
    [
        (SimFault(), 0, (True, None)),
        (SimFault(after_seconds=5), 0, (False, 5)),
        (SimFault(after_seconds=5), 4.5, (False, 0.5)),
        (SimFault(after_seconds=5), 5, (True, None)),
        (SimFault(after_seconds=5), 1e9, (True, None)),
        (SimFault(after_seconds=5, for_seconds=10), 5, (True, 10)),
        (SimFault(after_seconds=5, for_seconds=10), 14, (True, 1)),
        (SimFault(after_seconds=5, for_seconds=10), 15, (False, None)),
        (SimFault(after_seconds=5, for_seconds=10, every_seconds=60), 15, (False, 50)),
        (SimFault(after_seconds=5, for_seconds=10, every_seconds=60), 65, (True, 10)),
        (SimFault(after_seconds=5, for_seconds=10, every_seconds=60), 75, (False, 50)),
        (SimFault(for_seconds=10, every_seconds=60), 0, (True, 10)),
    ],
)
def test_phase(fault: SimFault, elapsed: float, expected: tuple[bool, float | None]) -> None:
    assert phase(fault, elapsed) == expected


def test_looking_when_told_sees_every_change(tmp_path: Path) -> None:
    """Whatever the numbers: each look moves time on, and no state is passed over or seen for too long."""
    rng = seeded(7)
    root = HostRoot(tmp_path)
    for _ in range(campaign(30, 2_000)):
        for_seconds = rng.uniform(0.1, 5)
        every = for_seconds + rng.uniform(0.1, 5)
        after = rng.uniform(0, 3)
        fault = SimFault(device="g-0", after_seconds=after, for_seconds=for_seconds, every_seconds=every)
        elapsed = 0.0
        states: list[tuple[float, bool]] = []
        for _ in range(40):
            found = look([fault], root, elapsed)
            assert found.again_in is not None
            if not states or states[-1][1] != bool(found.reasons):
                states.append((elapsed, bool(found.reasons)))
            assert elapsed + found.again_in > elapsed
            elapsed += found.again_in
        for number, (seen, _) in enumerate(states[1:]):
            due = after + number // 2 * every + number % 2 * for_seconds
            assert due - 1e-6 <= seen <= due + 0.002
        assert len(states) >= 20


async def test_the_soonest_change_of_several_counts(tmp_path: Path) -> None:
    faults = [
        SimFault(device="a-0", after_seconds=5, for_seconds=10, reason="XID 79"),
        SimFault(device="a-0", after_seconds=8, reason="XID 48"),
        SimFault(device="b-0", after_seconds=9, gone=True),
    ]
    clock, told = FakeClock(), []
    for _ in range(6):
        found = look(faults, HostRoot(tmp_path), clock.monotonic())
        told.append((clock.monotonic(), found.reasons, found.gone))
        if found.again_in is None:
            break
        await clock.advance(found.again_in)
    assert told == [
        (0, {}, set()),
        (5, {"a-0": "XID 79"}, set()),
        (8, {"a-0": "XID 79"}, set()),
        (9, {"a-0": "XID 79"}, {"b-0"}),
        (15, {"a-0": "XID 48"}, {"b-0"}),
    ]


PATH = "/run/faults/gpu-0"


def reason_of(tmp_path: Path, fault: SimFault) -> str | None:
    found = look([fault], HostRoot(tmp_path), 0)
    assert found.again_in is None
    return found.reasons.get("gpu-0")


@pytest.mark.parametrize(
    ("content", "reason", "told"),
    [
        (b"XID 79\nmore\n", "", "XID 79"),
        (b"", "", f"{PATH} exists"),
        (b"\nsecond line", "", f"{PATH} exists"),
        (b"", "unplugged", "unplugged"),
        (b"XID 79", "unplugged", "XID 79"),
        (b"\x1b[1mred", "", "\N{REPLACEMENT CHARACTER}[1mred"),
        (b"x" * 1000, "", "x" * 200),
    ],
)
def test_a_file_and_its_first_line(tmp_path: Path, content: bytes, reason: str, told: str) -> None:
    fault = SimFault(device="gpu-0", while_file=PATH, reason=reason)
    assert reason_of(tmp_path, fault) is None, "not even the directory is there"
    file = tmp_path / PATH[1:]
    file.parent.mkdir(parents=True)
    assert reason_of(tmp_path, fault) is None
    file.write_bytes(content)
    assert reason_of(tmp_path, fault) == told
    file.unlink()
    assert reason_of(tmp_path, fault) is None


@pytest.mark.parametrize("what", ["junk", "directory", "fifo", "huge", "loop"])
def test_whatever_is_there_is_a_fault_and_told(tmp_path: Path, what: str) -> None:
    file = tmp_path / PATH[1:]
    file.parent.mkdir(parents=True)
    if what == "directory":
        file.mkdir()
    elif what == "fifo":
        os.mkfifo(file)
    elif what == "loop":
        file.symlink_to(file.name)
    else:
        file.write_bytes(b"\xff\xfe" if what == "junk" else b"x" * 100_000)
    found = look([SimFault(device="gpu-0", while_file=PATH)], HostRoot(tmp_path), 0)
    assert PATH in found.reasons["gpu-0"]
    assert [problem.path for problem in found.problems] == [PATH]


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    (root / "run/x").symlink_to(outside)
    found = look([SimFault(device="gpu-0", while_file="/run/x")], HostRoot(root), 0)
    assert found.reasons == {}


def test_a_device_that_is_gone_while_a_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("XID 79")
    found = look([SimFault(device="gpu-0", while_file="/x", gone=True)], HostRoot(tmp_path), 0)
    assert (found.gone, found.reasons) == ({"gpu-0"}, {})
