"""`dray get`: objects of a cluster as tables or documents; devices one by one; who is registered with the kubelet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.cluster import add_cluster_arguments, ask
from dray.cli.tables import OUTPUTS, print_document, print_documents, print_table
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.cli.cluster import Asked
    from dray.cli.kind_names import Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="KIND[/NAME]",
        help="nodes, pods, claims, claimtemplates, classes, slices, devices, plugins, events, or any kind the server has; "
        "then names, or none for all",
    )
    parser.add_argument(
        "-l", "--selector", default="", metavar="L", help="only with these labels (key=value,…)"
    )
    parser.add_argument(
        "-o", "--output", choices=OUTPUTS, default="table", help="how to show them (default table)"
    )
    parser.add_argument(
        "-w", "--watch", action="store_true", help="go on, and show what changes, until Ctrl-C"
    )
    parser.add_argument("--no-headers", action="store_true", help="rows only")
    parser.add_argument(
        "--kubelet-dir",
        type=Path,
        metavar="D",
        help="for plugins: look into this kubelet's directory instead of asking a `dray up`",
    )
    parser.add_argument(
        "--metrics-token-file",
        type=Path,
        metavar="F",
        help="for plugins: the token of a `dray kubelet` that runs with this flag",
    )
    add_cluster_arguments(parser, everywhere=True)


def run(arguments: argparse.Namespace) -> int:
    """0 also where there is nothing to show; 1 where a name is not there."""
    from dray.cli.kind_names import PLUGINS, own_kind

    kind = own_kind(arguments.words[0])
    if kind is not None and kind.view == PLUGINS:
        return _plugins(arguments)
    ask(arguments, lambda asked: _get(arguments, asked))
    return exit_codes.DONE


async def _get(arguments: argparse.Namespace, asked: Asked) -> None:
    from dray.cli.kind_names import read_targets

    targets = await read_targets(arguments.words, asked.client)
    if arguments.watch:
        if len(targets) > 1:
            raise InvalidError("--watch follows one kind; name one", field="--watch")
        await _watch(arguments, asked, targets[0])
    elif arguments.output in ("table", "wide"):
        await _show_tables(arguments, asked, targets)
    else:
        await _show_documents(arguments, asked, targets)


async def _show_tables(arguments: argparse.Namespace, asked: Asked, targets: list[Target]) -> None:
    from dray.cli.manifests import say_notes
    from dray.cli.views.chosen import read_table

    for number, target in enumerate(targets):
        table, notes = await read_table(asked, target, arguments.selector)
        asked.say("")
        say_notes(notes)
        if not table.rows:
            print(_nothing(asked, target), file=sys.stderr)
            continue
        if number:
            print()
        print_table(table, wide=arguments.output == "wide", header=not arguments.no_headers)


def _nothing(asked: Asked, target: Target) -> str:
    view = target.kind.view
    if not target.kind.namespaced or asked.is_everywhere:
        return f"No {view} in the cluster"
    return f"No {view} in namespace {asked.namespace}; `dray get {view} -A` shows those of all namespaces"


async def _show_documents(arguments: argparse.Namespace, asked: Asked, targets: list[Target]) -> None:
    from dray.cli.views.chosen import read_documents

    documents: list[dict[str, Any]] = []
    for target in targets:
        found = await read_documents(asked, target, arguments.selector)
        if arguments.output == "name":
            for one in found:
                print(f"{target.kind.typed_name}/{one.get('id') or one['metadata']['name']}")
        documents += found
    asked.say("")
    if arguments.output != "name":
        single = len(targets) == 1 and len(targets[0].names) == 1
        print_documents(documents, arguments.output, single=single)


async def _watch(arguments: argparse.Namespace, asked: Asked, target: Target) -> None:
    from dray.cli.views.chosen import FollowedTable, read_documents, selection_for
    from dray.cli.watching import Shown, watch_changes, watch_table

    if arguments.output in ("table", "wide"):
        following = FollowedTable(asked, target, arguments.selector)
        followed = await following.begin()
        await watch_table(asked, followed, following.make, Shown(wide=arguments.output == "wide"))
        return
    resource = target.kind.resource
    if resource is None:
        raise InvalidError(f"{target.kind.view} can be watched as a table only", field="--output")

    async def changed(namespace: str, name: str) -> None:
        if target.names and name not in target.names:
            return
        if arguments.output == "name":
            print(f"{target.kind.typed_name}/{name}", flush=True)
            return
        for one in await read_documents(asked, target, "", only=(namespace, name)):
            print_document(one, arguments.output)
            sys.stdout.flush()

    await watch_changes(asked, resource, selection_for(asked, resource, arguments.selector), changed)


def _plugins(arguments: argparse.Namespace) -> int:
    from dray.cli.manifests import say_notes
    from dray.cli.views.plugins import plugins_table, read_plugins
    from dray.runtime.clock import SystemClock

    if len(arguments.words) > 1 or arguments.selector:
        raise InvalidError("`dray get plugins` shows all of them; leave names and -l out", field="KIND")
    if arguments.watch:
        return _watch_plugins(arguments)
    found = read_plugins(arguments.data_dir, arguments.kubelet_dir, arguments.metrics_token_file)
    if arguments.output in ("json", "yaml"):
        print_document({"plugins": list(found.plugins), "notes": list(found.notes)}, arguments.output)
        return exit_codes.DONE
    say_notes(found.notes)
    table = plugins_table(found, SystemClock().now())
    if arguments.output == "name":
        print("\n".join(f"plugin/{row.cells[1]}" for row in table.rows))
    elif table.rows:
        print_table(table, wide=arguments.output == "wide", header=not arguments.no_headers)
    else:
        print("No plugin is registered with the kubelet", file=sys.stderr)
    return exit_codes.DONE


def _watch_plugins(arguments: argparse.Namespace) -> int:
    """Asked every second: a kubelet does not tell by itself."""
    import time

    from dray.cli.views.plugins import plugins_table, read_plugins
    from dray.cli.watching import Shown
    from dray.runtime.clock import SystemClock

    if arguments.output not in ("table", "wide"):
        raise InvalidError("plugins can be watched as a table only", field="--output")
    shown = Shown(wide=arguments.output == "wide")
    while True:
        found = read_plugins(arguments.data_dir, arguments.kubelet_dir, arguments.metrics_token_file)
        shown.show(plugins_table(found, SystemClock().now(), notes=True))
        time.sleep(1.0)
