"""Find generic devices: each is a path, and it is healthy while a device node is there."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase

from dray.drivers.contract import Device, Discovery, Health, Problem
from dray.drivers.generic.config import GenericConfig, GenericDevice
from dray.drivers.naming import ID_CHARACTERS, fitting, slice_name
from dray.errors import Error, NotFoundError
from dray.hardware.cgroup import read_cgroup_version
from dray.hardware.device_nodes import DeviceNode, read_device_node
from dray.hardware.facts import problem_of
from dray.hardware.host_root import Place
from dray.hardware.sweep import Sweep

KIND = "generic"
_NOT_OPENED = "this user may not open {}; the agent needs root to hand it out"
_FORBIDDEN = (
    "this user may not open {}, though it is root: the container's device cgroup or a security policy forbids it "
    "(a privileged pod may); containers get it all the same"
)


def discover(config: GenericConfig, root: Place) -> Discovery:
    """All devices by name; one that is not there is unhealthy, and the others are not disturbed by it."""
    devices: list[Device] = []
    problems: list[Problem] = []
    listed: set[str] = set()
    entries = sorted(config.devices, key=lambda entry: entry.name)
    with root.sweep() as sweep:
        permissions = read_cgroup_version(sweep).device_permissions
        for entry in entries:
            paths = _paths(sweep, entry, listed, problems) if entry.is_pattern else [entry.path]
            devices += [_look(sweep, entry, path, permissions, problems) for path in paths]
    places = tuple(sorted(entry.path for entry in entries))
    return Discovery(tuple(devices), tuple(problems), places, tuple(sorted(listed)))


def _fixed(pattern: str) -> str:
    return re.split(r"[*?[]", pattern, maxsplit=1)[0].rpartition("/")[0]


def _look(sweep: Sweep, entry: GenericDevice, path: str, permissions: str, problems: list[Problem]) -> Device:
    try:
        node = read_device_node(sweep, path)
    except NotFoundError:
        return _device(entry, path, permissions, f"{path} does not exist")
    except Error as error:
        problem = problem_of(error, path)
        problems.append(problem)
        return _device(entry, path, permissions, problem.message)
    problems += [] if node.may_open else [Problem(path, not_opened(path, is_root=os.geteuid() == 0))]
    return _device(entry, path, permissions, "", _attributes(node))


def not_opened(path: str, *, is_root: bool) -> str:
    """Why, as far as it can be known without opening the node, and what it means."""
    return (_FORBIDDEN if is_root else _NOT_OPENED).format(path)


def _device(
    entry: GenericDevice,
    path: str,
    permissions: str,
    reason: str,
    attributes: dict[str, str | int | bool] | None = None,
) -> Device:
    return Device(
        id=_id(entry, path),
        kind=KIND,
        resource=entry.resource_name,
        health=Health.UNHEALTHY if reason else Health.HEALTHY,
        reason=reason,
        label=path,
        attributes=attributes or {},
        paths=(path,),
        watch=(path,),
        shares=entry.shares,
        permissions=permissions,
        open_first=entry.pre_open,
        name=slice_name(*_names(entry, path)),
        hardware=(f"node:{path}",),
    )


def _names(entry: GenericDevice, path: str) -> tuple[str, ...]:
    """The name; of a pattern's match also the rest of its path, so that no two are the same."""
    return (
        (entry.name, path.removeprefix(_fixed(entry.path)).strip("/")) if entry.is_pattern else (entry.name,)
    )


def _id(entry: GenericDevice, path: str) -> str:
    """`kvm`; of a pattern's match `disk:nvme0n1`."""
    return fitting(":".join(_names(entry, path)), ID_CHARACTERS) if entry.is_pattern else entry.name


def _attributes(node: DeviceNode) -> dict[str, str | int | bool]:
    attributes: dict[str, str | int | bool] = {"node": node.kind.value}
    if node.major is not None and node.minor is not None:
        attributes |= {"major": node.major, "minor": node.minor}
    return attributes


def _paths(sweep: Sweep, entry: GenericDevice, listed: set[str], problems: list[Problem]) -> list[str]:
    """All that match now, sorted. `listed` gets the directories in which a new name may be a new match."""
    found = [""]
    for part in entry.path.strip("/").split("/"):
        if any(sign in part for sign in "*?["):
            listed.update(path or "/" for path in found)
            found = [f"{path}/{name}" for path in found for name in _matches(sweep, path, part, problems)]
        else:
            found = [f"{path}/{part}" for path in found]
    return sorted(path for path in found if _has(sweep, path, problems))


def _matches(sweep: Sweep, path: str, pattern: str, problems: list[Problem]) -> list[str]:
    try:
        names = sweep.names(path or "/")
    except NotFoundError:
        return []
    except Error as error:
        problems.append(problem_of(error, path))
        return []
    hidden = pattern.startswith(".")
    return [name for name in names if fnmatchcase(name, pattern) and name.startswith(".") == hidden]


def _has(sweep: Sweep, path: str, problems: list[Problem]) -> bool:
    try:
        return sweep.exists(path)
    except Error as error:
        problems.append(problem_of(error, path))
        return False
