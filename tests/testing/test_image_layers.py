from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from dray.testing.image_layers import Image, write_image, write_layer

IMAGE = Image(
    "example.com/dray:1", "amd64", ("/bin/dray",), "65532:65532", {"PATH": "/bin"}, {"title": "dray"}
)


def tree(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "dray").write_text("#!/bin/python\n")
    (root / "bin" / "dray").chmod(0o755)
    (root / "bin" / "also").hardlink_to(root / "bin" / "dray")
    (root / "bin" / "link").symlink_to("/bin/dray")
    return root


def test_equal_files_give_an_equal_layer(tmp_path: Path) -> None:
    first, second = tree(tmp_path / "1"), tree(tmp_path / "2")
    os.utime(second / "bin" / "dray", (1, 1))
    for root in (first, second):
        write_layer(root, root.with_suffix(".tar"))
    assert first.with_suffix(".tar").read_bytes() == second.with_suffix(".tar").read_bytes()


def test_a_layer_belongs_to_root_and_keeps_modes_and_links(tmp_path: Path) -> None:
    write_layer(tree(tmp_path / "root"), tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as tar:
        found = {entry.name: entry for entry in tar}
        also = tar.extractfile("bin/also")
        assert also is not None and also.read() == b"#!/bin/python\n"
    assert {(entry.uid, entry.gid, entry.mtime, entry.uname) for entry in found.values()} == {(0, 0, 0, "")}
    assert found["bin/dray"].mode == 0o755
    assert found["bin/link"].issym() and found["bin/link"].linkname == "/bin/dray"


def test_an_archive_holds_what_its_digests_say(tmp_path: Path) -> None:
    layers = [tmp_path / "0.tar", tmp_path / "1.tar"]
    for layer in layers:
        write_layer(tree(tmp_path / layer.stem), layer)
    write_image(IMAGE, layers, tmp_path / "image.tar")
    (tmp_path / "out").mkdir()
    with tarfile.open(tmp_path / "image.tar") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    blobs = tmp_path / "out" / "blobs" / "sha256"
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in blobs.iterdir())

    def read(described: Any) -> Any:
        path = blobs / described["digest"].removeprefix("sha256:")
        assert path.stat().st_size == described["size"]
        return json.loads(path.read_bytes())

    (named,) = json.loads((tmp_path / "out" / "index.json").read_text())["manifests"]
    assert named["annotations"]["io.containerd.image.name"] == "example.com/dray:1"
    manifest = read(named)
    config = read(manifest["config"])
    assert config["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]]
    assert config["config"]["User"] == "65532:65532" and config["config"]["Entrypoint"] == ["/bin/dray"]
