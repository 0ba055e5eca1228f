from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dray.errors import InvalidError
from dray.runtime.clock import SystemClock
from dray.testing.check.program import Program, Room, fill_in, private_room, wait_until

CLOCK = SystemClock()


def program(room: Room, code: str) -> Program:
    return Program([sys.executable, "-c", code], room, {"CHECKED": "yes"}, CLOCK)


def test_words_of_a_command(tmp_path: Path) -> None:
    room = Room(tmp_path, is_isolated=False)
    words = room.words(None)
    assert fill_in([sys.executable, "--dir={device-plugin-dir}", '{"a": 1}'], words) == [
        sys.executable,
        f"--dir={tmp_path}/kubelet/device-plugins",
        '{"a": 1}',
    ]
    with pytest.raises(InvalidError, match="COMMAND"):
        fill_in([], words)


def test_paths_of_an_isolated_program_are_found_outside(tmp_path: Path) -> None:
    room = Room(tmp_path, is_isolated=True)
    assert room.outside("/var/lib/kubelet/plugins/d/dra.sock") == tmp_path / "kubelet/plugins/d/dra.sock"
    assert room.outside("/run/cdi/x.json") == tmp_path / "cdi/x.json"
    assert room.outside("/elsewhere") == Path("/elsewhere")
    assert Room(tmp_path, is_isolated=False).outside("/run/cdi/x") == Path("/run/cdi/x")


async def test_nothing_remains() -> None:
    with private_room() as room:
        assert room.device_plugins.is_dir() and room.cdi.is_dir()
        started = program(room, "import time; time.sleep(60)")
        await started.start()
        assert started.is_running and started.death() == ""
        await started.kill()
        assert not started.is_running
        assert "SIGKILL" in started.death()
    assert not room.root.exists()


PLACES = """
import sys
from pathlib import Path
from dray.testing.check.program import private_room

places = [Path("/var/lib/kubelet"), Path("/var/run/cdi")]
for place in places if sys.argv[1] == "there" else []:
    place.mkdir(parents=True)
with private_room() as room:
    print(room.is_isolated, *(place.is_dir() for place in places))
print(*(place.is_dir() for place in places))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize(("before", "after"), [("absent", "False False"), ("there", "True True")])
def test_the_kubelets_directories_are_there_as_before(tmp_path: Path, before: str, after: str) -> None:
    """On a machine of its own, as it were: other checks that run here make and remove the same directories."""
    enter = 'mount -t tmpfs tmpfs /var/lib && mount -t tmpfs tmpfs /run && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", enter, "sh", sys.executable, "-c", PLACES, before]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environ)
    assert (done.stdout, done.stderr) == (f"True True True\n{after}\n", "")


async def test_a_death_is_told_with_the_last_words() -> None:
    with private_room() as room:
        started = program(room, "import os, sys; sys.exit('no ' + os.environ['CHECKED'])")
        await started.start()
        assert await wait_until(lambda: not started.is_running, 10, CLOCK)
        assert started.death() == "the process ended with exit code 1; its last line: no yes"
        assert await started.terminate(1) is None


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="there is no program '/no/such/program'"):
        fill_in(["/no/such/program"], {})


async def test_an_isolated_program_sees_its_directories_as_the_kubelets() -> None:
    """Without root there is no isolation, and the program would write to the machine: it is given ours by name then."""
    with private_room() as room:
        kubelet, cdi = ("/var/lib/kubelet", "/var/run/cdi") if room.is_isolated else (room.kubelet, room.cdi)
        code = f"open('{kubelet}/device-plugins/here', 'w'); open('{cdi}/here', 'w')"
        started = program(room, code)
        await started.start()
        assert await wait_until(lambda: not started.is_running, 60, CLOCK)
        assert started.death() == "the process ended with exit code 0"
        assert (room.device_plugins / "here").exists() and (room.cdi / "here").exists()
        assert not Path("/var/lib/kubelet/device-plugins/here").exists()


async def test_work_is_measured() -> None:
    with private_room() as room:
        busy = program(room, "while True: pass")
        idle = program(room, "import time; time.sleep(60)")
        await busy.start()
        await idle.start()
        # Both start up; only one goes on to work.
        assert await wait_until(lambda: busy.busy_seconds() > idle.busy_seconds() + 0.3, 60, CLOCK)
        await busy.kill()
        await idle.kill()


async def test_work_of_children_that_nobody_saw_is_measured() -> None:
    """A program may do its work in children that come and go between two readings."""
    code = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        os._exit(0)
    os.wait()
open("{done}", "w")
time.sleep(60)
"""
    with private_room() as room:
        done = room.root / "done"
        started = program(room, code.format(done=done))
        await started.start()
        assert await wait_until(done.exists, 30, CLOCK)
        assert started.busy_seconds() > 0.3
        await started.kill()


async def test_work_does_not_fall_when_a_process_ends() -> None:
    """The child's time is in no other process: with SIGCHLD ignored the kernel gives it to nobody."""
    code = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
while child == 0:
    pass
open("{child}.new", "w").write(str(child))
os.rename("{child}.new", "{child}")
time.sleep(60)
"""
    with private_room() as room:
        child = room.root / "child"
        started = program(room, code.format(child=child))
        await started.start()
        assert await wait_until(child.exists, 30, CLOCK)
        assert await wait_until(lambda: started.busy_seconds() > 0.5, 30, CLOCK)
        before = started.busy_seconds()
        os.kill(int(child.read_text()), signal.SIGKILL)
        assert await wait_until(lambda: not Path("/proc", child.read_text()).exists(), 30, CLOCK)
        assert started.busy_seconds() >= before
        await started.kill()
