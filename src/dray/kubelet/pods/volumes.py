"""The volumes of a pod as directories and files of the host: emptyDir, hostPath, configMap, secret, downwardAPI, projected."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from dray.api.core import Pod
from dray.api.core.container import Container, VolumeMount
from dray.cdi.edits import Mount
from dray.errors import InvalidError, NotFoundError
from dray.kubelet.pods.environment import Sources, expand, field_value
from dray.runtime.files.oserrors import from_os_error

KINDS = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")


class Volumes:
    """Below `directory`, one folder a pod: `<uid>/volumes/<volume>`. Made before containers, removed after them."""

    def __init__(self, directory: Path, sources: Sources) -> None:
        self._directory = directory
        self._sources = sources

    def make(self, pod: Pod) -> dict[str, Path]:
        """The host's path of each volume. Repeatable: what is there is kept, contents of objects are written anew."""
        found: dict[str, Path] = {}
        for volume in pod.spec.volumes:
            name = str(volume.get("name", ""))
            kind = next((key for key in volume if key != "name"), "emptyDir")
            try:
                found[name] = self._make(pod, name, kind, volume.get(kind) or {})
            except OSError as error:
                raise from_os_error(error, f"make volume {name} in", str(error.filename)) from error
        return found

    def remove(self, uid: str) -> None:
        """All of a pod's; nothing happens where there are none. What hostPath volumes point to stays."""
        path = self._directory / _checked(uid)
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise from_os_error(error, "remove the volumes of a pod in", str(path)) from error

    def _make(self, pod: Pod, name: str, kind: str, source: Mapping[str, Any]) -> Path:
        if kind == "hostPath":
            return _host_path(source)
        if kind not in KINDS:
            raise InvalidError(
                f"volume {name}: {kind} is not supported here; use one of {', '.join(KINDS)}",
                field=f"spec.volumes[{name}]",
            )
        path = self._directory / _checked(pod.metadata.uid) / "volumes" / _checked(name)
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
        if kind == "emptyDir":
            path.chmod(0o777)
            return path
        mode = int(source.get("defaultMode", 0o644))
        for file, content, own_mode in self._files(pod, name, kind, source):
            _write(path, file, content, own_mode or mode)
        return path

    def _files(
        self, pod: Pod, name: str, kind: str, source: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, int | None]]:
        if kind == "projected":
            for each in source.get("sources", ()):
                for inner, value in each.items():
                    if inner not in KINDS or inner == "projected":
                        raise InvalidError(f"volume {name}: {inner} cannot be projected here")
                    yield from self._files(pod, name, inner, value)
        elif kind == "downwardAPI":
            for item in source.get("items", ()):
                reference = item.get("fieldRef") or {}
                yield item["path"], field_value(pod, str(reference.get("fieldPath", ""))), item.get("mode")
        else:
            yield from self._object_files(pod, name, kind, source)

    def _object_files(
        self, pod: Pod, name: str, kind: str, source: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, int | None]]:
        called = str(source.get("name") or source.get("secretName") or "")
        read = self._sources.config_map if kind == "configMap" else self._sources.secret
        data = read(pod.metadata.namespace, called)
        if data is None:
            if source.get("optional"):
                return
            raise NotFoundError(f'volume {name}: {kind.lower()} "{called}" not found', kind=kind, name=called)
        items: Sequence[Mapping[str, Any]] = source.get("items") or [
            {"key": key, "path": key} for key in data
        ]
        for item in items:
            if item["key"] in data:
                yield item["path"], data[item["key"]], item.get("mode")
            elif not source.get("optional"):
                raise InvalidError(f"volume {name}: {kind.lower()} {called} has no key {item['key']}")


def mounts_of(container: Container, volumes: Mapping[str, Path], env: Mapping[str, str]) -> tuple[Mount, ...]:
    """What a container sees of the pod's volumes."""
    return tuple(_mount(container, one, volumes, env) for one in container.volume_mounts)


def _mount(
    container: Container, mount: VolumeMount, volumes: Mapping[str, Path], env: Mapping[str, str]
) -> Mount:
    path = volumes.get(mount.name)
    if path is None:
        raise InvalidError(f"container {container.name}: the pod has no volume {mount.name!r}")
    below = mount.sub_path or expand(mount.sub_path_expr, env)
    if below:
        parts = PurePosixPath(below)
        if parts.is_absolute() or ".." in parts.parts:
            raise InvalidError(f"container {container.name}: subPath {below!r} leads out of the volume")
        path = path / below
        if not path.exists():
            path.mkdir(parents=True, mode=0o755)
    return Mount(str(path), mount.mount_path, mount.read_only)


def _host_path(source: Mapping[str, Any]) -> Path:
    path, kind = Path(str(source.get("path", ""))), str(source.get("type", ""))
    if not path.is_absolute():
        raise InvalidError(f"hostPath {str(path)!r} must be absolute", field="hostPath.path")
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
    elif kind == "FileOrCreate" and not path.exists():
        path.touch(0o644)
    checks = {
        "Directory": path.is_dir,
        "File": path.is_file,
        "Socket": path.is_socket,
        "CharDevice": path.is_char_device,
        "BlockDevice": path.is_block_device,
    }
    if kind in checks and not checks[kind]():
        raise InvalidError(f"hostPath type check failed: {path} is not a {kind}", field="hostPath.type")
    return path


def _write(directory: Path, name: str, content: str, mode: int) -> None:
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts:
        raise InvalidError(f"file {name!r} leads out of its volume", field="path")
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(content)
    temporary.chmod(mode)
    temporary.replace(path)


def _checked(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise InvalidError(f"{name!r} cannot name a directory")
    return name


def decoded(secret: Mapping[str, str]) -> dict[str, str]:
    """The data of a Secret as text; bytes that are no text stay as surrogates."""
    return {key: os.fsdecode(base64.b64decode(value)) for key, value in secret.items()}
