from __future__ import annotations

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.deviceplugin.allocate import to_response
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse


def test_every_part_of_the_edits_reaches_the_kubelet() -> None:
    edits = ContainerEdits(
        env=(("A", "1"), ("B", "")),
        device_nodes=(DeviceNode("/dev/nvidia0", "/dev/gpu", "rw"),),
        mounts=(Mount("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", read_only=True),),
        annotations=(("cdi.k8s.io/plugin_x", "nvidia.com/gpu=0"),),
        cdi_devices=("nvidia.com/gpu=1", "nvidia.com/gpu=0"),
    )
    answer = ContainerAllocateResponse.FromString(to_response(edits).SerializeToString())
    assert dict(answer.envs) == {"A": "1", "B": ""}
    assert [(one.host_path, one.container_path, one.permissions) for one in answer.devices] == [
        ("/dev/nvidia0", "/dev/gpu", "rw")
    ]
    assert [(one.host_path, one.container_path, one.read_only) for one in answer.mounts] == [
        ("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", True)
    ]
    assert dict(answer.annotations) == {"cdi.k8s.io/plugin_x": "nvidia.com/gpu=0"}
    assert [one.name for one in answer.cdi_devices] == ["nvidia.com/gpu=1", "nvidia.com/gpu=0"]
    assert len(edits.__struct_fields__) == len(ContainerAllocateResponse.DESCRIPTOR.fields)
