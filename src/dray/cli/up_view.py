"""What `dray up` shows when it is ready: what there is, where it is, and what to type next."""

from __future__ import annotations

import sys
from pathlib import Path

from dray.cli.tables import BOLD, YELLOW, clean, columns, has_colour, painted
from dray.up.place import RunningUp, UpPlace, default_data_dir

_NO_DEVICES = "none found (`dray devices` tells where it looked; --sim laptop simulates some)"


def show_up(running: RunningUp) -> None:
    """Once, to stdout."""
    entrance = _entrance(running) if sys.stdout.isatty() else ""
    print("\n".join(picture(running, entrance, colour=has_colour())), flush=True)


def picture(running: RunningUp, entrance: str = "", *, colour: bool = False) -> list[str]:
    """The lines. `entrance` is the dashboard's address with its token: for a person, and not for a file or a log. Pure."""
    lines = [painted(f"Dray {running.version} runs on this machine.", BOLD, colour=colour), ""]
    elsewhere = f"{running.dashboard} (token: {UpPlace(Path(running.data_dir)).dashboard_token})"
    lines += columns(facts(running, entrance or elsewhere))
    if running.unready:
        said = clean(running.unready.replace("\n", "; "))
        lines += ["", painted(f"Not offered yet: {said}", YELLOW, colour=colour)]
    return [*lines, "", "Next:", *(f"  {one}" for one in next_commands(running)), "", _ending(running)]


def facts(running: RunningUp, dashboard: str = "") -> list[tuple[str, str]]:
    """What does not change while it runs, and the devices of its start. `dashboard`: its address, if not as in up.json."""
    found = [("  node", running.node), ("  devices", running.devices or _NO_DEVICES)]
    if running.sim:
        found.append(("  simulated", f"profile {running.sim}: these devices and nodes do not exist"))
    found += [
        ("  containers", f"{running.runtime}: {running.containers}"),
        ("  kubeconfig", running.kubeconfig),
        ("  API server", running.server),
    ]
    if running.dashboard:
        found.append(("  dashboard", dashboard or running.dashboard))
    return [*found, ("  data", running.data_dir)]


def _entrance(running: RunningUp) -> str:
    """For who may read the token; browsers keep what is behind the # to themselves."""
    try:
        token = UpPlace(Path(running.data_dir)).dashboard_token.read_text().strip()
    except OSError:
        return running.dashboard
    return f"{running.dashboard}/#token={token}"


def next_commands(running: RunningUp) -> tuple[str, str]:
    """Two that work as they are, for whoever has the same rights."""
    where = "" if running.data_dir == str(default_data_dir()) else f" --data-dir {running.data_dir}"
    return f"dray get devices{where}", f"kubectl --kubeconfig {running.kubeconfig} get nodes"


def _ending(running: RunningUp) -> str:
    if running.supervisor:
        return "It goes on in the background: `dray status` tells how it is, `dray down` ends it."
    return "Ctrl-C ends it. Containers go on, and the next `dray up` takes them over (`dray down --all` ends them)."
