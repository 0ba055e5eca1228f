"""`dray up --detach`: starts the supervisor in a session of its own, and waits until what it runs is ready."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dray.cli import exit_codes
from dray.cli.tables import progress
from dray.errors import ConflictError
from dray.runtime.files.oserrors import from_os_error
from dray.up.log import tail
from dray.up.place import RunningUp, Supervising, UpPlace

_PROGRAM: Final = (sys.executable, "-m", "dray", "up")
_PATIENCE: Final = 300.0
_LOOK: Final = 0.05
_LINES: Final = 15


def supervise(data_dir: Path, words: Sequence[str]) -> int:
    """What the process in the background does: run `dray up` with these flags, for ever."""
    from dray.runtime.tasks import run_until_signalled
    from dray.up.supervisor import SupervisorOptions, run_supervisor

    options = SupervisorOptions(UpPlace(data_dir), (*_PROGRAM, *words))
    run_until_signalled(lambda: run_supervisor(options))
    return exit_codes.DONE


def detach(data_dir: Path, words: Sequence[str]) -> int:
    """Return when it is ready. If it dies before, its last words are shown and nothing is left running."""
    place = UpPlace(data_dir)
    place.make()
    _check_free(place)
    began = _size(place.log)
    supervisor = _spawn(place, words)
    try:
        with progress() as say:
            say("starting")
            running = _wait_ready(place, supervisor)
    except KeyboardInterrupt:
        _stop(supervisor)
        raise
    if running is None:
        _stop(supervisor)
        _show_failure(place, began)
        return exit_codes.REFUSED
    from dray.cli.up_view import show_up

    show_up(running)
    return exit_codes.DONE


def _check_free(place: UpPlace) -> None:
    found = place.read(RunningUp) or place.read(Supervising)
    if found is not None:
        raise ConflictError(
            f"Dray runs already on {str(place.data_dir)!r} (process {found.pid}): `dray status` tells more, "
            "`dray down` ends it; or give another --data-dir"
        )


def _spawn(place: UpPlace, words: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        with place.log.open("ab") as log:
            os.fchmod(log.fileno(), 0o600)
            return subprocess.Popen(
                [*_PROGRAM, "--supervise", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
    except OSError as error:
        raise from_os_error(error, "write", str(place.log)) from error


def _wait_ready(place: UpPlace, supervisor: subprocess.Popen[bytes]) -> RunningUp | None:
    """None where it died, or takes too long."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        running = place.read(RunningUp)
        if running is not None:
            return running
        known = place.read(Supervising)
        if supervisor.poll() is not None or (known is not None and known.restarts):
            return None
        time.sleep(_LOOK)
    return None


def _stop(supervisor: subprocess.Popen[bytes]) -> None:
    supervisor.terminate()
    try:
        supervisor.wait(90.0)
    except subprocess.TimeoutExpired:
        supervisor.kill()


def _show_failure(place: UpPlace, began: int) -> None:
    print("dray: it did not start; the end of its log:", file=sys.stderr)
    for line in tail(place.log, _LINES, since=began):
        print(f"  {line}", file=sys.stderr)
    print(f"  (all of it: {place.log})", file=sys.stderr)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
