from __future__ import annotations

import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.cdi.spec import (
    Edits,
    Fault,
    HookEdit,
    MountEdit,
    NetDeviceEdit,
    NodeEdit,
    RdtEdit,
    Spec,
    SpecDevice,
    read_spec,
    spec_edits,
    to_document,
)
from dray.errors import InvalidError

WHOLE = """\
cdiVersion: 1.1.0
kind: example.com/gpu
annotations: {a: b}
containerEdits:
  env: [A=1]
devices:
- name: 0
  annotations: {c: 5}
  containerEdits:
    deviceNodes:
    - {path: /dev/x, hostPath: /dev/y, type: c, major: 1, minor: 2, fileMode: 0660, permissions: rw, uid: 0, gid: 7}
    netDevices: [{hostInterfaceName: eth1, name: net0}]
    hooks: [{hookName: prestart, path: /bin/h, args: [h], env: [B=2], timeout: 5}]
    mounts: [{hostPath: /a, containerPath: /b, options: [ro], type: bind}]
    intelRdt: {closID: x, l3CacheSchema: l, memBwSchema: m, schemata: [s], enableMonitoring: true}
    additionalGids: [1, 2]
"""


def test_every_field_is_read() -> None:
    read = read_spec(WHOLE, "f")
    edits = Edits(
        device_nodes=(NodeEdit("/dev/x", "/dev/y", "c", 1, 2, 0o660, "rw", 0, 7),),
        net_devices=(NetDeviceEdit("eth1", "net0"),),
        hooks=(HookEdit("prestart", "/bin/h", ("h",), ("B=2",), 5),),
        mounts=(MountEdit("/a", "/b", ("ro",), "bind"),),
        intel_rdt=RdtEdit("x", "l", "m", ("s",), True),
        additional_gids=(1, 2),
    )
    expected = Spec(
        "1.1.0", "example.com/gpu", (SpecDevice("0", edits, {"c": "5"}),), Edits(env=("A=1",)), {"a": "b"}
    )
    assert (read.spec, read.faults, read.more_at) == (expected, (), 0)


def test_what_is_written_is_what_was_read() -> None:
    document = to_document(read_spec(WHOLE, "f").spec)
    assert list(document) == ["cdiVersion", "kind", "devices", "containerEdits", "annotations"]
    assert document["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/x", "hostPath": "/dev/y", "type": "c", "major": 1, "minor": 2, "fileMode": 432}
        | {"permissions": "rw", "uid": 0, "gid": 7}
    ]
    assert document["devices"][0]["containerEdits"]["intelRdt"]["closID"] == "x"


def test_faults_have_file_line_and_field() -> None:
    read = read_spec("kind: a/b\ndevices:\n- name: x\n  containerEdit: {}\n", "/etc/cdi/x.yaml")
    assert [str(fault) for fault in read.faults] == [
        '/etc/cdi/x.yaml:4: devices[0].containerEdit: unknown field: did you mean "containerEdits"?'
    ]
    assert str(Fault("f", 0, "", "text")) == "f: text"
    assert str(Fault("f", 2, "a[x\ny]", "text")) == "f:2: a[x\\ny]: text"


@pytest.mark.parametrize("text", ["null", "[]", "word", "5"])
def test_a_spec_is_a_map(text: str) -> None:
    with pytest.raises(InvalidError, match="f:1: a CDI spec must be a map"):
        read_spec(text, "f")


def test_what_a_driver_gives() -> None:
    parcel = ContainerEdits(
        env=(("A", "1"),),
        device_nodes=(DeviceNode("/dev/x", "/dev/x"), DeviceNode("/dev/y", "/dev/z", "r")),
        mounts=(Mount("/a", "/b", read_only=True), Mount("/c", "/d")),
    )
    assert spec_edits(parcel) == Edits(
        env=("A=1",),
        device_nodes=(NodeEdit("/dev/x", permissions="rw"), NodeEdit("/dev/z", "/dev/y", permissions="r")),
        mounts=(
            MountEdit("/a", "/b", ("rbind", "rprivate", "ro")),
            MountEdit("/c", "/d", ("rbind", "rprivate", "rw")),
        ),
    )
    with pytest.raises(InvalidError, match="annotations cannot be given through CDI: note"):
        spec_edits(ContainerEdits(annotations=(("note", "x"),)))
