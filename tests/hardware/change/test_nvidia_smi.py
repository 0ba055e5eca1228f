"""The program is a real process: a script in the host's tree that shows what the real one showed on an H200."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dray.errors import ConflictError, DeniedError, HardwareError, InvalidError, NotFoundError
from dray.hardware.change import SetComputeMode, SetTimeSlice
from dray.hardware.change.access import Access, Limits
from dray.hardware.change.executor import Audit, Executor
from dray.hardware.host_root import HostRoot
from dray.hardware.shared_libraries import read_loader_cache
from dray.testing.host import Host

ADDRESS = "0000:00:06.0"
LONG = SetTimeSlice(ADDRESS, 0, "Long")
ALONE = SetComputeMode(ADDRESS, 0, "Exclusive_Process")
PROGRAM = f"""#!/bin/sh
here=@HERE@
case "$*" in
  "compute-policy -i {ADDRESS} -l")
    echo '+-------------------------------------+'
    echo '| GPU compute policies:               |'
    echo '| GPU     Name           Value        |'
    echo '|=====================================|'
    printf '|   0   Timeslice       %-8s      |\\n' "$(cat "$here/slice")"
    echo '+-------------------------------------+' ;;
  "compute-policy -i {ADDRESS} --set-timeslice "*)
    n=0; for name in Default Short Medium Long; do [ $n = "$5" ] && echo $name > "$here/slice"; n=$((n+1)); done ;;
  "-i {ADDRESS} --query-gpu=compute_mode --format=csv,noheader") cat "$here/mode" ;;
  "-i {ADDRESS} -c EXCLUSIVE_PROCESS") echo Exclusive_Process > "$here/mode" ;;
  "-i {ADDRESS} -c DEFAULT") echo Default > "$here/mode" ;;
  *) echo "unknown: $*"; exit 2 ;;
esac
"""


def program(host: Host, text: str = PROGRAM) -> Path:
    host.file("/usr/bin/nvidia-smi", text.replace("@HERE@", str(host.root / "usr/bin")), mode=0o755)
    host.file("/usr/bin/slice", "Default\n", mode=0o644)
    host.file("/usr/bin/mode", "Default\n", mode=0o644)
    return host.root / "usr/bin"


def test_time_slices_are_set_and_undone(host: Host, executor: Executor, access: Access) -> None:
    place = program(host)
    assert not LONG.is_so(access)
    done = executor.apply(LONG)
    assert done.changed and done.undo == SetTimeSlice(ADDRESS, 0, "Default")
    assert (place / "slice").read_text() == "Long\n" and LONG.is_so(access)
    assert not executor.apply(LONG).changed
    executor.undo(done)
    assert (place / "slice").read_text() == "Default\n"


def test_links_mean_what_they_mean_on_the_host(host: Host, executor: Executor) -> None:
    """Debian's: absolute, by way of its alternatives. Here they would lead out of the host's tree."""
    place = program(host)
    (place / "nvidia-smi").rename(host.root / "usr/real-program")
    host.link("/etc/alternatives/nvidia-smi", "/usr/real-program")
    host.link("/usr/bin/nvidia-smi", "/etc/alternatives/nvidia-smi")
    assert executor.apply(LONG).changed


def test_the_program_gets_the_hosts_library(host: Host, executor: Executor) -> None:
    """And not the name of a file that may be another one here."""
    told = host.root / "told"
    program(host, f'#!/bin/sh\nreadlink "$LD_PRELOAD" > {told}\nexit 1\n')
    real = next(
        one.path for one in read_loader_cache(HostRoot(Path("/"))) if one.name.startswith("libutil.so")
    )
    (host.root / "usr/lib64").mkdir(parents=True)
    shutil.copy(real, host.root / "usr/lib64/libnvidia-ml.so.1")
    with pytest.raises(HardwareError):
        executor.apply(LONG)
    assert told.read_text().strip() == str(host.root / "usr/lib64/libnvidia-ml.so.1")


def test_compute_modes(host: Host, executor: Executor) -> None:
    place = program(host)
    done = executor.apply(ALONE)
    assert (place / "mode").read_text() == "Exclusive_Process\n" and done.undo == SetComputeMode(ADDRESS, 0)
    executor.undo(done)
    assert (place / "mode").read_text() == "Default\n"
    assert not executor.apply(SetComputeMode(ADDRESS, 0)).changed


def test_a_program_that_sets_nothing_is_found_out(host: Host, executor: Executor) -> None:
    program(host, PROGRAM.replace('> "$here/slice"', "> /dev/null").replace('> "$here/mode"', "> /dev/null"))
    with pytest.raises(HardwareError, match="the time slice is still Default"):
        executor.apply(LONG)
    with pytest.raises(HardwareError, match="the compute mode is still Default"):
        executor.apply(ALONE)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Unable to set the compute policy: In use by another client", ConflictError),
        ("Unable to set: Insufficient Permissions", DeniedError),
        ("Unable to determine the device handle", HardwareError),
    ],
)
def test_what_the_program_says_is_told(
    host: Host, executor: Executor, said: str, kind: type[Exception]
) -> None:
    program(host, f"#!/bin/sh\necho '{said}'\nexit 4\n")
    with pytest.raises(kind, match=rf"{ADDRESS}: nvidia-smi failed with 4: {said}"):
        executor.apply(LONG)


def test_cards_without_time_slices(host: Host, executor: Executor) -> None:
    program(host, "#!/bin/sh\necho nothing\n")
    with pytest.raises(HardwareError, match="shows no time slice"):
        executor.apply(LONG)


def test_a_program_that_hangs(host: Host, audit: Audit) -> None:
    program(host, "#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(ConflictError, match=r"did not end in 0\.2 s"):
        Executor(host.root, audit, limits=Limits(process=0.2), isolate=False).apply(LONG)


def test_no_program(host: Host, executor: Executor) -> None:
    with pytest.raises(NotFoundError, match="no nvidia-smi in /usr/bin"):
        executor.apply(LONG)
    host.file("/usr/bin/nvidia-smi", "no program", mode=0o644)
    with pytest.raises(HardwareError, match="cannot run nvidia-smi"):
        executor.apply(LONG)


def test_only_values_that_there_are() -> None:
    for make in (
        lambda: SetTimeSlice(ADDRESS, 0, "Forever"),
        lambda: SetComputeMode(ADDRESS, 0, "; rm -rf /"),
        lambda: SetTimeSlice("--help", 0),
        lambda: SetTimeSlice(ADDRESS, -1),
    ):
        with pytest.raises(InvalidError):
            make()
