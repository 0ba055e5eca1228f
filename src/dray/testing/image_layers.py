"""Layers and archives of OCI images, written by hand and always the same for the same files: no builder, no daemon."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_EPOCH: Final = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Image:
    """What a registry would store: its full name with a tag, and how its containers start."""

    name: str
    architecture: str
    entrypoint: Sequence[str]
    user: str
    env: Mapping[str, str]
    labels: Mapping[str, str]


def write_layer(root: Path, layer: Path) -> None:
    """Pack all below `root`, as user 0, sorted and without times: equal files give an equal layer."""
    unfinished = layer.with_suffix(".unfinished")
    with tarfile.open(unfinished, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            entry = tar.gettarinfo(path, path.relative_to(root).as_posix())
            if entry.islnk():  # a second name of one inode: another order of names must not change the layer
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.lstat().st_size
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    unfinished.rename(layer)


def write_image(image: Image, layers: Sequence[Path], archive: Path) -> None:
    """Write an OCI layout with one image, as a tar that `ctr images import` and `podman load` read."""
    with tarfile.open(archive, "w") as tar:
        described = [_add_file(tar, layer) for layer in layers]
        config = _add_json(tar, _CONFIG, _config(image, [one["digest"] for one in described]))
        manifest = _add_json(
            tar,
            _MANIFEST,
            {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": described},
        )
        names = {
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
        }
        index = {
            "schemaVersion": 2,
            "mediaType": _INDEX,
            "manifests": [{**manifest, "annotations": names}],
        }
        _add(tar, "index.json", json.dumps(index).encode())
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())


def _config(image: Image, digests: Sequence[str]) -> dict[str, Any]:
    return {
        "created": _EPOCH,
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "User": image.user,
            "Entrypoint": list(image.entrypoint),
            "Env": [f"{name}={value}" for name, value in sorted(image.env.items())],
            "WorkingDir": "/",
            "Labels": dict(sorted(image.labels.items())),
        },
        "rootfs": {"type": "layers", "diff_ids": list(digests)},
    }


def _add_file(tar: tarfile.TarFile, path: Path) -> dict[str, Any]:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        content.seek(0)
        entry = tarfile.TarInfo(f"blobs/sha256/{digest}")
        entry.size = path.stat().st_size
        tar.addfile(entry, content)
    return {"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": entry.size}


def _add_json(tar: tarfile.TarFile, media_type: str, value: Any) -> dict[str, Any]:
    content = json.dumps(value, sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    _add(tar, f"blobs/sha256/{digest}", content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))
