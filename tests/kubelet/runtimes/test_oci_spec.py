from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.cdi.edits import DeviceNode, Mount
from dray.cdi.host import HostNode
from dray.errors import HardwareError, InvalidError
from dray.kubelet.runtimes.capabilities import ALL_CAPABILITIES, DEFAULT_CAPABILITIES
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, Profile, Security
from dray.kubelet.runtimes.oci_spec import (
    DEFAULT_PATH,
    ImageConfig,
    Place,
    command_line,
    environment,
    make_spec,
)
from dray.kubelet.runtimes.users import Owner

CONFIG = ContainerConfig(PodIdentity("u", "ns", "p"), "c", "img", Path("/log"), command=("run",))
PLAIN = ImageConfig()
PLACE = Place("/root", "/group", {"network": "/n", "ipc": "/i"})
HOST = {
    "/dev/a": HostNode("c", 10, 1, 0o660, 0, 44),
    "/dev/b": HostNode("b", 8, 0, 0o600),
    "/dev/f": HostNode(""),
}


def spec(config: ContainerConfig = CONFIG, image: ImageConfig = PLAIN) -> dict[str, Any]:
    return make_spec(config, image, Owner(5, 6, (6, 7)), PLACE, HOST.get)


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), ["entry", "cmd"]),
        ((), ("a",), ["entry", "a"]),
        (("x",), (), ["x"]),
        (("x",), ("a",), ["x", "a"]),
    ],
)
def test_command_line(command: tuple[str, ...], args: tuple[str, ...], expected: list[str]) -> None:
    image = ImageConfig(entrypoint=("entry",), cmd=("cmd",))
    assert command_line(replace(CONFIG, command=command, args=args), image) == expected


def test_no_command_at_all() -> None:
    with pytest.raises(InvalidError, match="neither the pod nor image img"):
        command_line(replace(CONFIG, command=()), ImageConfig())


def test_environment_keeps_order_and_the_last_value() -> None:
    assert environment(("A=1", "B=2"), (("C", "3"), ("A", "4"), ("C", "5"))) == [
        DEFAULT_PATH,
        "A=4",
        "B=2",
        "C=5",
    ]
    assert environment(("PATH=/x",), ()) == ["PATH=/x"]


def test_process_and_namespaces() -> None:
    made = spec(replace(CONFIG, working_dir="/w"), ImageConfig(working_dir="/i"))
    process = made["process"]
    assert process["user"] == {"uid": 5, "gid": 6, "additionalGids": [6, 7]}
    assert (process["cwd"], process["terminal"], process["noNewPrivileges"]) == ("/w", False, False)
    assert process["capabilities"]["bounding"] == sorted(DEFAULT_CAPABILITIES)
    assert "inheritable" not in process["capabilities"]
    assert made["linux"]["namespaces"] == [
        {"type": "pid"},
        {"type": "mount"},
        {"type": "ipc", "path": "/i"},
        {"type": "network", "path": "/n"},
    ]
    assert "/proc/kcore" in made["linux"]["maskedPaths"]
    assert "/proc/sys" in made["linux"]["readonlyPaths"]


def test_devices_have_the_hosts_numbers_owner_and_mode_and_a_rule_each() -> None:
    nodes = (DeviceNode("/dev/a", "/dev/x", "wr"), DeviceNode("/dev/b", "/dev/b", "r"))
    linux = spec(replace(CONFIG, device_nodes=nodes))["linux"]
    assert linux["devices"] == [
        {"path": "/dev/x", "type": "c", "major": 10, "minor": 1, "fileMode": 0o660, "uid": 0, "gid": 44},
        {"path": "/dev/b", "type": "b", "major": 8, "minor": 0, "fileMode": 0o600, "uid": 0, "gid": 0},
    ]
    assert linux["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "major": 10, "minor": 1, "access": "rw"},
        {"allow": True, "type": "b", "major": 8, "minor": 0, "access": "r"},
    ]


@pytest.mark.parametrize("privileged", [False, True])
def test_no_node_belongs_to_the_containers_user(privileged: bool) -> None:
    """A privileged container gets all nodes of the host: as user 1000 it may open those that user 1000 of the host may."""
    security = Security(user=5, privileged=privileged)
    config = replace(CONFIG, security=security, device_nodes=(DeviceNode("/dev/b", "/dev/b"),))
    (node,) = spec(config)["linux"]["devices"]
    assert (node["uid"], node["gid"], node["fileMode"]) == (0, 0, 0o600)


def test_one_path_named_twice_is_one_node() -> None:
    nodes = (DeviceNode("/dev/a", "/dev/x"), DeviceNode("/dev/b", "/dev/x"))
    assert [one["type"] for one in spec(replace(CONFIG, device_nodes=nodes))["linux"]["devices"]] == ["b"]


@pytest.mark.parametrize(
    ("path", "text"), [("/dev/no", "does not exist"), ("/dev/f", "is not a device node")]
)
def test_a_device_that_is_none(path: str, text: str) -> None:
    with pytest.raises(HardwareError, match=f"{path} {text}"):
        spec(replace(CONFIG, device_nodes=(DeviceNode(path, path),)))


def test_mounts_in_order_of_depth_and_the_pods_win() -> None:
    mounts = (Mount("/h/deep", "/a/b/c", read_only=True), Mount("/h/a", "/a"), Mount("/h/shm", "/dev/shm/"))
    made = spec(replace(CONFIG, mounts=mounts))["mounts"]
    places = [one["destination"] for one in made]
    assert places.index("/a") < places.index("/a/b/c")
    assert places.index("/sys") < places.index("/sys/fs/cgroup")
    assert places.count("/dev/shm") == 1
    by_place = {one["destination"]: one for one in made}
    assert by_place["/dev/shm"]["source"] == "/h/shm"
    assert by_place["/a/b/c"]["options"] == ["rbind", "rprivate", "ro"]
    assert by_place["/a"]["options"] == ["rbind", "rprivate", "rw"]


def test_limits() -> None:
    made = spec(replace(CONFIG, cpu_shares=512, cpu_quota=50_000, memory_limit=1 << 20))
    resources = made["linux"]["resources"]
    assert resources["cpu"] == {"shares": 512, "quota": 50_000, "period": 100_000}
    assert resources["memory"] == {"limit": 1 << 20}
    assert set(spec()["linux"]["resources"]) == {"devices"}


def test_a_memory_limit_is_no_way_to_swap() -> None:
    limited = replace(CONFIG, memory_limit=1 << 20)
    place = replace(PLACE, can_limit_swap=True)
    made = make_spec(limited, PLAIN, Owner(5, 6, ()), place, HOST.get)
    assert made["linux"]["resources"]["memory"] == {"limit": 1 << 20, "swap": 1 << 20}
    free = make_spec(CONFIG, PLAIN, Owner(5, 6, ()), place, HOST.get)
    assert "memory" not in free["linux"]["resources"]


def test_privileged_hides_nothing() -> None:
    made = spec(replace(CONFIG, security=Security(privileged=True, no_new_privileges=True)))
    assert made["linux"]["maskedPaths"] == made["linux"]["readonlyPaths"] == []
    assert made["linux"]["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert made["process"]["capabilities"]["effective"] == sorted(ALL_CAPABILITIES)
    assert made["process"]["noNewPrivileges"] is False
    assert all("ro" not in one["options"] for one in made["mounts"] if one["destination"].startswith("/sys"))


def test_seccomp_as_kubernetes_means_it() -> None:
    assert "seccomp" not in spec()["linux"]
    default = Security(seccomp=Profile("RuntimeDefault"))
    assert spec(replace(CONFIG, security=default))["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
    assert "seccomp" not in spec(replace(CONFIG, security=replace(default, privileged=True)))["linux"]
    own = replace(PLACE, seccomp={"defaultAction": "SCMP_ACT_KILL"})
    local = replace(CONFIG, security=Security(seccomp=Profile("Localhost", "x.json")))
    made = make_spec(local, PLAIN, Owner(5, 6, (6,)), own, HOST.get)
    assert made["linux"]["seccomp"] == {"defaultAction": "SCMP_ACT_KILL"}


def test_apparmor_is_given_or_refused() -> None:
    local = Security(apparmor=Profile("Localhost", "mine"))
    assert spec(replace(CONFIG, security=local))["process"]["apparmorProfile"] == "mine"
    assert "apparmorProfile" not in spec()["process"]
    with pytest.raises(InvalidError, match="runc has no default profile"):
        spec(replace(CONFIG, security=Security(apparmor=Profile("RuntimeDefault"))))
