"""Images without a registry: a directory, an OCI layout on disk, or the host's own root."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.kubelet.runtimes.layers import unpack
from dray.kubelet.runtimes.oci_spec import ImageConfig
from dray.runtime.files import durable
from dray.runtime.files.oserrors import from_os_error

IMAGES = Path("/var/lib/dray/images")
WAYS = (
    "there is no registry here; give a root directory (/path or dir:/path), an OCI layout (oci:/path or oci:/path:tag),"
    " both below an --image-dir, or host (the host's own files, with --allow-host-image)"
)
HOST = "host"
_UNFINISHED = ".unfinished-"
_TAG = "org.opencontainers.image.ref.name"
_MANIFEST_LIMIT = 4 << 20
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

Json = dict[str, Any]


class Image(msgspec.Struct, frozen=True):
    """`rootfs` is never written to: containers have an overlay over it."""

    rootfs: Path
    config: ImageConfig = ImageConfig()
    is_host: bool = False


class Images:
    """The images of this machine. `cache` holds unpacked ones under the digest of their manifest.

    Who writes a pod must not choose a directory of the host: images lie below one of `directories`, once all links are
    followed. With `allow_host` there is nothing left to hide.
    """

    def __init__(self, cache: Path, *, allow_host: bool, directories: Sequence[Path] = ()) -> None:
        self._cache = cache
        self._allow_host = allow_host
        self._directories = directories

    def have(self, reference: str) -> Image:
        """Unpacked if need be, which may take long: not for the event loop. NotFoundError names the ways to give one."""
        if reference == HOST:
            if not self._allow_host:
                raise DeniedError(
                    "image host shows the host's files to the container: allow it with --allow-host-image"
                )
            return Image(Path("/"), is_host=True)
        if reference.startswith("oci:/"):
            return self._layout(reference.removeprefix("oci:"), reference)
        given = reference.removeprefix("dir:")
        if not given.startswith("/") or "\0" in given:
            raise NotFoundError(f"no image {reference!r}: {WAYS}", kind="image", name=reference)
        path = self._allowed(Path(given), reference)
        if not path.is_dir():
            raise NotFoundError(
                f"no image {reference!r}: there is no such directory", kind="image", name=reference
            )
        return Image(path, is_host=path == Path("/"))

    def _allowed(self, path: Path, reference: str) -> Path:
        """Where it really is. DeniedError where that is no place for images, also where nothing is there: what exists on
        the host is not for pods to find out."""
        found = resolved(path)
        if found and (self._allow_host or any(found.is_relative_to(one) for one in self._places())):
            return found
        told = ", ".join(str(one) for one in self._directories) or "none"
        raise DeniedError(
            f"image {reference!r} is not below a directory for images ({told}): move it there, or allow its directory"
            " with --image-dir",
            what=f"run image {reference}",
        )

    def _places(self) -> Iterator[Path]:
        return filter(None, map(resolved, self._directories))

    def sweep(self) -> None:
        """Remove what a crash left half unpacked."""
        for path in self._cache.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _layout(self, text: str, reference: str) -> Image:
        path, tag = self._allowed(Path(text), reference), ""
        if not path.is_dir():
            before, _, tag = text.rpartition(":")
            path = self._allowed(Path(before or "/"), reference)
        if not (path / "index.json").is_file():
            message = f"no image {reference!r}: there is no OCI layout (index.json) in {str(path)!r}"
            raise NotFoundError(message, kind="image", name=reference)
        try:
            layout = _Layout(path)
            digest = layout.choose(tag)
            manifest = layout.json(digest)
            config = _config(layout.json(manifest["config"]["digest"]))
            return Image(self._unpacked(layout, digest, manifest).resolve(), config)
        except OSError as error:
            raise from_os_error(error, "read the image", str(error.filename or path)) from error
        except (KeyError, TypeError, AttributeError, msgspec.MsgspecError) as error:
            raise InvalidError(
                f"{str(path)!r} is not a valid OCI layout: {error!r}", field=reference
            ) from error

    def _unpacked(self, layout: _Layout, digest: str, manifest: Json) -> Path:
        target = self._cache / digest.replace(":", "-")
        if target.is_dir():
            return target
        durable.make_directory(self._cache)
        unfinished = self._cache / f"{_UNFINISHED}{secrets.token_hex(6)}"
        unfinished.mkdir(mode=0o755)
        try:
            for layer in manifest["layers"]:
                _check_layer(layer)
                with layout.blob(layer["digest"]).open("rb") as file:
                    unpack(file, unfinished)
            with contextlib.suppress(OSError):  # somebody else was faster
                unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return target


class _Layout:
    """An OCI layout directory. Blobs are checked against their digest before they are used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def choose(self, tag: str) -> str:
        """The digest of the manifest with this tag, for this machine; without a tag, of the only one."""
        index = msgspec.json.decode((self._path / "index.json").read_bytes(), type=dict[str, Any])
        entries = [
            one for one in index["manifests"] if not tag or (one.get("annotations") or {}).get(_TAG) == tag
        ]
        if not entries or (not tag and len(entries) > 1):
            tags = sorted((one.get("annotations") or {}).get(_TAG, "?") for one in index["manifests"])
            what = f"tag {tag!r}" if tag else "the one to take: name a tag"
            raise NotFoundError(
                f"{str(self._path)!r} does not say {what}; it has {', '.join(tags) or 'none'}",
                kind="image",
                name=tag,
            )
        digest = str(entries[0]["digest"])
        document = self.json(digest)
        return _for_this_machine(document["manifests"], self._path) if "manifests" in document else digest

    def json(self, digest: str) -> Json:
        """A manifest, an index or a config."""
        path = self.blob(digest)
        if path.stat().st_size > _MANIFEST_LIMIT:
            raise InvalidError(f"{str(path)!r} is too large for a manifest", field=digest)
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])

    def blob(self, digest: str) -> Path:
        """InvalidError when its content is not what the digest says."""
        kind, _, hexadecimal = digest.partition(":")
        if (
            kind != "sha256"
            or len(hexadecimal) != 64
            or not all(one in "0123456789abcdef" for one in hexadecimal)
        ):
            raise InvalidError(f"digest {digest!r} is not one of sha256", field=digest)
        path = self._path / "blobs" / kind / hexadecimal
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != hexadecimal:
            raise InvalidError(f"{str(path)!r} is damaged: its content has the digest {found}", field=digest)
        return path


def resolved(path: Path) -> Path | None:
    """Without links; None where a part cannot be looked at. Links of /proc to the root or directory of another process are
    read as text, so they lead nowhere else."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return None


def _for_this_machine(entries: list[Json], path: Path) -> str:
    machine = platform.machine()
    wanted = _ARCHITECTURES.get(machine, machine)
    for one in entries:
        about = one.get("platform") or {}
        if about.get("architecture") == wanted and about.get("os") == "linux":
            return str(one["digest"])
    raise NotFoundError(f"{str(path)!r} has no image for linux/{wanted}", kind="image", name=str(path))


def _check_layer(layer: Json) -> None:
    kind = str(layer.get("mediaType", ""))
    if kind.endswith("zstd"):
        raise InvalidError(
            f"layers of type {kind} are not supported: store the image with gzip", field=layer["digest"]
        )


def _config(document: Json) -> ImageConfig:
    about = document.get("config") or {}
    return ImageConfig(
        env=tuple(about.get("Env") or ()),
        entrypoint=tuple(about.get("Entrypoint") or ()),
        cmd=tuple(about.get("Cmd") or ()),
        working_dir=about.get("WorkingDir") or "",
        user=about.get("User") or "",
    )
