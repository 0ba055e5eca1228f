from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

import pytest

from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.kubelet.runtimes.images import Images

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class Layout:
    """An OCI layout on disk, written piece by piece."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "blobs" / "sha256").mkdir(parents=True)
        self.index: list[dict[str, Any]] = []

    def blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs" / "sha256" / digest).write_bytes(data)
        return f"sha256:{digest}"

    def json(self, value: object) -> str:
        return self.blob(json.dumps(value).encode())

    def layer(self, files: dict[str, str], kind: str = "tar+gzip") -> dict[str, str]:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text.encode()))
        return {
            "digest": self.blob(buffer.getvalue()),
            "mediaType": f"application/vnd.oci.image.layer.v1.{kind}",
        }

    def manifest(self, *layers: dict[str, str], **config: object) -> str:
        return self.json({"config": {"digest": self.json({"config": config})}, "layers": list(layers)})

    def tag(self, digest: str, name: str = "") -> Path:
        notes = {"annotations": {"org.opencontainers.image.ref.name": name}} if name else {}
        self.index.append({"digest": digest, **notes})
        (self.path / "index.json").write_text(json.dumps({"manifests": self.index}))
        return self.path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(tmp_path / "cache", allow_host=False, directories=(tmp_path,))


def test_a_directory(images: Images, tmp_path: Path) -> None:
    assert images.have(str(tmp_path)).rootfs == images.have(f"dir:{tmp_path}").rootfs == tmp_path


@pytest.mark.parametrize(
    "reference", ["busybox", "docker.io/library/busybox:1", "dir:relative", "oci:relative", ""]
)
def test_a_name_of_a_registry_tells_the_ways(images: Images, reference: str) -> None:
    with pytest.raises(NotFoundError, match=r"dir:/path\), an OCI layout \(oci:/path.*--allow-host-image"):
        images.have(reference)


def test_what_is_not_there(images: Images, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such directory"):
        images.have(f"{tmp_path}/no")
    with pytest.raises(NotFoundError, match=r"no OCI layout \(index.json\)"):
        images.have(f"oci:{tmp_path}")


def test_the_host_only_where_allowed(images: Images, tmp_path: Path) -> None:
    with pytest.raises(DeniedError, match="--allow-host-image"):
        images.have("host")
    found = Images(tmp_path / "cache", allow_host=True).have("host")
    assert (found.rootfs, found.is_host) == (Path("/"), True)
    assert Images(tmp_path / "cache", allow_host=True).have("dir:/").is_host


def test_a_layout_is_unpacked_once(images: Images, layout: Layout) -> None:
    config = {"Env": ["A=1"], "Entrypoint": ["/e"], "Cmd": ["c"], "WorkingDir": "/w", "User": "u"}
    digest = layout.manifest(
        layout.layer({"a": "1", "b": "2"}), layout.layer({".wh.a": "", "c": "3"}), **config
    )
    path = layout.tag(digest, "v1")
    found = images.have(f"oci:{path}:v1")
    assert {one.name: one.read_text() for one in found.rootfs.iterdir()} == {"b": "2", "c": "3"}
    assert (found.config.env, found.config.entrypoint, found.config.cmd) == (("A=1",), ("/e",), ("c",))
    assert (found.config.working_dir, found.config.user) == ("/w", "u")
    born = found.rootfs.stat().st_ino
    assert images.have(f"oci:{path}").rootfs.stat().st_ino == born


def test_tags(images: Images, layout: Layout) -> None:
    layout.tag(layout.manifest(layout.layer({"one": ""})), "1")
    path = layout.tag(layout.manifest(layout.layer({"two": ""})), "2")
    assert (images.have(f"oci:{path}:2").rootfs / "two").exists()
    with pytest.raises(NotFoundError, match="name a tag; it has 1, 2"):
        images.have(f"oci:{path}")
    with pytest.raises(NotFoundError, match="tag '3'; it has 1, 2"):
        images.have(f"oci:{path}:3")


def test_an_index_of_machines(images: Images, layout: Layout) -> None:
    ours, other = layout.manifest(layout.layer({"ours": ""})), layout.manifest(layout.layer({"other": ""}))
    entries = [
        {"digest": other, "platform": {"os": "linux", "architecture": "vax"}},
        {"digest": ours, "platform": {"os": "linux", "architecture": MACHINE}},
    ]
    path = layout.tag(layout.json({"manifests": entries}))
    assert (images.have(f"oci:{path}").rootfs / "ours").exists()
    layout.index.clear()
    layout.tag(layout.json({"manifests": entries[:1]}))
    with pytest.raises(NotFoundError, match=f"no image for linux/{MACHINE}"):
        images.have(f"oci:{path}")


def test_a_damaged_layer_leaves_nothing(images: Images, layout: Layout, tmp_path: Path) -> None:
    bad = layout.layer({"a": "1"})
    (layout.path / "blobs/sha256" / bad["digest"][7:]).write_bytes(b"other")
    path = layout.tag(layout.manifest(layout.layer({"b": ""}), bad))
    with pytest.raises(InvalidError, match="damaged"):
        images.have(f"oci:{path}")
    assert list((tmp_path / "cache").iterdir()) == []


def test_layers_that_cannot_be_read_here(images: Images, layout: Layout) -> None:
    path = layout.tag(layout.manifest(layout.layer({"b": ""}, "tar+zstd")))
    with pytest.raises(InvalidError, match="store the image with gzip"):
        images.have(f"oci:{path}")


@pytest.mark.parametrize(
    "text", ["{}", "[]", "no", '{"manifests": [{}]}', '{"manifests": [{"digest": "sha256:../../x"}]}']
)
def test_an_index_that_is_none(images: Images, layout: Layout, text: str) -> None:
    (layout.path / "index.json").write_text(text)
    with pytest.raises(InvalidError):
        images.have(f"oci:{layout.path}")


def test_half_unpacked_images_are_swept(images: Images, layout: Layout, tmp_path: Path) -> None:
    path = layout.tag(layout.manifest(layout.layer({"b": ""})))
    kept = images.have(f"oci:{path}").rootfs
    (tmp_path / "cache" / ".unfinished-1" / "x").mkdir(parents=True)
    images.sweep()
    assert list((tmp_path / "cache").iterdir()) == [kept]
