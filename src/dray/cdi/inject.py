"""CDI devices into a container's OCI spec. Pure: the host's nodes come through a `stat` that is given.

Fields of the OCI spec that are not touched stay as they are, also unknown ones.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from dray.cdi.host import HostNode, Stat
from dray.cdi.registry import FoundDevice, Registry
from dray.cdi.spec import Edits, MountEdit, NodeEdit, to_document
from dray.cdi.validate import NO_PERMISSIONS
from dray.errors import HardwareError, InvalidError

OciSpec = dict[str, Any]

_ALL_PERMISSIONS: Final = "rwm"
_PIPE: Final = "p"


def inject(oci: Mapping[str, Any], registry: Registry, names: Iterable[str], stat: Stat) -> OciSpec:
    """A copy of the OCI spec with these devices. Nothing is applied unless all can be.

    InvalidError names all devices that are unknown, or the field of the OCI spec that has the wrong form;
    HardwareError all device nodes that the host does not have, or has otherwise.
    """
    return apply_edits(oci, combine(registry.resolve(names)), stat)


def combine(devices: Sequence[FoundDevice]) -> Edits:
    """The edits of all devices in order: those of a spec once, before the first of its devices."""
    parts: list[Edits] = []
    seen: set[str] = set()
    for found in devices:
        if str(found.path) not in seen:
            seen.add(str(found.path))
            parts.append(found.spec.container_edits)
        parts.append(found.device.container_edits)
    return Edits(
        env=tuple(one for part in parts for one in part.env),
        device_nodes=tuple(one for part in parts for one in part.device_nodes),
        net_devices=tuple(one for part in parts for one in part.net_devices),
        hooks=tuple(one for part in parts for one in part.hooks),
        mounts=tuple(one for part in parts for one in part.mounts),
        intel_rdt=next((part.intel_rdt for part in reversed(parts) if part.intel_rdt is not None), None),
        additional_gids=tuple(one for part in parts for one in part.additional_gids),
    )


def apply_edits(oci: Mapping[str, Any], edits: Edits, stat: Stat) -> OciSpec:
    """A copy of the OCI spec with the edits. What is there under the same name, path or destination gives way."""
    nodes = filled_nodes(edits.device_nodes, stat)
    spec = copy.deepcopy(dict(oci))
    if edits.env:
        _set_env(_list(_map(spec, "process"), "process", "env"), edits.env)
    _add_nodes(spec, nodes)
    for device in edits.net_devices:
        devices = _map(_map(spec, "linux"), "netDevices", within="linux")
        devices[device.host_interface_name] = {"name": device.name}
    if edits.mounts:
        _add_mounts(spec, edits.mounts)
    for hook in edits.hooks:
        made = to_document(hook)
        _list(_map(spec, "hooks"), "hooks", made.pop("hookName")).append(made)
    if edits.intel_rdt is not None:
        _map(spec, "linux")["intelRdt"] = to_document(edits.intel_rdt)
    _add_groups(spec, edits.additional_gids)
    return spec


def filled_nodes(nodes: Iterable[NodeEdit], stat: Stat) -> tuple[NodeEdit, ...]:
    """The nodes with type, numbers and mode from the host where the file does not say them.

    A node with type and major number (a pipe: with its type) need not be on the host: it may come later.
    """
    filled: list[NodeEdit] = []
    faults: list[tuple[str, str]] = []
    for node in nodes:
        path = node.host_path or node.path
        answer = _filled(node, path, stat(path))
        if isinstance(answer, str):
            faults.append((path, answer))
        else:
            filled.append(answer)
    if faults:
        texts = "; ".join(dict.fromkeys(text for _, text in faults))
        raise HardwareError(f"cannot inject CDI device nodes: {texts}", path=faults[0][0])
    return tuple(filled)


def _filled(node: NodeEdit, path: str, host: HostNode | None) -> NodeEdit | str:
    is_said = bool(node.type) and (node.major != 0 or node.type == _PIPE)
    if host is None or not host.type:
        reason = "does not exist on the host" if host is None else "is not a device node"
        return node if is_said else f"{path} {reason}"
    mode = host.mode if node.file_mode is None else node.file_mode
    kind, major, minor = node.type, node.major, node.minor
    if not is_said:
        kind = kind or host.type
        if kind != host.type:
            return f"{path} is of type {host.type} on the host, not {kind}"
        if kind != _PIPE and not major:
            major, minor = host.major, host.minor
    return NodeEdit(node.path, path, kind, major, minor, mode, node.permissions, node.uid, node.gid)


def _set_env(env: list[Any], added: Sequence[str]) -> None:
    places = {str(one).partition("=")[0]: position for position, one in enumerate(env)}
    for text in added:
        name = text.partition("=")[0]
        if name in places:
            env[places[name]] = text
        else:
            places[name] = len(env)
            env.append(text)


def _add_nodes(spec: OciSpec, nodes: Sequence[NodeEdit]) -> None:
    """Each with a cgroup rule that lets the container use it; the same rule is given once."""
    if not nodes:
        return
    linux = _map(spec, "linux")
    owner = _process_user(spec)
    rules: list[dict[str, Any]] = []
    for node in nodes:
        devices = _list(linux, "linux", "devices")
        _remove_first(devices, "path", node.path)
        devices.append(_oci_node(node, owner))
        if node.type in ("b", "c") and (rule := _rule(node)) not in rules:
            rules.append(rule)
    if rules:
        resources = _map(linux, "resources", within="linux")
        _list(resources, "linux.resources", "devices").extend(rules)


def _process_user(spec: OciSpec) -> Mapping[str, Any]:
    process = spec.get("process")
    user = process.get("user") if isinstance(process, dict) else None
    return user if isinstance(user, dict) else {}


def _oci_node(node: NodeEdit, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The container's user owns it, unless the file says who does."""
    made: dict[str, Any] = {"path": node.path, "type": node.type, "major": node.major, "minor": node.minor}
    if node.file_mode is not None:
        made["fileMode"] = node.file_mode
    for field, said in (("uid", node.uid), ("gid", node.gid)):
        inherited = owner.get(field)
        if said is not None:
            made[field] = said
        elif isinstance(inherited, int) and inherited > 0:
            made[field] = inherited
    return made


def _rule(node: NodeEdit) -> dict[str, Any]:
    rule: dict[str, Any] = {"allow": True, "type": node.type, "major": node.major, "minor": node.minor}
    if node.permissions != NO_PERMISSIONS:
        rule["access"] = node.permissions or _ALL_PERMISSIONS
    return rule


def _add_mounts(spec: OciSpec, added: Sequence[MountEdit]) -> None:
    """All mounts are then in order of depth, so that none hides one that was made before it."""
    mounts = _list(spec, "", "mounts")
    maps_ids = _has_user_namespace(spec)
    for mount in added:
        _remove_first(mounts, "destination", mount.container_path)
        mounts.append(_oci_mount(mount, maps_ids))
    mounts.sort(key=_depth)


def _oci_mount(mount: MountEdit, maps_ids: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"destination": mount.container_path}
    if mount.type:
        made["type"] = mount.type
    made["source"] = mount.host_path
    options = [*mount.options, *(_id_mapping(mount) if maps_ids else ())]
    if options:
        made["options"] = options
    return made


def _id_mapping(mount: MountEdit) -> tuple[str, ...]:
    """In a user namespace, files of a bind mount would otherwise belong to nobody."""
    if {"idmap", "ridmap"} & set(mount.options):
        return ()
    binds = [option for option in mount.options if option in ("bind", "rbind")]
    if not binds and mount.type != "bind":
        return ()
    return ("ridmap",) if binds[-1:] == ["rbind"] else ("idmap",)


def _has_user_namespace(spec: OciSpec) -> bool:
    linux = spec.get("linux")
    namespaces = linux.get("namespaces") if isinstance(linux, dict) else None
    return any(isinstance(one, dict) and one.get("type") == "user" for one in namespaces or ())


def _depth(mount: Any) -> int:
    destination = str(mount.get("destination") or "") if isinstance(mount, dict) else ""
    rooted = "/" + destination.lstrip("/") if destination.startswith("/") else destination
    return posixpath.normpath(rooted).count("/")


def _add_groups(spec: OciSpec, added: Sequence[int]) -> None:
    """Group 0 is never added: it would be root's."""
    for group in added:
        if group:
            user = _map(_map(spec, "process"), "user", within="process")
            groups = _list(user, "process.user", "additionalGids")
            if group not in groups:
                groups.append(group)


def _remove_first(entries: list[Any], key: str, value: str) -> None:
    for position, one in enumerate(entries):
        if isinstance(one, dict) and one.get(key) == value:
            del entries[position]
            return


def _map(owner: dict[str, Any], key: str, within: str = "") -> dict[str, Any]:
    """The map under a key, made where there is none."""
    if owner.get(key) is None:
        owner[key] = {}
    found = owner[key]
    if not isinstance(found, dict):
        _refuse(within, key, "a map")
    return found


def _list(owner: dict[str, Any], within: str, key: str) -> list[Any]:
    if owner.get(key) is None:
        owner[key] = []
    found = owner[key]
    if not isinstance(found, list):
        _refuse(within, key, "a list")
    return found


def _refuse(within: str, key: str, what: str) -> NoReturn:
    name = f"{within}.{key}" if within else key
    raise InvalidError(f"OCI spec: {name} must be {what}", field=name)
