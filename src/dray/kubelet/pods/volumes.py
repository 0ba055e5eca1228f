"""The volumes of a pod as directories and files of the host: emptyDir, hostPath, configMap, secret, downwardAPI, projected."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.core.container import Container, VolumeMount
from dray.api.meta import Model
from dray.cdi.edits import Mount
from dray.errors import ConflictError, DeniedError, Error, InvalidError, NotFoundError
from dray.kubelet.failure import prefixed
from dray.kubelet.pods import host_paths, subpaths
from dray.kubelet.pods.environment import Sources, expand_known, field_value
from dray.kubelet.pods.object_files import ObjectFile, check_files, write_files
from dray.kubelet.runtimes import mounts
from dray.runtime.clock import Clock
from dray.runtime.files.durable import make_directory
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.removal import remove_tree
from dray.runtime.files.safepath import Root

KINDS = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")
_OF_OBJECTS = ("configMap", "secret", "downwardAPI", "projected")
_IN_MEMORY = ("secret", "projected")
_MODE = 0o644
_VOLUMES, _SUB_PATHS = "volumes", "volume-subpaths"


@dataclass(frozen=True, slots=True)
class Volume:
    """One that exists on the host. `read_only`: whatever the container asks for, it may not write there."""

    path: Path
    read_only: bool = False
    host_type: str | None = None
    """Of a hostPath: what it must be."""


class Volumes:
    """Below `directory`, one folder a pod, closed to everybody but us. Made before containers, removed after them.

    `<uid>/volumes/<volume>` is what containers see; `<uid>/volume-subpaths/<volume>/<container>/<index>` is where the
    subPath of a mount is held, and what a hostPath means. `has_mounts`: whether the runtime shows them to containers at all. Without it nothing is
    mounted: plain processes see the host as it is, and a kubelet without root could not.
    """

    def __init__(self, directory: Path, sources: Sources, clock: Clock, *, has_mounts: bool) -> None:
        self._directory = directory
        self._sources = sources
        self._clock = clock
        self._has_mounts = has_mounts

    def make(self, pod: Pod) -> dict[str, Volume]:
        """The volumes by name. Repeatable: what is there is kept, contents of objects are written anew."""
        found: dict[str, Volume] = {}
        for volume in pod.spec.volumes:
            name = str(volume.get("name", ""))
            kind = next(
                (key for key, given in volume.items() if key != "name" and given is not None), "emptyDir"
            )
            try:
                path = self._make(pod, name, kind, volume.get(kind))
            except OSError as error:
                raise from_os_error(error, f"make volume {name} in", str(error.filename)) from error
            host_type = str((volume.get(kind) or {}).get("type") or "") if kind == "hostPath" else None
            found[name] = Volume(path, kind in _OF_OBJECTS, host_type)
        return found

    def mounts(
        self,
        pod: Pod,
        container: Container,
        volumes: Mapping[str, Volume],
        env: Mapping[str, str],
        *,
        is_made: bool = False,
    ) -> tuple[Mount, ...]:
        """What a container sees of them. Called before every start of it: subPaths and hostPaths are looked up anew.

        `is_made`: the runtime has created this container already, and its start may be in progress since before a restart of
        the kubelet. Its mounts are kept as they are.
        """
        return tuple(
            self._mount(pod, container, index, one, volumes, env, is_made=is_made)
            for index, one in enumerate(container.volume_mounts)
        )

    def remove(self, uid: str) -> None:
        """All of a pod's; nothing happens where there are none. What hostPath volumes point to stays.

        ConflictError where something is still mounted: behind it may be the host's files, so nothing is removed. May take
        long: not for the event loop.
        """
        path = self._directory / _checked(uid)
        if not path.exists():
            return
        mounts.unmount_below(path)
        if left := mounts.mounted_below(path.resolve()):
            raise ConflictError(
                f"cannot remove the volumes of pod {uid}: {str(left[0])!r} is still mounted; unmount it, and it is tried again"
            )
        remove_tree(path)

    def _mount(
        self,
        pod: Pod,
        container: Container,
        index: int,
        mount: VolumeMount,
        volumes: Mapping[str, Volume],
        env: Mapping[str, str],
        *,
        is_made: bool,
    ) -> Mount:
        volume = volumes.get(mount.name)
        if volume is None:
            raise InvalidError(f"container {container.name}: the pod has no volume {mount.name!r}")
        if mount.recursive_read_only == "Enabled":
            where = f"volumeMounts[{index}].recursiveReadOnly"
            raise InvalidError(
                f"container {container.name}: {where}: Enabled is not supported by this node; use IfPossible, or leave it out",
                field=where,
            )
        place = self._place(pod, mount.name, container.name, index)
        path = volume.path
        if is_made and self._has_mounts and subpaths.is_held(place):
            path = place
        elif mount.sub_path or mount.sub_path_expr:
            try:
                path = self._sub_path(volume, mount.sub_path or expand_known(mount.sub_path_expr, env), place)
            except Error as error:
                raise subpaths.told(error, mount.name, container.name) from error
        elif volume.host_type is not None:
            path = self._host_path(volume, place)
        return Mount(str(path), mount.mount_path, mount.read_only or volume.read_only)

    def _sub_path(self, volume: Volume, below: str, place: Path) -> Path:
        if not below:
            return volume.path if volume.host_type is None else self._host_path(volume, place)
        below = subpaths.check_sub_path(below)
        with contextlib.ExitStack() as stack:
            top = volume.path
            if volume.host_type is not None:
                opened = host_paths.open_host_path(volume.path, volume.host_type)
                top = Path(stack.enter_context(opened).proc_path) if opened is not None else top
            found = stack.enter_context(subpaths.open_sub_path(top, below, str(volume.path)))
            if not self._has_mounts:
                return volume.path / below
            subpaths.hold(found, place)
        return place

    def _host_path(self, volume: Volume, place: Path) -> Path:
        opened = host_paths.open_host_path(volume.path, volume.host_type or "")
        if opened is None:  # the runtime creates it, or reports that it is missing
            return volume.path
        with opened:
            return host_paths.hold(opened, place) if self._has_mounts else volume.path

    def _place(self, pod: Pod, volume: str, container: str, index: int) -> Path:
        top = self._directory / _checked(pod.metadata.uid) / _SUB_PATHS
        return top / _checked(volume) / _checked(container) / str(index)

    def _make(self, pod: Pod, name: str, kind: str, given: Any) -> Path:
        if kind not in KINDS:
            raise InvalidError(
                f"volume {name}: {kind} is not supported here; use one of {', '.join(KINDS)}",
                field=f"spec.volumes[{name}]",
            )
        try:
            source = view(given or {}, _Source)
        except InvalidError as error:
            raise prefixed(f"volume {name}: {kind}", error) from error
        if kind == "hostPath":
            return _host_path(source)
        path = self._directory / _checked(pod.metadata.uid) / _VOLUMES / _checked(name)
        make_directory(path.parent)
        with Root(path.parent) as root, root.open(".") as above:
            above.directory(name, 0o755).close()
            if kind == "emptyDir":
                with above.child(name) as directory:
                    directory.chmod(0o777)
                return path
        if kind in _IN_MEMORY and self._has_mounts:
            _keep_in_memory(path)
        mode = _MODE if source.default_mode is None else source.default_mode
        files = check_files(name, self._files(pod, name, kind, source, mode))
        write_files(path, files, self._clock.now())
        return path

    def _files(self, pod: Pod, name: str, kind: str, source: _Source, mode: int) -> Iterator[ObjectFile]:
        if kind == "projected":
            for each in source.sources:
                for inner, value in each.items():
                    if inner not in _OF_OBJECTS or inner == "projected":
                        raise InvalidError(f"volume {name}: {inner} cannot be projected here")
                    yield from self._files(pod, name, inner, value or _Source(), mode)
        elif kind == "downwardAPI":
            for item in source.items:
                yield _file(item, field_value(pod, item.field_ref.field_path), mode)
        else:
            yield from self._object_files(pod, name, kind, source, mode)

    def _object_files(
        self, pod: Pod, name: str, kind: str, source: _Source, mode: int
    ) -> Iterator[ObjectFile]:
        called = source.name or source.secret_name
        read = self._sources.config_map if kind == "configMap" else self._sources.secret
        data = read(pod.metadata.namespace, called)
        if data is None:
            if source.optional:
                return
            raise NotFoundError(f'volume {name}: {kind.lower()} "{called}" not found', kind=kind, name=called)
        for item in source.items or [_Item(key=key, path=key) for key in data]:
            if item.key in data:
                yield _file(item, data[item.key], mode)
            elif not source.optional:
                raise InvalidError(f"volume {name}: {kind.lower()} {called} has no key {item.key}")


class _FieldRef(Model, frozen=True, kw_only=True):
    field_path: str = ""


class _Item(Model, frozen=True, kw_only=True):
    key: str = ""
    path: str = ""
    mode: int | None = None
    field_ref: _FieldRef = _FieldRef()


class _Source(Model, frozen=True, kw_only=True):
    """Of a volume, whatever its kind: what is left out has its zero, as for every kubelet."""

    path: str = ""
    type: str = ""
    name: str = ""
    secret_name: str = ""
    optional: bool = False
    default_mode: int | None = None
    items: tuple[_Item, ...] = ()
    sources: tuple[dict[str, _Source | None], ...] = ()


def _file(item: _Item, content: str, mode: int) -> ObjectFile:
    return ObjectFile(item.path, os.fsencode(content), mode if item.mode is None else item.mode)


def _host_path(source: _Source) -> Path:
    path = Path(source.path)
    if not path.is_absolute() or "\0" in str(path):
        raise InvalidError(f"hostPath {str(path)!r} must be absolute, without NUL", field="hostPath.path")
    opened = host_paths.open_host_path(path, source.type)
    if opened is not None:
        opened.close()
    return path


def _keep_in_memory(path: Path) -> None:
    """A Secret does not reach the disk, where we may mount. Mounted already, by the kubelet of before: left as it is."""
    if path.resolve() in mounts.mounted_below(path.resolve()):
        return
    flags = mounts.MS_NODEV | mounts.MS_NOSUID  # not noexec: projected scripts are run, by their mode
    with contextlib.suppress(
        DeniedError
    ):  # a rootless kubelet: its own directory is closed to others all the same
        try:
            mounts.mount("tmpfs", path, "tmpfs", flags, "mode=755,noswap")
        except InvalidError:  # a kernel before 6.4
            mounts.mount("tmpfs", path, "tmpfs", flags, "mode=755")


def _checked(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise InvalidError(f"{name!r} cannot name a directory")
    return name


def decoded(secret: Mapping[str, str]) -> dict[str, str]:
    """The data of a Secret as text; bytes that are no text stay as surrogates."""
    try:
        return {key: os.fsdecode(base64.b64decode(value)) for key, value in secret.items()}
    except ValueError as error:
        raise InvalidError(f"Secret data is not valid base64: {error}", field="data") from error
