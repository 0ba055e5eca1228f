"""A real containerd alone, on directories and a cgroup of its own, with two images."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dray.testing.kubernetes import images, leftovers, node
from dray.testing.kubernetes.part import Part, environment, wait_until
from dray.testing.kubernetes.private import PrivateDirectory
from dray.testing.kubernetes.tools import Tools

IMAGE = images.BUSYBOX


@dataclass(frozen=True)
class Containerd:
    """It sees `/run` and `/var/log` of its own; all else is the machine's, so paths below /tmp are the same for both."""

    tools: Tools
    directory: Path
    part: Part

    @property
    def socket(self) -> Path:
        return node.NodeDirs(self.directory).run / "containerd/containerd.sock"

    @property
    def cdi(self) -> Path:
        """Where it looks for CDI files."""
        return node.NodeDirs(self.directory).run / "cdi"

    @property
    def cgroup(self) -> str:
        """What is put there goes with the directory, whatever happens."""
        return f"/{self.directory.name}"

    def start(self) -> None:
        self.part.start()
        wait_until(self.is_answering, "containerd", 30.0, (self.part,))

    def is_answering(self) -> bool:
        return self.socket.exists() and self._ctr("version").returncode == 0

    def restart(self) -> None:
        """As an update of its package does: containers go on."""
        self.part.kill()
        self.start()

    def bring_images(self) -> None:
        archive = self.directory / "images.tar"
        images.write_archive(self.tools.path("busybox"), archive, node.go_architecture())
        self.ctr("images", "import", "--local", "--snapshotter", node.SNAPSHOTTER, str(archive))
        archive.unlink()

    def ctr(self, *arguments: str) -> str:
        done = self._ctr(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv: list[str | Path] = [self.tools.path("ctr"), "-a", self.socket, "-n", "k8s.io", *arguments]
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=60, env=environment(self.directory), check=False
        )


@contextmanager
def containerd(tools: Tools) -> Iterator[Containerd]:
    """Entered = it answers and has the images; left = nothing of it remains."""
    private = PrivateDirectory()
    parts: list[Part] = []
    try:
        leftovers.claim_host_dirs()
        dirs = node.NodeDirs(private.path)
        dirs.make("node-1")
        node.make_cgroups(private.path)
        namespace = Part("namespace", node.namespace_command(dirs), private.path)
        namespace.start()
        parts.append(namespace)
        wait_until(dirs.is_namespace_ready, "the mount namespace", 10.0, (namespace,))
        made = _made(tools, private.path, namespace)
        parts.append(made.part)
        made.start()
        made.bring_images()
        yield made
    finally:
        for part in reversed(parts):
            part.stop(5.0)
        private.close()


def _made(tools: Tools, directory: Path, namespace: Part) -> Containerd:
    config = directory / "containerd.toml"
    node.write_containerd_config(config, tools, directory)
    node.write_network_config(directory)
    shims = tools.path("containerd-shim-runc-v2").parent
    enter = ["nsenter", f"--mount=/proc/{namespace.pid}/ns/mnt", "--"]
    path = {"PATH": f"{shims}:{os.environ.get('PATH', os.defpath)}"}
    argv: list[str | Path] = [*enter, tools.path("containerd"), "--config", config]
    return Containerd(tools, directory, Part("containerd", argv, directory, path))
