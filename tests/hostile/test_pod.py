"""A pod: what its containers put into its volumes, its image and its fields never reaches the host."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.errors import DeniedError, Error, InvalidError
from dray.kubelet.pods.volumes import Volumes
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, Security
from dray.kubelet.runtimes.images import Images
from dray.kubelet.runtimes.shim_log import Log, open_directory
from dray.kubelet.runtimes.users import check_non_root, find_owner
from dray.kubelet.server.log_files import open_log
from dray.runtime.clock import SystemClock
from dray.runtime.files.removal import remove_tree
from tests.hostile.programs.pod_mounts import SCENES
from tests.kubelet.pods.test_environment import Objects

ROOT = Path(__file__).parents[2]
DEPTH = 300


def pod(*volumes: dict[str, Any], sub_path: str = "", uid: str = "u1") -> Pod:
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}", "subPath": sub_path} for one in volumes]
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": uid},
        "spec": {"volumes": list(volumes), "containers": [{"name": "c", "volumeMounts": mounts}]},
    }
    return view(document, Pod)


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    return Volumes(tmp_path / "pods", Objects(), SystemClock(), has_mounts=False)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the host."""
    path = tmp_path / "host" / "secret"
    path.parent.mkdir()
    path.write_text("of the host")
    return path


EMPTY = {"name": "v", "emptyDir": {}}
WAYS_OUT: dict[str, dict[str, str]] = {
    "to the root": {"x": "/"},
    "absolute": {"x": "{host}"},
    "absolute and inside": {"x": "{volume}"},
    "climbing": {"x": "../../../../host"},
    "climbing far": {"x": "../" * 40},
    "two links": {"x": "y", "y": ".."},
    "dangling": {"x": "{host}/new"},
    "dangling inside": {"x": "new"},
    "a loop": {"x": "x"},
    "the kernel's own": {"x": "/proc/self/root"},
}
"""What a container may do in its volume before the next one mounts `subPath: x`."""


@pytest.mark.parametrize("sub_path", ["x", "x/secret", "x/a/b"])
@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_sub_path_never_leads_out_of_its_volume(
    volumes: Volumes, secret: Path, way: str, sub_path: str
) -> None:
    one = pod(EMPTY, sub_path=sub_path)
    made = volumes.make(one)
    volume = made["v"].path
    for name, target in WAYS_OUT[way].items():
        (volume / name).symlink_to(target.format(host=secret.parent, volume=volume))
    before = sorted(secret.parent.rglob("*"))
    with pytest.raises(InvalidError, match='failed to prepare subPath for volumeMount "v" of container "c"'):
        volumes.mounts(one, one.spec.containers[0], made, {})
    assert sorted(secret.parent.rglob("*")) == before


def test_links_that_stay_in_the_volume_mean_what_they_say(volumes: Volumes) -> None:
    one = pod(EMPTY, sub_path="x/file")
    made = volumes.make(one)
    (made["v"].path / "a").mkdir()
    (made["v"].path / "a" / "file").touch()
    (made["v"].path / "x").symlink_to("./a/../a")
    assert volumes.mounts(one, one.spec.containers[0], made, {})


@pytest.mark.parametrize("name", [".k.new", "k", "..data", "..data_tmp", "..2026"])
@pytest.mark.parametrize("kind", ["link", "directory", "fifo"])
def test_nothing_is_written_through_what_lies_in_a_volume_of_an_object(
    volumes: Volumes, secret: Path, name: str, kind: str
) -> None:
    """A volume that was once writable, of a kubelet before 0.2: the container has put something under every name."""
    one = pod({"name": "v", "configMap": {"name": "cm", "items": [{"key": "k", "path": "k"}]}})
    volume = volumes.make(one)["v"].path
    remove_tree(volume / name)
    if kind == "link":
        (volume / name).symlink_to(secret)
    elif kind == "directory":
        (volume / name / "below").mkdir(parents=True)
    else:
        os.mkfifo(volume / name)
    volumes.make(one)
    assert secret.read_text() == "of the host"
    assert (volume / "k").read_text() == "v"
    assert sorted(each.name for each in volume.iterdir() if not each.name.startswith("..2")) == [
        "..data",
        "k",
    ]


def test_a_volume_of_an_object_may_be_deeper_than_the_stack(volumes: Volumes) -> None:
    """The container of a kubelet before 0.2 has made directories beside its key, one in the other."""
    one = pod({"name": "v", "configMap": {"name": "cm"}})
    volume = volumes.make(one)["v"].path
    at = os.open(volume / "..data", os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    before = (volume / "..data").readlink()
    volumes.make(one)
    assert sorted(each.name for each in (volume / "..data").iterdir()) == ["k", "l"]
    assert (volume / "..data").readlink() != before
    current = (volume / "..data").readlink()
    volumes.make(one)
    assert (volume / "..data").readlink() == current


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "..x",
        "..data",
        "/etc/x",
        "a/../../x",
        "a//b",
        "./a",
        "",
        "x" * 300,
        "a/" * 3000,
        "a/" * 64 + "b",
        "a\0b",
    ],
)
def test_paths_of_files_that_would_leave_their_volume(volumes: Volumes, path: str) -> None:
    one = pod({"name": "v", "configMap": {"name": "cm", "items": [{"key": "k", "path": path}]}})
    with pytest.raises(InvalidError, match="volume v: file"):
        volumes.make(one)


def test_no_mode_makes_a_file_run_as_its_owner(volumes: Volumes) -> None:
    with pytest.raises(InvalidError, match="mode 4755"):
        volumes.make(pod({"name": "v", "configMap": {"name": "cm", "defaultMode": 0o4755}}))


def in_a_worker(act: Callable[[], None], files: int = 64) -> None:
    """With few descriptors and a low stack."""
    child = os.fork()
    if child == 0:
        try:
            os.closerange(3, 1024)  # those of the tests before
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
            sys.setrecursionlimit(DEPTH)
            act()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  (told, and the child ends)
            os.write(2, repr(error).encode())
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_volume_of_any_shape_is_removed(volumes: Volumes, secret: Path) -> None:
    """Deeper than Python's stack and than there are descriptors; closed, linked, with the longest names."""
    volume = volumes.make(pod(EMPTY))["v"].path
    at = os.open(volume, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=at)
        os.symlink(secret.parent, "link", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    for name in ("é" * 127, "new\nline", "-rf", "\udcff"):
        (volume / name).mkdir(mode=0)
    os.mkfifo(volume / "fifo")
    os.link(secret, volume / "hard")
    for number in range(1500):
        (volume / f"many{number}").touch()
    in_a_worker(lambda: volumes.remove("u1"))
    assert not volume.parents[1].exists()
    assert (secret.read_text(), os.stat(secret).st_nlink) == ("of the host", 1)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_a_log_is_a_file_or_it_is_not_read(tmp_path: Path, secret: Path, kind: str) -> None:
    """A pod with a hostPath of the logs, say a collector, plants something for `kubectl logs` to show."""
    log = tmp_path / "0.log"
    if kind == "link":
        log.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(log)
    else:
        log.mkdir()
    with pytest.raises(DeniedError, match=r"0\.log"):
        open_log(log)


@pytest.mark.parametrize("name", ["0.log", "0.log.new"])
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_log_is_a_file_or_it_is_not_written(tmp_path: Path, secret: Path, name: str, kind: str) -> None:
    """The same pod waits for the next attempt, or for the file to be full: the container's words go to no file of the host."""
    if kind == "link":
        (tmp_path / name).symlink_to(secret)
    else:
        os.mkfifo(tmp_path / name)
    if name == "0.log":
        with pytest.raises(OSError, match=r"0\.log"):
            Log(str(tmp_path / "0.log"))
    else:
        log = Log(str(tmp_path / "0.log"), size=10)
        for _ in range(5):
            log.write(b"eight..\n")
        assert (tmp_path / "0.log").read_text() == "eight..\n"
    assert secret.read_text() == "of the host"


@pytest.mark.parametrize("swapped", ["ns_p_u1", "ns_p_u1/c"])
def test_no_link_in_place_of_a_logs_directory_is_followed(tmp_path: Path, secret: Path, swapped: str) -> None:
    """The same pod renames the directory of another one and puts a link there: neither is anything made in the directory
    that it leads to, nor written, nor read, nor renamed. A link to the directory of all logs is the administrator's."""
    root, place = tmp_path / "logs", tmp_path / "logs" / "ns_p_u1" / "c"
    (tmp_path / "real").mkdir()
    root.symlink_to("real")
    os.close(open_directory(str(place), str(root), make=True))
    log = Log(str(place / "0.log"), 10, 2, str(root))
    log.write(b"before.\n")
    (root / swapped).rename(root / "old")
    (root / swapped).symlink_to(secret.parent if swapped.endswith("c") else secret.parents[1])
    (secret.parent / "0.log").write_text("of the host")
    (tmp_path / "c").symlink_to("host")
    log.write(b"after..\n")
    for make in (False, True):
        with pytest.raises(OSError, match="ns_p_u1/c"):
            open_directory(str(place), str(root), make=make)
    with pytest.raises(OSError, match="ns_p_u1/c"):
        Log(str(place / "0.log"), root=str(root))
    with pytest.raises(Error, match="ns_p_u1/c"):
        open_log(place / "0.log", root)
    kept = root / "old" if swapped.endswith("c") else root / "old" / "c"
    assert sorted(each.read_text() for each in kept.iterdir()) == ["after..\n", "before.\n"]
    assert sorted(each.name for each in secret.parent.iterdir()) == ["0.log", "secret"]
    assert (secret.parent / "0.log").read_text() == "of the host"


def config(security: Security) -> ContainerConfig:
    return ContainerConfig(PodIdentity("u1", "ns", "p"), "c", "i", Path("/log"), security=security)


@pytest.mark.parametrize(
    ("user", "passwd"),
    [
        ("", ""),
        ("0", ""),
        ("000", ""),
        ("root", "root:x:0:0::/:/bin/sh\n"),
        ("me", "me:x:0:0::/:/bin/sh\n"),
        ("me", "me:x:00:7::/:/bin/sh\n"),
    ],
)
def test_no_image_makes_a_pod_with_run_as_non_root_run_as_root(user: str, passwd: str) -> None:
    security = Security(non_root=True)
    with pytest.raises(InvalidError, match="container has runAsNonRoot and image will run as root"):
        check_non_root(config(security), find_owner(security, user, passwd).uid)


@pytest.mark.parametrize("security", [Security(user=1000), Security(user=1000, non_root=True)])
def test_no_image_makes_the_pods_own_number_root(security: Security) -> None:
    """A row that calls root "1000" is a name; a number is never looked up as one, neither the image's nor the pod's."""
    passwd, group = "1000:x:0:0::/:/bin/sh\n", "1000:x:0:1000\n"
    owner = find_owner(security, "", passwd, group)
    assert (owner.uid, owner.gid, owner.groups) == (1000, 0, (0,))
    assert find_owner(Security(), "1000:1000", passwd, group).gid == 1000
    check_non_root(config(security), owner.uid)


@pytest.mark.parametrize("number", ["4294967296", "4294967295", "9" * 5000, "²", "٣", "-1", "0x0", " 0"])
def test_numbers_of_users_that_mean_something_else_to_the_kernel(number: str) -> None:
    """2**32 is 0 to the kernel, and -1 is nobody; a row of the image's files that has such a number does not count."""
    security = Security(non_root=True)
    with pytest.raises(InvalidError):
        check_non_root(config(security), find_owner(security, number, f"me:x:{number}:0::/:/bin/sh\n").uid)


def test_the_pods_own_user_counts_before_the_images() -> None:
    own = Security(non_root=True, user=0)
    with pytest.raises(
        InvalidError, match=r"runAsUser breaks non-root policy \(pod: \"p_ns\(u1\)\", container: c\)"
    ):
        check_non_root(config(own), find_owner(own, "1000").uid)
    fine = Security(non_root=True, user=1000)
    check_non_root(config(fine), find_owner(fine, "root", "root:x:0:0::/:/bin/sh\n").uid)
    with pytest.raises(
        InvalidError, match=r"image has non-numeric user \(web\), cannot verify user is non-root"
    ):
        check_non_root(config(Security(non_root=True)), None, "web")


@pytest.mark.parametrize(
    "reference",
    [
        "dir:/",
        "/",
        "//",
        "dir:///",
        "dir:/.",
        "dir:/etc/..",
        "{images}/..",
        "dir:{images}/../host",
        "dir:{images}/link",
        "dir:{images}/link/",
        "dir:{images}/link/../link/",
        "dir:/proc/1/root",
        "dir:/proc/self/root/etc",
        "dir:/proc/self/cwd",
        "dir:/proc/thread-self/root",
        "dir:/dev/fd/../../root",
        "dir:{images}-other",
        "dir:/no/such/place",
        "oci:/",
        "oci:{images}/link",
        "oci:{images}/link:tag",
        "oci:/proc/self/cwd:tag",
        "host",
    ],
)
def test_no_image_shows_a_directory_that_is_not_for_images(
    tmp_path: Path, secret: Path, reference: str
) -> None:
    allowed = tmp_path / "images"
    (allowed / "one").mkdir(parents=True)
    (tmp_path / "images-other").mkdir()
    (allowed / "link").symlink_to(secret.parent)
    images = Images(tmp_path / "cache", allow_host=False, directories=(allowed,))
    with pytest.raises(DeniedError, match=r"--image-dir|--allow-host-image"):
        images.have(reference.format(images=allowed))
    assert images.have(f"dir:{allowed}/one").rootfs == allowed / "one"


def test_a_directory_for_images_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "one").mkdir(parents=True)
    (tmp_path / "images").symlink_to("real")
    images = Images(tmp_path / "cache", allow_host=False, directories=(tmp_path / "images",))
    assert images.have(f"dir:{tmp_path}/images/one").rootfs == tmp_path / "real" / "one"


def test_mounts_of_volumes(tmp_path: Path) -> None:
    """The scenes of the program, run where it may mount and nobody else sees it."""
    for prefix in (("unshare", "-Urm"), ("unshare", "-m")):
        can = shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True, check=False)
        if can and can.returncode == 0:
            argv = [*prefix, sys.executable, "-m", "tests.hostile.programs.pod_mounts", str(tmp_path)]
            done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == dict.fromkeys(SCENES, "")
            return
    pytest.skip("neither user namespaces nor root: nothing can be mounted here")
