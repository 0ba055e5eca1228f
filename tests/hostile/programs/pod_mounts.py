"""What a pod does to the mounts of its volumes: `python -m … DIRECTORY`, in a mount namespace of its own."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dray.api.codec import view
from dray.api.core import Pod
from dray.errors import ConflictError, Error
from dray.kubelet.pods.volumes import Volumes
from dray.kubelet.runtimes import mounts
from dray.runtime.clock import SystemClock
from dray.runtime.files.removal import remove_tree
from tests.hostile.programs.slow_start import Starting
from tests.kubelet.pods.test_environment import Objects

_TRIES = 40
_HERE, _EXCHANGE = -100, 2


def pod(*mounted: tuple[dict[str, Any], str]) -> Pod:
    """With one container that mounts each volume with its subPath."""
    named = [{"name": f"v{number}", **volume} for number, (volume, _) in enumerate(mounted)]
    wanted = [
        {"name": f"v{number}", "mountPath": f"/{number}", "subPath": sub_path}
        for number, (_, sub_path) in enumerate(mounted)
    ]
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": {"volumes": named, "containers": [{"name": "c", "volumeMounts": wanted}]},
    }
    return view(document, Pod)


class World:
    """A kubelet's volumes, and files of the host beside them."""

    def __init__(self, directory: Path) -> None:
        self.pods = directory / "pods"
        self.host = directory / "host"
        self.host.mkdir()
        (self.host / "secret").write_text("of the host")

    def volumes(self) -> Volumes:
        """As a kubelet has them after its start."""
        return Volumes(self.pods, Objects(), SystemClock(), has_mounts=True)

    def places(self, one: Pod) -> list[Path]:
        """What the runtime is given for each mount."""
        volumes = self.volumes()
        found = volumes.mounts(one, one.spec.containers[0], volumes.make(one), {})
        return [Path(mount.host_path) for mount in found]

    def mounted(self) -> list[Path]:
        return mounts.mounted_below(self.pods.resolve())

    def volume(self, number: int = 0) -> Path:
        return self.pods / "u1" / "volumes" / f"v{number}"


EMPTY: dict[str, Any] = {"emptyDir": {}}


def held_whatever_the_container_does(world: World) -> None:
    """What was found is what the runtime gets, whatever the name means by then."""
    one = pod((EMPTY, "x"))
    (place,) = world.places(one)
    (world.volume() / "x" / "own").touch()
    (world.volume() / "x").rename(world.volume() / "y")
    (world.volume() / "x").symlink_to(world.host)
    assert [each.name for each in place.iterdir()] == ["own"]
    assert world.volume() not in place.parents
    try:
        world.places(one)
    except Error as error:
        assert "failed to prepare subPath" in str(error)
    else:
        raise AssertionError("a link was followed")


def swapped_while_it_is_looked_up(world: World) -> None:
    """A container that swaps a directory for a link all the time wins nothing."""
    one = pod((EMPTY, "x/y"))
    world.places(one)
    volume, stopped, libc = world.volume(), threading.Event(), ctypes.CDLL(None)
    (volume / "link").symlink_to(world.host)
    (world.host / "y").mkdir()
    (world.host / "y" / "secret").touch()

    def swap() -> None:
        here, there = bytes(volume / "x"), bytes(volume / "link")
        while not stopped.is_set():
            libc.renameat2(_HERE, here, _HERE, there, _EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(_TRIES):
            try:
                (place,) = world.places(one)
            except Error:
                continue
            assert not (place / "secret").exists(), "the host's directory was mounted"
    finally:
        stopped.set()
        thread.join()
    assert sorted(each.name for each in world.host.iterdir()) == ["secret", "y"]
    assert sorted(each.name for each in (world.host / "y").iterdir()) == ["secret"]
    assert len(world.mounted()) == (1 if world.mounted() else 0)
    if (volume / "x").is_symlink():
        libc.renameat2(_HERE, bytes(volume / "x"), _HERE, bytes(volume / "link"), _EXCHANGE)
    assert world.places(one)[0].is_dir()


def files_and_keys(world: World) -> None:
    """A file, a key of a ConfigMap, a directory of the host, a node that nobody may open."""
    host = {"hostPath": {"path": str(world.host)}}
    (world.host / "inside").symlink_to("secret")
    places = world.places(
        pod(({"configMap": {"name": "cm"}}, "k"), (host, "secret"), (host, "inside"), (EMPTY, "a/b"))
    )
    texts = [place.read_text() for place in places[:3]]
    assert texts == ["v", "of the host", "of the host"], texts
    assert places[3].is_dir()
    os.mkfifo(world.volume(3) / "fifo")
    one = pod(({"configMap": {"name": "cm"}}, "k"), (host, "secret"), (host, "inside"), (EMPTY, "fifo"))
    assert world.places(one)[3].is_fifo()
    for out in ("../pods", "link"):
        (world.host / "link").unlink(missing_ok=True)
        (world.host / "link").symlink_to(world.pods)
        try:
            world.places(pod((host, out)))
        except Error:
            continue
        raise AssertionError(out)


def host_paths_are_held(world: World) -> None:
    """What was checked is mounted, whatever the path means by then; links are followed when it is opened, not later."""
    (world.host / "of admin").symlink_to("real")
    (world.host / "real").mkdir()
    (world.host / "real" / "own").touch()
    (world.host / "elsewhere").mkdir()
    one = pod(
        ({"hostPath": {"path": str(world.host / "of admin"), "type": "Directory"}}, ""),
        ({"hostPath": {"path": str(world.host / "secret"), "type": "File"}}, ""),
    )
    directory, file = world.places(one)
    (world.host / "of admin").unlink()
    (world.host / "of admin").symlink_to("elsewhere")
    (world.host / "secret").rename(world.host / "old")
    (world.host / "secret").symlink_to("/etc/shadow")
    assert [each.name for each in directory.iterdir()] == ["own"]
    assert file.read_text() == "of the host"
    assert {directory, file} == set(world.mounted())
    (world.host / "secret").unlink()
    (world.host / "old").rename(world.host / "secret")
    directory, _ = world.places(one)
    assert list(directory.iterdir()) == []
    world.volumes().remove("u1")
    assert world.mounted() == []


def host_paths_with_mounts_below(world: World) -> None:
    """They are not held, or what is mounted below would be missing: the runtime gets where the directory lies."""
    (world.host / "below").mkdir()
    (world.host / "link").symlink_to(world.host)
    mounts.mount("tmpfs", world.host / "below", "tmpfs")
    one = pod(({"hostPath": {"path": str(world.host / "link"), "type": "Directory"}}, ""))
    assert world.places(one) == [world.host.resolve()]
    mounts.unmount(world.host / "below")
    (place,) = world.places(one)
    assert (place / "secret").exists()
    mounts.mount("tmpfs", world.host / "below", "tmpfs")
    assert world.places(one) == [world.host.resolve()]
    assert place not in world.mounted()
    mounts.unmount(world.host / "below")


def a_start_in_progress_keeps_its_sub_path(world: World) -> None:
    """A kubelet is killed while runc makes a container; the next one does not take away what runc is about to mount."""
    one = pod((EMPTY, "x"), ({"hostPath": {"path": str(world.host)}}, ""))
    start = Starting(world, one)
    start.begin_and_kill()
    for volume, name in ((world.volume(), "x"), (world.host.parent, "host")):
        (volume / name).rename(volume / f"old-{name}")
        (volume / name).mkdir()
    start.go_on()
    assert start.seen() == ["own", "secret"], start.seen()
    world.volumes().remove("u1")
    assert world.mounted() == []


def restarts_and_kills(world: World) -> None:
    """However often, by however many kubelets: one mount, of what is there now."""
    one = pod((EMPTY, "x"))
    for _ in range(3):
        (place,) = world.places(one)
    assert world.mounted() == [place]
    child = os.fork()
    if child == 0:
        world.places(one)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (world.volume() / "x").rmdir()
    (world.volume() / "x").write_text("a file now")
    (place,) = world.places(one)
    assert place.read_text() == "a file now"
    assert world.mounted() == [place]
    mounts.mount(str(world.host), place.parent, "", mounts.MS_BIND)
    (world.volume() / "x").unlink()
    assert [each.is_dir() for each in world.places(one)] == [True]
    world.volumes().remove("u1")
    assert world.mounted() == []
    assert (world.host / "secret").read_text() == "of the host"


def removal_takes_mounts_off_first(world: World) -> None:
    """Nothing behind a mount is removed: neither a hostPath's files nor another pod's."""
    host = {"hostPath": {"path": str(world.host)}}
    (world.host / "below").mkdir()
    (world.host / "below" / "file").touch()
    places = world.places(pod((host, "below"), (host, "secret"), ({"secret": {"secretName": "s"}}, "pass")))
    assert len(world.mounted()) == 4, world.mounted()
    assert all(place.exists() for place in places)
    world.volumes().remove("u1")
    assert world.mounted() == []
    assert not (world.pods / "u1").exists()
    assert sorted(str(each.relative_to(world.host)) for each in world.host.rglob("*")) == [
        "below",
        "below/file",
        "secret",
    ]


def removal_never_crosses_a_mount(world: World) -> None:
    """Where something is mounted that nobody took off, of the same file system too, that is an error."""
    for is_file in (False, True):
        tree = world.pods / "tree"
        place = tree / "a" / "b"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch() if is_file else place.mkdir()
        source = world.host if place.is_dir() else world.host / "secret"
        mounts.mount(str(source), place, "", mounts.MS_BIND)
        try:
            remove_tree(tree)
        except ConflictError as error:
            assert "mounted on 'b'" in str(error)
        else:
            raise AssertionError("a mount was removed")
        assert (world.host / "secret").read_text() == "of the host"
        mounts.unmount(place)
        remove_tree(tree)
        assert not tree.exists()


def secrets_in_memory(world: World) -> None:
    """Not on the disk, with the mode that the pod says, once however often it is made."""
    one = pod(({"secret": {"secretName": "s", "defaultMode": 0o400}}, ""))
    volumes = world.volumes()
    path = volumes.make(one)["v0"].path
    assert world.volumes().make(one)["v0"].path == path
    assert world.mounted() == [path.resolve()]
    assert path.stat().st_dev != world.host.stat().st_dev
    assert ((path / "pass").read_text(), (path / "pass").stat().st_mode & 0o777) == ("word", 0o400)
    mounts.unmount(path)
    assert list(path.iterdir()) == []
    world.volumes().make(one)
    assert (path / "pass").read_text() == "word"


def scripts_in_memory(world: World) -> None:
    """What a projected volume brings is run where its mode says so."""
    sources = [{"secret": {"name": "s", "items": [{"key": "pass", "path": "run", "mode": 0o755}]}}]
    path = world.volumes().make(pod(({"projected": {"sources": sources}}, "")))["v0"].path
    assert path.resolve() in world.mounted()
    try:
        os.posix_spawn(path / "run", ["run"], {})
    except OSError as error:  # the word in it is no program; EACCES: it may not be run at all
        assert error.errno == errno.ENOEXEC, error


def left_by_a_kubelet_before(world: World) -> None:
    """Volumes of 0.1.0: plain files that its containers wrote to. They are laid out anew, and go with the pod."""
    volumes = [({"secret": {"secretName": "s"}}, "pass"), ({"configMap": {"name": "cm"}}, "k"), (EMPTY, "")]
    for number, name in enumerate(("pass", "k", "kept")):
        world.volume(number).mkdir(parents=True, mode=0o755)
        (world.volume(number) / name).write_text("old")
        (world.volume(number) / f".{name}.new").symlink_to(world.host / "secret")
    places = world.places(pod(*volumes))
    assert [place.read_text() for place in places[:2]] == ["word", "v"]
    assert (places[2] / "kept").read_text() == "old"
    assert (world.host / "secret").read_text() == "of the host"
    world.volumes().remove("u1")
    assert not (world.pods / "u1").exists()
    assert (world.host / "secret").read_text() == "of the host"


SCENES: dict[str, Callable[[World], None]] = {
    one.__name__: one
    for one in (
        held_whatever_the_container_does,
        swapped_while_it_is_looked_up,
        files_and_keys,
        host_paths_are_held,
        host_paths_with_mounts_below,
        a_start_in_progress_keeps_its_sub_path,
        restarts_and_kills,
        removal_takes_mounts_off_first,
        removal_never_crosses_a_mount,
        secrets_in_memory,
        scripts_in_memory,
        left_by_a_kubelet_before,
    )
}


def main(directory: Path) -> dict[str, str]:
    """What went wrong in each scene; empty where nothing did."""
    found = dict.fromkeys(SCENES, "")
    for name, scene in SCENES.items():
        place = directory / name
        place.mkdir()
        try:
            scene(World(place))
        except (AssertionError, Error, OSError):
            found[name] = traceback.format_exc()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
