"""`dray doctor`: what is wrong with a node or a laptop, why it matters, and what to do."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli import exit_codes
from dray.cli.cluster import add_kubeconfig_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dray.client.access import ClusterAccess
    from dray.doctor.examine import Report
    from dray.doctor.finding import Finding
    from dray.doctor.places import Places

_KUBELET_DIR = Path("/var/lib/kubelet")
_RUNTIME_SOCKETS = (
    Path("/run/containerd/containerd.sock"),
    Path("/run/k3s/containerd/containerd.sock"),
    Path("/run/crio/crio.sock"),
)
_INDENT = " " * 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--node",
        action="store_true",
        help="what an agent beside a kubelet needs (default where a kubelet is)",
    )
    which.add_argument("--laptop", action="store_true", help="what `dray up` needs (default elsewhere)")
    _add_places(parser)
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE.tar.gz",
        help="write findings, logs, state and objects there, for whoever is to help; secrets are left out",
    )


def _add_places(parser: argparse.ArgumentParser) -> None:
    places = parser.add_argument_group("where to look")
    places.add_argument(
        "--kubelet-dir", type=Path, metavar="D", help=f"the kubelet's root (default {_KUBELET_DIR})"
    )
    places.add_argument(
        "--device-plugin-dir",
        type=Path,
        metavar="D",
        help="where plugins register: a kubelet never moves it (default /var/lib/kubelet/device-plugins)",
    )
    places.add_argument(
        "--cdi-dir", type=Path, metavar="D", help="where CDI files are written (default /var/run/cdi)"
    )
    places.add_argument(
        "--containerd-config",
        type=Path,
        metavar="F",
        default=Path("/etc/containerd/config.toml"),
        help="containerd's file (default /etc/containerd/config.toml)",
    )
    places.add_argument(
        "--host-root", default="/", metavar="R", help="where the host's /sys, /proc and /dev are (default /)"
    )
    places.add_argument(
        "--state-dir", type=Path, metavar="D", help="the agent's state (default /var/lib/dray)"
    )
    places.add_argument(
        "--data-dir", type=Path, metavar="D", help="of `dray up` (default: where it keeps things)"
    )
    places.add_argument("--node-name", default="", metavar="N", help="this node's name (default: the host's)")
    add_kubeconfig_arguments(places, none="ask no cluster")


def run(arguments: argparse.Namespace) -> int:
    """1 where something does not work."""
    from dray.cli.tables import progress

    places = make_places(arguments)
    bundle = arguments.bundle.absolute() if arguments.bundle else None
    with progress() as say:
        report, written = asyncio.run(_look(places, bundle, say))
    if arguments.output == "json":
        _print_json(report)
    else:
        show(report.findings)
        if written:
            print(f"\nSupport bundle: {arguments.bundle} ({written} bytes, readable for you alone).")
            print("Secrets were left out as far as they can be told; look into it before you send it on.")
    return exit_codes.REFUSED if report.has_fault else exit_codes.DONE


async def _look(places: Places, bundle: Path | None, say: Callable[[str], None]) -> tuple[Report, int]:
    from dray.doctor.examine import examine

    say("looking at this machine and its cluster")
    report = await examine(places)
    if bundle is None:
        return report, 0
    from dray.doctor.support.bundle import pack, write
    from dray.doctor.support.collect import collect
    from dray.runtime.clock import SystemClock

    say("collecting for the bundle")
    data = pack([item async for item in collect(places, report)], SystemClock().now())
    write(bundle, data)
    return report, len(data)


def make_places(arguments: argparse.Namespace) -> Places:
    """What the flags mean. On a laptop the directories are those of its `dray up`."""
    from dray.agent.cluster import parse_node_name
    from dray.doctor.places import Places, look_at
    from dray.up.place import UpPlace, default_data_dir
    from dray.wire.deviceplugin import DIRECTORY

    data_dir = (arguments.data_dir or default_data_dir()).absolute()
    kubelet = arguments.kubelet_dir or _KUBELET_DIR
    is_laptop = arguments.laptop or not (arguments.node or arguments.kubelet_dir or _has_kubelet(kubelet))
    up = UpPlace(data_dir)
    kubelet = arguments.kubelet_dir or (up.kubelet if is_laptop else _KUBELET_DIR)
    access, why = _cluster(arguments)
    return Places(
        is_laptop=is_laptop,
        host_root=arguments.host_root,
        kubelet_dir=kubelet.absolute(),
        device_plugin_dir=(
            arguments.device_plugin_dir or (up.device_plugins if is_laptop else Path(DIRECTORY))
        ).absolute(),
        cdi_dir=(arguments.cdi_dir or (up.cdi if is_laptop else Path("/var/run/cdi"))).absolute(),
        containerd_config=arguments.containerd_config.absolute(),
        containerd_socket=next(
            (one for one in _RUNTIME_SOCKETS if look_at(one).is_socket), _RUNTIME_SOCKETS[0]
        ),
        state_dir=(arguments.state_dir or (up.agent if is_laptop else Path("/var/lib/dray"))).absolute(),
        data_dir=data_dir,
        node_name=parse_node_name(arguments.node_name),
        access=access,
        no_cluster=why,
    )


def _has_kubelet(kubelet_dir: Path) -> bool:
    """Whether one runs or ran here; a directory that may not be looked at is one of a kubelet."""
    try:
        return any((kubelet_dir / name).exists() for name in ("pod-resources", "config.yaml", "pki"))
    except PermissionError:
        return True


def _cluster(arguments: argparse.Namespace) -> tuple[ClusterAccess | None, str]:
    """No cluster is a finding here, no error; one that was named must be there."""
    from dray.cli.cluster import find_cluster
    from dray.errors import InvalidError, NotFoundError
    from dray.up.place import find_running

    if str(arguments.kubeconfig) == "none":
        return None, "--kubeconfig none"
    is_named = arguments.kubeconfig or arguments.context
    data_dir = arguments.data_dir if not is_named and find_running(arguments.data_dir) else None
    try:
        return find_cluster(arguments.kubeconfig, arguments.context, data_dir), ""
    except (InvalidError, NotFoundError) as error:
        if is_named:
            raise
        return None, str(error)


def show(findings: Iterable[Finding]) -> None:
    """Each in a line, with why and what to do where something is not right; then how many of each."""
    from dray.cli.tables import GREEN, RED, YELLOW, has_colour

    colours = {"ok": GREEN, "warning": YELLOW, "fault": RED} if has_colour() else {}
    every = list(findings)
    for line in lines(every, colours):
        print(line)


def lines(findings: list[Finding], colours: dict[str, str]) -> Iterator[str]:
    """What is shown, before it is printed."""
    from dray.cli.tables import PLAIN, clean

    width = max((len(one.check) for one in findings), default=0)
    for one in findings:
        paint, plain = (colours.get(one.level, ""), PLAIN if colours.get(one.level) else "")
        yield f"{paint}{one.level:<8}{plain}  {one.check:<{width}}  {clean(one.what)}"
        for word, text in (("why", one.why), ("fix", one.fix)):
            if text and one.level != "ok":
                yield f"{_INDENT}{'':<{width}}  {word}: {clean(text)}"
    counts = Counter(one.level.value for one in findings)
    names = [("fault", "faults"), ("warning", "warnings"), ("note", "notes"), ("ok", "ok")]
    told = [f"{counts[name]} {name if counts[name] == 1 or name == 'ok' else many}" for name, many in names]
    yield ""
    yield f"{', '.join(told)}. {_verdict(counts)}"


def _verdict(counts: Counter[str]) -> str:
    if counts["fault"]:
        return "Mend the faults first: what they name does not work."
    return "Nothing is broken; see the warnings." if counts["warning"] else "Nothing is broken."


def _print_json(report: Report) -> None:
    import msgspec

    from dray.cli.tables import print_document

    print_document({"findings": msgspec.to_builtins(report.findings), "hasFault": report.has_fault}, "json")
