from __future__ import annotations

import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.errors import ProtocolError
from dray.kubelet.devices.grants import Grant
from dray.kubelet.devices.run_options import merge_responses
from dray.kubelet.pods.contract import RunOptions
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    CDIDevice,
    ContainerAllocateResponse,
    DeviceSpec,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Mount as WireMount


def grant(resource: str, response: ContainerAllocateResponse | bytes) -> Grant:
    content = response if isinstance(response, bytes) else response.SerializeToString()
    return Grant("uid", "c", resource, {-1: ("d",)}, content)


def test_nothing_and_empty_answers() -> None:
    assert merge_responses([]) == RunOptions()
    assert merge_responses([grant("a/b", b""), grant("c/d", ContainerAllocateResponse())]) == RunOptions()
    assert merge_responses([Grant("uid", "c", "a/b", None, None)]) == RunOptions()


def test_the_first_one_wins() -> None:
    first = ContainerAllocateResponse(
        envs={"B": "1", "A": "0"},
        annotations={"y": "1", "x": "0"},
        devices=[
            DeviceSpec(host_path="/dev/a", container_path="/dev/x", permissions="mrw"),
            DeviceSpec(host_path="/dev/a", container_path="/dev/x", permissions="r"),
        ],
        mounts=[WireMount(host_path="/h", container_path="/m", read_only=True)],
        cdi_devices=[CDIDevice(name="v/c=1"), CDIDevice(name="v/c=2"), CDIDevice(name="v/c=1")],
    )
    second = ContainerAllocateResponse(
        envs={"B": "2", "C": "3"},
        annotations={"y": "2", "z": "3"},
        devices=[
            DeviceSpec(host_path="/dev/b", container_path="/dev/x", permissions="rw"),
            DeviceSpec(host_path="/dev/b", container_path="/dev/y", permissions="r"),
        ],
        mounts=[
            WireMount(host_path="/other", container_path="/m"),
            WireMount(host_path="/h", container_path="/n"),
        ],
        cdi_devices=[CDIDevice(name="v/c=2"), CDIDevice(name="v/c=3")],
    )
    assert merge_responses([grant("a/b", first), grant("c/d", second)]) == RunOptions(
        ContainerEdits(
            env=(("A", "0"), ("B", "1"), ("C", "3")),
            device_nodes=(DeviceNode("/dev/a", "/dev/x", "mrw"), DeviceNode("/dev/b", "/dev/y", "r")),
            mounts=(Mount("/h", "/m", True), Mount("/h", "/n", False)),
            annotations=(("x", "0"), ("y", "1"), ("z", "3")),
        ),
        ("v/c=1", "v/c=2", "v/c=3"),
    )


@pytest.mark.parametrize(
    ("device", "says"),
    [
        (DeviceSpec(host_path="/dev/a", container_path="/dev/a"), "permissions"),
        (DeviceSpec(host_path="dev/a", container_path="/dev/a", permissions="r"), "absolute"),
    ],
)
def test_what_no_container_can_have(device: DeviceSpec, says: str) -> None:
    with pytest.raises(ProtocolError, match=f"device plugin a/b answered Allocate wrongly: .*{says}"):
        merge_responses([grant("a/b", ContainerAllocateResponse(devices=[device]))])


def test_a_saved_answer_that_is_damaged() -> None:
    with pytest.raises(ProtocolError, match="saved answer of device plugin a/b for container c of pod uid"):
        merge_responses([grant("a/b", b"\xff\xff")])


@pytest.mark.parametrize(("value", "lines"), [("0", 0), ("1", 1), ("", 1)])
def test_a_contradiction_is_told_and_agreement_is_not(
    value: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = (ContainerAllocateResponse(envs={"A": text}) for text in ("0", value))
    merge_responses([grant("a/b", one), grant("c/d", other)])
    assert len(caplog.records) == lines
    assert all("contradict in one container" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}])
def test_variables_that_no_program_can_have(env: dict[str, str]) -> None:
    response = ContainerAllocateResponse(envs=env).SerializeToString()
    with pytest.raises(ProtocolError, match="answered Allocate wrongly: environment variable"):
        merge_responses([Grant("uid", "main", "example.com/x", {}, response)])
