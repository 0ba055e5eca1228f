"""Containers of the real runc, from an OCI bundle that we write. Needs root.

A pod's containers share the network, IPC and host name of its sandbox. A pod without the host's network has loopback
only. Where the kubelet is a systemd service it needs KillMode=process, or its stop ends the containers too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
import signal
import sys
from collections.abc import Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dray.cdi.host import host_stat
from dray.cdi.inject import inject
from dray.cdi.registry import DIRECTORIES, read_registry
from dray.errors import Error, InvalidError, NotFoundError, UnavailableError
from dray.kubelet.runtimes import mounts, namespaces
from dray.kubelet.runtimes.capabilities import ALL_CAPABILITIES
from dray.kubelet.runtimes.contract import LOCALHOST, ContainerConfig, LogLimits
from dray.kubelet.runtimes.hidden import masked_paths
from dray.kubelet.runtimes.host_devices import with_host_devices
from dray.kubelet.runtimes.images import IMAGES, Image, Images
from dray.kubelet.runtimes.kept import KeptRuntime
from dray.kubelet.runtimes.liveness import Identity, send, wait_ended
from dray.kubelet.runtimes.oci_spec import Place, make_spec
from dray.kubelet.runtimes.records import CONTAINERS, SANDBOXES, TRASH, SandboxRecord, make_id, write
from dray.kubelet.runtimes.seccomp import PROFILES
from dray.kubelet.runtimes.users import Owner, check_non_root, find_owner
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.safepath import Links, Root
from dray.runtime.logs import get_log
from dray.runtime.threads import Threads

_log = get_log("kubelet.runtimes.runc")

NAME = "runc"
_RUNC_SECONDS = 60.0
_UNPACK_SECONDS = 600.0
_MOUNT_SECONDS = 30.0
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FILE_LIMIT = 1 << 20


class RuncSettings(msgspec.Struct, frozen=True):
    """`root` holds all state. `runc` is looked for in the usual places where none is given."""

    root: Path
    runc: Path | None = None
    allow_host_image: bool = False
    cdi_directories: tuple[Path, ...] = tuple(DIRECTORIES)
    logs: LogLimits = LogLimits()
    image_dirs: tuple[Path, ...] = (IMAGES,)
    """Images are taken from below these; from anywhere with `allow_host_image`, which shows everything anyhow."""
    seccomp: Path = PROFILES
    """Where the node's own seccomp profiles are."""


class RuncRuntime(KeptRuntime):
    """The runtime."""

    def __init__(self, settings: RuncSettings, clock: Clock | None = None) -> None:
        super().__init__(settings.root, RuncEngine(settings), clock or SystemClock(), settings.logs)


class RuncEngine:
    """Implements `engine.Engine`."""

    def __init__(self, settings: RuncSettings) -> None:
        self._settings = settings
        self._state = settings.root / "runc"
        self._images = Images(
            settings.root / "images", allow_host=settings.allow_host_image, directories=settings.image_dirs
        )
        self._threads = Threads()

    @property
    def name(self) -> str:
        """As containerd would say it of itself."""
        return NAME

    @property
    def has_mounts(self) -> bool:
        """All in a mount namespace of their own."""
        return True

    async def check_ready(self) -> None:
        """Root, runc and overlay file systems are needed."""
        if os.geteuid() != 0:
            raise UnavailableError(
                "the runc runtime needs root: run as root, or use the process runtime (no isolation)"
            )
        if not mounts.has_filesystem("overlay"):
            raise UnavailableError("the kernel has no overlay file system: load it (modprobe overlay)")
        await self._runc("--version")

    async def ensure_image(self, image: str) -> None:
        """Unpack it if it is a layout."""
        await self._image(image)

    async def raise_sandbox(self, record: SandboxRecord, directory: Path) -> None:
        """In a process of its own, which ends: bind mounts hold the namespaces."""
        if self.is_sandbox_up(record, directory):
            return
        script = ["-I", "-S", namespaces.__file__, str(directory), record.hostname, *_shared(record)]
        code, output = await _run([sys.executable, *script], "make the namespaces of a pod")
        if code != 0:
            raise UnavailableError(f"cannot make the namespaces of pod {record.pod.name}: {output}")

    def is_sandbox_up(self, record: SandboxRecord, directory: Path) -> bool:
        """Whether its namespaces are held."""
        return all(mounts.is_namespace(directory / kind) for kind in _shared(record))

    async def drop_sandbox(self, directory: Path) -> None:
        """The kernel ends the namespaces with the last container in them."""
        mounts.unmount_below(directory)

    async def describe(
        self, item: str, config: ContainerConfig, sandbox: SandboxRecord, staged: Path, final: Path
    ) -> dict[str, object]:
        """The bundle. InvalidError for unknown CDI devices, HardwareError for device nodes that are not there."""
        image = await self._image(config.image)
        owner = _owner(config, image)
        check_non_root(config, owner.uid)
        bundle = staged / "bundle"
        (bundle / "rootfs").mkdir(parents=True)
        shared = {
            _OCI_KINDS[kind]: str(final.parents[1] / SANDBOXES / sandbox.id / kind)
            for kind in _shared(sandbox)
        }
        place = Place(
            str(final / "bundle" / "rootfs"),
            cgroup_of(self._settings.root, item),
            shared,
            _own(sandbox),
            _known_capabilities(),
            masked_paths(),
            platform.machine(),
            _local_profile(config, self._settings.seccomp),
            _oom_score(),
            can_limit_swap(),
        )
        spec = make_spec(with_host_devices(config), image.config, owner, place, host_stat)
        if config.cdi_devices:
            spec = inject(spec, read_registry(self._settings.cdi_directories), config.cdi_devices, host_stat)
        write(bundle, "config.json", spec)
        write(staged, "image.json", {"rootfs": str(image.rootfs), "host": image.is_host})
        return {
            "kind": "runc",
            "runc": str(self._program()),
            "runc_root": str(self._state),
            "bundle": str(final / "bundle"),
        }

    async def make_ready(self, item: str, directory: Path) -> None:
        """Mount the container's own view of its image; the image itself is never written to."""
        call = partial(mount_rootfs, directory)
        await self._threads.run(call, doing=f"mount the root of container {item}", seconds=_MOUNT_SECONDS)

    async def drop_unstarted(self, item: str) -> None:
        """The pipe at which runc's own process waits is gone as soon as the container's program is begun."""
        if (self._state / item / "exec.fifo").exists():
            await self._delete(item)

    async def kill(self, item: str, process: Identity | None) -> None:
        """runc ends all that is in its cgroup."""
        await self._delete(item)
        if process is not None:
            send(process, signal.SIGKILL)
            await wait_ended(process, _RUNC_SECONDS)

    async def clean(self, item: str, directory: Path) -> None:
        """Its cgroup, its state in runc, its mounts."""
        await self._delete(item)
        mounts.unmount_below(directory)

    async def sweep(self, root: Path, items: Set[str]) -> None:
        """Mounts, containers of runc, and images half unpacked."""
        for path in _stale_mounts(root, items):
            mounts.unmount(path)
        for item in os.listdir(self._state) if self._state.is_dir() else ():  # noqa: PTH208
            if item not in items:
                _log.info("removing a container of runc that nobody knows", container=item)
                await self._delete(item)
        self._images.sweep()

    async def _image(self, reference: str) -> Image:
        return await self._threads.run(
            partial(self._images.have, reference),
            doing=f"unpack image {reference}",
            seconds=_UNPACK_SECONDS,
            alone_on=(reference,),
        )

    async def _delete(self, item: str) -> None:
        if (self._state / item).exists():
            await self._runc("--root", str(self._state), "delete", "--force", item)

    async def _runc(self, *arguments: str) -> None:
        code, output = await _run([str(self._program()), *arguments], f"run runc {arguments[-1]}")
        if code != 0:
            raise UnavailableError(f"runc {' '.join(arguments)} failed: {output}")

    def _program(self) -> Path:
        found = self._settings.runc or shutil.which("runc", path=f"{os.environ.get('PATH', '')}:{_PLACES}")
        if found is None or not Path(found).exists():
            raise UnavailableError(
                f"there is no runc{f' at {found}' if found else ''}: install it (package runc)"
            )
        return Path(found)


def cgroup_of(root: Path, item: str) -> str:
    """At the top of every hierarchy. Two kubelets on one machine may have a pod of the same id, so the root is in it."""
    return f"/dray-{make_id(root)[:8]}-{item}"


_OCI_KINDS = {"ipc": "ipc", "net": "network", "uts": "uts"}


def _shared(record: SandboxRecord) -> tuple[str, ...]:
    """What the sandbox holds. With the host's network goes the host's name."""
    return ("ipc",) if record.host_network else ("ipc", "net", "uts")


def _own(record: SandboxRecord) -> tuple[str, ...]:
    unified = ("cgroup",) if Path("/sys/fs/cgroup/cgroup.controllers").exists() else ()
    return ("mount", *(() if record.host_pid else ("pid",)), *unified)


def _known_capabilities() -> tuple[str, ...]:
    """Those that we have ourselves: no others can be given."""
    lines = Path("/proc/self/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return tuple(name for place, name in enumerate(ALL_CAPABILITIES) if mask >> place & 1)


def _local_profile(config: ContainerConfig, directory: Path) -> dict[str, Any] | None:
    """The seccomp profile of the node that the pod names, as its file has it."""
    wanted = config.security.seccomp
    if wanted.type != LOCALHOST or config.security.privileged:
        return None
    try:
        with Root(directory) as root, root.open(wanted.name, links=Links.WITHIN) as file:
            return msgspec.json.decode(file.read(_FILE_LIMIT), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        path = directory / wanted.name
        raise InvalidError(
            f"seccomp profile {str(path)!r} is no JSON object: {error}", field="seccompProfile"
        ) from error


def _oom_score() -> int:
    """Ours, but never one that spares a container: a kubelet is often the last that the kernel may end."""
    return max(0, int(Path("/proc/self/oom_score_adj").read_text()))


def can_limit_swap(cgroups: Path = Path("/sys/fs/cgroup")) -> bool:
    """Whether the kernel has a swap controller (cgroup v1 or v2). Without one, runc refuses a swap limit."""
    return (cgroups / "memory/memory.memsw.limit_in_bytes").exists() or any(cgroups.glob("*/memory.swap.max"))


def _owner(config: ContainerConfig, image: Image) -> Owner:
    with Root(image.rootfs) as root:
        return find_owner(
            config.security, image.config.user, _text(root, "etc/passwd"), _text(root, "etc/group")
        )


def _text(root: Root, path: str) -> str:
    """Of a file in the image, which may be a link, but never one out of it; empty when it is not there."""
    with contextlib.suppress(NotFoundError, InvalidError), root.open(path, links=Links.FOLLOW) as file:
        return file.read(_FILE_LIMIT).decode("utf-8", "replace")
    return ""


def mount_rootfs(directory: Path) -> None:
    """Over the image, a layer of the container's own: on disk, or in memory for the host's root and where disk cannot.

    Mounted already: left as it is.
    """
    target, layer = directory / "bundle" / "rootfs", directory / "layer"
    if target.resolve() in mounts.mounted_below(directory.resolve()):
        return
    image: dict[str, Any] = msgspec.json.decode((directory / "image.json").read_bytes())
    mounts.unmount_below(directory)
    # The image was found without links on the way; one that is there now was put there since.
    with Root(Path("/")) as root, root.open(image["rootfs"].strip("/") or ".") as rootfs:
        _mount_over(Path(rootfs.proc_path), layer, target, in_memory=image["host"])


def _mount_over(lower: Path, layer: Path, target: Path, *, in_memory: bool) -> None:
    if not in_memory:
        try:
            _mount_overlay(lower, layer, target)
            return
        except Error:  # an overlay cannot lie on every file system, not on another overlay for one
            pass
    _mount_memory(layer)
    _mount_overlay(lower, layer, target)


def _mount_memory(layer: Path) -> None:
    layer.mkdir(mode=0o700, exist_ok=True)
    mounts.mount("tmpfs", layer, "tmpfs", mounts.MS_NODEV, "mode=700")


def _mount_overlay(lower: Path, layer: Path, target: Path) -> None:
    upper, work = layer / "upper", layer / "work"
    for path in (upper, work):
        path.mkdir(parents=True, exist_ok=True)
    upper.chmod(lower.stat().st_mode & 0o7777)
    mounts.mount("overlay", target, "overlay", mounts.MS_NODEV, mounts.overlay_options([lower], upper, work))


def _stale_mounts(root: Path, items: Set[str]) -> list[Path]:
    """Those of what is no container or sandbox of ours any more, the last mounted first."""
    top = root.resolve()
    below = [(path, path.relative_to(top).parts) for path in mounts.mounted_below(top)]
    kinds = (CONTAINERS, SANDBOXES, TRASH)
    return [path for path, parts in below if parts and parts[0] in kinds and not items & set(parts[1:2])]


async def _run(argv: Sequence[str], doing: str) -> tuple[int, str]:
    """Exit code and output of a short program."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise UnavailableError(f"cannot run {argv[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(_RUNC_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        raise UnavailableError(f"could not {doing} in {_RUNC_SECONDS:g} s") from None
    return process.returncode or 0, output.decode("utf-8", "replace").strip()[-1000:]
