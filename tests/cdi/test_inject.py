from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from dray.cdi.host import HostNode
from dray.cdi.inject import apply_edits, combine, inject
from dray.cdi.registry import LoadedFile, Registry, build_registry
from dray.cdi.spec import (
    Edits,
    HookEdit,
    MountEdit,
    NetDeviceEdit,
    NodeEdit,
    RdtEdit,
    Spec,
    SpecDevice,
    read_spec,
)
from dray.cdi.validate import file_faults
from dray.errors import Error, HardwareError, InvalidError
from tests.campaign import seeds
from tests.cdi.generate import Generator, as_text

HOST = {
    "/dev/c": HostNode("c", 10, 20, 0o660),
    "/dev/b": HostNode("b", 8, 1, 0o600),
    "/dev/p": HostNode("p", 0, 0, 0o644),
    "/etc/file": HostNode("", 0, 0, 0o644),
}


def edited(edits: Edits, oci: dict[str, Any] | None = None) -> dict[str, Any]:
    return apply_edits(oci or {}, edits, HOST.get)


def nodes(*made: NodeEdit, oci: dict[str, Any] | None = None) -> tuple[list[Any], list[Any]]:
    linux = edited(Edits(device_nodes=made), oci)["linux"]
    return linux["devices"], linux.get("resources", {}).get("devices", [])


def registry(*specs: Spec) -> Registry:
    return build_registry(LoadedFile(Path(f"/cdi/{number}"), 0, spec) for number, spec in enumerate(specs))


def test_variables_replace_in_place_or_are_added() -> None:
    oci = {"process": {"env": ["A=0", "B=0", "A=1", "C"], "cwd": "/"}}
    made = edited(Edits(env=("A=x", "D=y", "D=z", "C=1")), oci)
    assert made == {"process": {"env": ["A=0", "B=0", "A=x", "C=1", "D=z"], "cwd": "/"}}
    assert edited(Edits(env=("A=1",))) == {"process": {"env": ["A=1"]}}


def test_nodes_are_filled_from_the_host() -> None:
    devices, rules = nodes(
        NodeEdit("/dev/x", "/dev/c"), NodeEdit("/dev/b", permissions="r"), NodeEdit("/dev/p")
    )
    assert devices == [
        {"path": "/dev/x", "type": "c", "major": 10, "minor": 20, "fileMode": 0o660},
        {"path": "/dev/b", "type": "b", "major": 8, "minor": 1, "fileMode": 0o600},
        {"path": "/dev/p", "type": "p", "major": 0, "minor": 0, "fileMode": 0o644},
    ]
    assert rules == [
        {"allow": True, "type": "c", "major": 10, "minor": 20, "access": "rwm"},
        {"allow": True, "type": "b", "major": 8, "minor": 1, "access": "r"},
    ]


def test_what_the_file_says_wins() -> None:
    said = NodeEdit("/dev/x", "/dev/c", "b", 5, 6, 0o400, "none", 0, 9)
    oci = {"process": {"user": {"uid": 1000, "gid": 100}}}
    devices, rules = nodes(said, NodeEdit("/dev/c"), oci=oci)
    assert devices[0] == {
        "path": "/dev/x",
        "type": "b",
        "major": 5,
        "minor": 6,
        "fileMode": 0o400,
        "uid": 0,
        "gid": 9,
    }
    assert (devices[1]["uid"], devices[1]["gid"]) == (1000, 100)
    assert rules[0] == {"allow": True, "type": "b", "major": 5, "minor": 6}


def test_the_number_is_the_hosts_where_only_the_type_is_said() -> None:
    devices, _ = nodes(NodeEdit("/dev/c", type="c", minor=7), NodeEdit("/dev/y", "/dev/c", major=3, minor=4))
    assert [(one["major"], one["minor"]) for one in devices] == [(10, 20), (3, 4)]


def test_a_node_that_is_said_whole_need_not_be_there() -> None:
    devices, rules = nodes(NodeEdit("/dev/later", type="c", major=7), NodeEdit("/dev/pipe", type="p"))
    assert [one.get("fileMode") for one in devices] == [None, None]
    assert len(rules) == 1


def test_all_nodes_that_are_not_as_they_should_be_are_named() -> None:
    wrong = (
        NodeEdit("/dev/none"),
        NodeEdit("/etc/file"),
        NodeEdit("/dev/x", "/dev/c", type="b"),
        NodeEdit("/dev/c"),
    )
    with pytest.raises(HardwareError) as refused:
        nodes(*wrong)
    assert str(refused.value) == (
        "cannot inject CDI device nodes: /dev/none does not exist on the host; "
        "/etc/file is not a device node; /dev/c is of type c on the host, not b"
    )
    assert refused.value.path == "/dev/none"


def test_a_node_replaces_one_of_its_path_and_a_rule_is_given_once() -> None:
    base: dict[str, Any] = {
        "linux": {
            "devices": [{"path": "/dev/c", "type": "c", "major": 1, "minor": 1}, {"path": "/dev/z"}],
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "memory": {"limit": 5}},
        }
    }
    devices, rules = nodes(
        NodeEdit("/dev/c"), NodeEdit("/dev/c"), NodeEdit("/dev/c", permissions="r"), oci=base
    )
    assert [one["path"] for one in devices] == ["/dev/z", "/dev/c"]
    assert [one["access"] for one in rules] == ["rwm", "rwm", "r"]


def test_mounts_replace_and_are_in_order_of_depth() -> None:
    base = {
        "mounts": [
            {"destination": "/a/b/c"},
            {"destination": "/x", "source": "old"},
            {"destination": "/proc"},
        ]
    }
    made = edited(Edits(mounts=(MountEdit("/h", "/x", ("ro",), "bind"), MountEdit("/h", "/a//b/../d"))), base)
    assert made["mounts"] == [
        {"destination": "/proc"},
        {"destination": "/x", "type": "bind", "source": "/h", "options": ["ro"]},
        {"destination": "/a//b/../d", "source": "/h"},
        {"destination": "/a/b/c"},
    ]


@pytest.mark.parametrize(
    ("mount", "options"),
    [
        (MountEdit("/a", "/b", ("ro", "bind")), ["ro", "bind", "idmap"]),
        (MountEdit("/a", "/b", ("rbind",)), ["rbind", "ridmap"]),
        (MountEdit("/a", "/b", ("rbind", "bind")), ["rbind", "bind", "idmap"]),
        (MountEdit("/a", "/b", ("bind", "ridmap")), ["bind", "ridmap"]),
        (MountEdit("/a", "/b", type="bind"), ["idmap"]),
        (MountEdit("/a", "/b", ("ro",), "tmpfs"), ["ro"]),
    ],
)
def test_bind_mounts_map_ids_in_a_user_namespace(mount: MountEdit, options: list[str]) -> None:
    base = {"linux": {"namespaces": [{"type": "mount"}, {"type": "user"}]}}
    assert edited(Edits(mounts=(mount,)), base)["mounts"][0]["options"] == options
    assert edited(Edits(mounts=(mount,)))["mounts"][0].get("options", []) == list(mount.options)


def test_hooks_groups_interfaces_and_cache() -> None:
    base = {"hooks": {"prestart": [{"path": "/old"}]}, "process": {"user": {"additionalGids": [5]}}}
    made = edited(
        Edits(
            hooks=(HookEdit("prestart", "/new", ("a",), ("B=1",), 3), HookEdit("poststop", "/end")),
            additional_gids=(0, 5, 6, 6),
            net_devices=(NetDeviceEdit("eth1", "net0"), NetDeviceEdit("eth1", "net1")),
            intel_rdt=RdtEdit("x", schemata=("s",)),
        ),
        base,
    )
    assert made["hooks"] == {
        "prestart": [{"path": "/old"}, {"path": "/new", "args": ["a"], "env": ["B=1"], "timeout": 3}],
        "poststop": [{"path": "/end"}],
    }
    assert made["process"]["user"]["additionalGids"] == [5, 6]
    assert made["linux"] == {
        "netDevices": {"eth1": {"name": "net1"}},
        "intelRdt": {"closID": "x", "schemata": ["s"]},
    }


def test_edits_of_a_spec_come_once_before_its_first_device() -> None:
    def spec(kind: str) -> Spec:
        devices = [SpecDevice(name, Edits(env=(f"{kind}={name}",), intel_rdt=RdtEdit(name))) for name in "ab"]
        return Spec("1.0.0", f"{kind}/x", tuple(devices), Edits(env=(f"{kind}=all",)))

    known = registry(spec("V"), spec("W"))
    combined = combine(known.resolve(["V/x=b", "W/x=a", "V/x=a", "V/x=b"]))
    assert combined.env == ("V=all", "V=b", "W=all", "W=a", "V=a")
    assert combined.intel_rdt == RdtEdit("a")


def test_nothing_is_applied_unless_all_can_be() -> None:
    known = registry(Spec("1.0.0", "v/c", (SpecDevice("a", Edits(env=("A=1",))),)))
    oci: dict[str, Any] = {"process": {"env": []}}
    with pytest.raises(InvalidError, match="unresolvable CDI devices v/c=x, v/c=y: "):
        inject(oci, known, ["v/c=x", "v/c=a", "v/c=y"], HOST.get)
    assert inject(oci, known, ["v/c=a"], HOST.get) == {"process": {"env": ["A=1"]}}
    assert oci == {"process": {"env": []}}


@pytest.mark.parametrize(
    ("oci", "field"),
    [
        ({"process": []}, "process"),
        ({"process": {"env": {}}}, "process.env"),
        ({"process": {"user": 5}}, "process.user"),
        ({"linux": ""}, "linux"),
        ({"linux": {"resources": []}}, "linux.resources"),
        ({"linux": {"resources": {"devices": {}}}}, "linux.resources.devices"),
        ({"mounts": {}}, "mounts"),
        ({"hooks": []}, "hooks"),
    ],
)
def test_an_oci_spec_of_the_wrong_form(oci: dict[str, Any], field: str) -> None:
    edits = Edits(
        env=("A=1",),
        device_nodes=(NodeEdit("/dev/c"),),
        mounts=(MountEdit("/a", "/b"),),
        hooks=(HookEdit("prestart", "/x"),),
        additional_gids=(5,),
    )
    with pytest.raises(InvalidError, match=f"OCI spec: {field} must be a (map|list)"):
        edited(edits, oci)


def test_random_specs_change_nothing_but_the_copy() -> None:
    """And a second injection changes only what adds up: hooks and rules."""
    applied = 0
    for seed in seeds(200, 5_000):
        generator = Generator(seed, 0.01)
        read = read_spec(as_text(generator.spec()), "f")
        oci = generator.container()
        if file_faults(read):
            continue
        before, known = copy.deepcopy(oci), registry(read.spec)
        try:
            made = inject(oci, known, known.devices, HOST.get)
            again = inject(made, known, known.devices, HOST.get)
        except Error as error:
            assert isinstance(error, HardwareError)
            continue
        finally:
            assert oci == before
        applied += 1
        assert again["mounts"] == made["mounts"] if "mounts" in made else "mounts" not in again
        assert again.get("process") == made.get("process")
        assert _by_path(again) == _by_path(made)
    assert applied > 10


def _by_path(oci: dict[str, Any]) -> list[str]:
    return sorted(str(one) for one in oci.get("linux", {}).get("devices", []))
