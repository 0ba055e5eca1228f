from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError, UnavailableError
from dray.hardware import mount_namespace
from dray.hardware.change import BindDriver, Chmod, CreateMdev
from dray.hardware.change.access import Limits
from dray.hardware.change.executor import Executor
from dray.hardware.mount_namespace import Namespace
from dray.testing.host import Host, MdevType

LIMITS = Limits(effect=5, node=5, process=20)
UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa0001"
MAY_MOUNT = (
    os.geteuid() == 0
    and shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
)
mounts = pytest.mark.skipif(not MAY_MOUNT, reason="needs root and the right to make mount namespaces")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "root")


@contextlib.contextmanager
def namespace(script: str, *arguments: Path) -> Iterator[Path]:
    """A mount namespace in which a shell has run `script`; the file that stands for it."""
    command = f"set -e; {script}; echo ready; exec sleep 300"
    argv = ["unshare", "-m", "sh", "-c", command, "sh", *map(str, arguments)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None and holder.stderr is not None
            assert holder.stdout.readline() == b"ready\n", holder.stderr.read()
            yield Path(f"/proc/{holder.pid}/ns/mnt")
        finally:
            holder.kill()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@mounts
def test_a_change_lands_in_the_other_namespace(tmp_path: Path) -> None:
    """The same path is another file there, and only that one is changed."""
    for name in ("here", "there"):
        (tmp_path / name / "dev").mkdir(parents=True)
        (tmp_path / name / "dev/kvm").touch(0o600)
    here, there = tmp_path / "here", tmp_path / "there"
    with namespace('mount --bind "$1" "$2"', there, here) as file:
        effect = mount_namespace.run(Chmod("/dev/kvm", 0o666), here, LIMITS, Namespace(file, here))
        assert effect.changed and effect.undo == Chmod("/dev/kvm", 0o600)
        assert (mode(there / "dev/kvm"), mode(here / "dev/kvm")) == (0o666, 0o600)
        with pytest.raises(NotFoundError, match="/dev/none"):
            mount_namespace.run(Chmod("/dev/none", 0o666), here, LIMITS, Namespace(file, here))


@mounts
def test_a_read_only_tree_is_changed_by_way_of_the_namespace(host: Host) -> None:
    """As in a container: our /sys cannot be written, the host's can. A program in a namespace of its own tries both."""
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    program = (
        "import json, sys; from pathlib import Path\n"
        "from dray.errors import Error; from dray.hardware.change import CreateMdev\n"
        "from dray.hardware.change.executor import Executor\n"
        "from dray.hardware.mount_namespace import Namespace\n"
        "root, file, uuid = sys.argv[1:]; change = CreateMdev('mtty', 'mtty-1', uuid)\n"
        "try: Executor(Path(root), lambda entry: None).apply(change)\n"
        "except Error as error: print(json.dumps([type(error).__name__, str(error)]))\n"
        "way = Namespace(Path(file), Path(root))\n"
        "print(json.dumps(Executor(Path(root), lambda entry: None, way).apply(change).changed))\n"
    )
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; exec "$2" -c "$3" "$1" "$4" "$5"'
    ours = f"/proc/{os.getpid()}/ns/mnt"
    argv = ["unshare", "-m", "sh", "-c", script, "sh"]
    with host.active():
        done = subprocess.run(
            [*argv, str(host.root), sys.executable, program, ours, UUID],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first[0] == "DeniedError" and "read-only" in first[1] and "mount namespace" in first[1]
    assert second is True and UUID in parent.mdevs


@mounts
def test_nothing_of_the_other_namespace_is_imported(tmp_path: Path) -> None:
    """There the place of Python and of Dray holds traps: modules that leave a trace when they are imported."""
    trace, trap, tree = tmp_path / "trace", tmp_path / "trap", tmp_path / "tree"
    (tree / "dev").mkdir(parents=True)
    (tree / "dev/kvm").touch(0o600)
    trap.mkdir()
    sources = [Path(mount_namespace.__file__).parents[1], Path(json.__file__).parents[1]]
    for source in sources:
        for path in source.glob("*"):
            name = f"{path.stem}.py" if path.is_file() else f"{path.name}/__init__.py"
            (trap / name).parent.mkdir(exist_ok=True, parents=True)
            (trap / name).write_text(f"open({str(trace)!r}, 'a').write(__name__)\n")
    script = 'mount --bind "$1" "$2"; mount --bind "$1" "$3"'
    with namespace(script, trap, *sources) as file:
        assert mount_namespace.run(Chmod("/dev/kvm", 0o666), tree, LIMITS, Namespace(file, tree)).changed
        with pytest.raises(NotFoundError):
            mount_namespace.run(Chmod("/dev/none", 0o666), tree, LIMITS, Namespace(file, tree))
    assert not trace.exists() and mode(tree / "dev/kvm") == 0o666


def test_our_own_namespace_is_not_the_hosts(host: Host) -> None:
    """What /proc/1/ns/mnt is without hostPID."""
    with pytest.raises(DeniedError, match="hostPID: true"):
        mount_namespace.run(
            Chmod("/dev/x", 0o600), host.root, LIMITS, Namespace(Path(f"/proc/{os.getpid()}/ns/mnt"))
        )


def test_files_that_are_no_namespace(host: Host) -> None:
    with pytest.raises(NotFoundError, match="hostPID: true"):
        mount_namespace.run(Chmod("/x", 0o600), host.root, LIMITS, Namespace(Path("/proc/0/ns/mnt")))


@mounts
def test_a_file_of_another_kind(host: Host) -> None:
    with pytest.raises(InvalidError, match="like /proc/1/ns/mnt"):
        mount_namespace.run(Chmod("/x", 0o600), host.root, LIMITS, Namespace(Path("/proc/self/ns/uts")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look at every process")
def test_a_stranger_is_told_what_is_missing(host: Host) -> None:
    with pytest.raises(DeniedError, match="CAP_SYS_ADMIN"):
        mount_namespace.run(Chmod("/dev/x", 0o600), host.root, LIMITS, Namespace())


@mounts
def test_without_the_capability(host: Host) -> None:
    """Root without CAP_SYS_ADMIN, as in a container that is not privileged."""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    program = (
        "import sys; from pathlib import Path; from dray.errors import DeniedError\n"
        "from dray.hardware import mount_namespace; from dray.hardware.change import Chmod\n"
        "from dray.hardware.change.access import Limits\n"
        "space = mount_namespace.Namespace(Path(sys.argv[1]))\n"
        "try: mount_namespace.run(Chmod('/dev/x', 0o600), Path('/'), Limits(), space)\n"
        "except DeniedError as error: print(error)\n"
    )
    with namespace("true") as file:
        argv = [
            "setpriv",
            "--bounding-set=-sys_admin",
            "--inh-caps=-sys_admin",
            sys.executable,
            "-c",
            program,
        ]
        done = subprocess.run([*argv, str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert "CAP_SYS_ADMIN" in done.stdout and "privileged" in done.stdout, done.stdout + done.stderr


def test_a_writer_that_the_kernel_holds_is_given_up(host: Host) -> None:
    """A lease stands for vfio, which keeps the writer to `unbind` waiting as long as a machine uses the device."""
    host.driver("vfio-pci")
    host.pci("0000:05:00.0", vendor="8086", device="10d3", driver="e1000e", iommu_group=2)
    override = os.open(host.root / "sys/bus/pci/devices/0000:05:00.0/driver_override", os.O_RDONLY)
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(override, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        with pytest.raises(ConflictError, match=r"could not bind 0000:05:00\.0 .* probably in use"):
            Executor(host.root, lambda _: None, limits=Limits(process=1)).apply(
                BindDriver("0000:05:00.0", "vfio-pci")
            )
    finally:
        os.close(override)
        signal.signal(signal.SIGIO, old)


def test_nobody_queues_behind_a_writer_that_hangs(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "300"]) as stuck:
        monkeypatch.setitem(mount_namespace._left_behind, "/dev/x", stuck)
        with pytest.raises(
            ConflictError, match=rf"/dev/x.*still waits in the kernel \(process {stuck.pid}\)"
        ):
            mount_namespace.run(Chmod("/dev/x", 0o600), host.root, LIMITS)
        stuck.kill()
        stuck.wait()
        with pytest.raises(NotFoundError):
            mount_namespace.run(Chmod("/dev/x", 0o600), host.root, LIMITS)
        assert not mount_namespace._left_behind


def test_a_child_that_dies_is_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UnavailableError, match=r"the process .*/dev/x.* ended with 1"):
        mount_namespace.run(Chmod("/dev/x", 0o600), host.root, LIMITS)


def test_nothing_is_left_open(host: Host) -> None:
    before = len(os.listdir("/proc/self/fd"))
    host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    with host.active():
        effect = mount_namespace.run(CreateMdev("mtty", "mtty-1", UUID), host.root, LIMITS)
    assert effect.changed and effect.undo is not None
    assert len(os.listdir("/proc/self/fd")) == before
