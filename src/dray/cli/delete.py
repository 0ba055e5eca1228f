"""`dray delete`: objects of files, or by kind and name, and by default until they are gone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.cluster import add_cluster_arguments, ask
from dray.cli.object_files import add_file_arguments
from dray.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from dray.api.codec import Manifest
    from dray.api.kinds import Resource
    from dray.cli.cluster import Asked
    from dray.cli.kind_names import Kind


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("words", nargs="*", metavar="KIND[/NAME]", help="a kind and then names, or KIND/NAME")
    add_file_arguments(
        parser, "the objects in these files (YAML or JSON), directories of such, or - for stdin"
    )
    parser.add_argument("-l", "--selector", default="", metavar="L", help="all of a kind with these labels")
    parser.add_argument("--all", action="store_true", help="all of a kind in the namespace")
    parser.add_argument(
        "--grace-period",
        type=int,
        metavar="S",
        help="seconds that containers get to end (default: the pod's own)",
    )
    parser.add_argument(
        "--force", action="store_true", help="at once: nobody is asked whether containers ended"
    )
    parser.add_argument(
        "--wait", action=argparse.BooleanOptionalAction, default=True, help="until they are gone"
    )
    parser.add_argument(
        "--timeout", default="60s", metavar="T", help="of the waiting: 90s, 5m, 1h30m (default 60s)"
    )
    parser.add_argument("--ignore-not-found", action="store_true", help="what is not there is fine")
    add_cluster_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """1 where something was not there; the others are deleted all the same."""
    from dray.cli.apiserver import parse_duration
    from dray.cli.object_files import read_objects

    if bool(arguments.filename) == bool(arguments.words):
        raise InvalidError("name what to delete: -f FILE, or KIND NAME…", field="KIND")
    seconds = parse_duration(arguments.timeout, "--timeout")
    if (arguments.grace_period or 0) < 0:
        raise InvalidError("--grace-period must be 0 or more seconds", field="--grace-period")
    files = read_objects(arguments.filename, recursive=arguments.recursive) if arguments.filename else []
    ask(arguments, lambda asked: _delete(arguments, asked, files, seconds))
    return exit_codes.DONE


async def _delete(arguments: argparse.Namespace, asked: Asked, files: list[Manifest], seconds: float) -> None:
    from dray.cli.object_files import say
    from dray.cli.waiting import wait_gone

    chosen, missing = await (_of_files(asked, files) if files else _of_words(arguments, asked))
    deleted: list[tuple[Resource[Any], tuple[str, str], str]] = []
    for kind, document in chosen:
        resource, metadata = kind.resource, document["metadata"]
        if resource is None:
            raise InvalidError(f"{kind.view} cannot be deleted: their drivers make them", field="KIND")
        place = (str(metadata.get("namespace", "")), str(metadata["name"]))
        asked.say(f"deleting {kind.typed_name}/{place[1]}")
        try:
            await _delete_one(arguments, asked, resource, place)
        except NotFoundError as error:
            missing.append(error)
            continue
        deleted.append((resource, place, str(metadata.get("uid", ""))))
        say(f"{kind.typed_name}/{place[1]} deleted")
    if arguments.wait:
        for resource, place, uid in deleted:
            await wait_gone(asked, resource, place, uid, seconds)
    if missing and not arguments.ignore_not_found:
        raise missing[0]


async def _delete_one(
    arguments: argparse.Namespace, asked: Asked, resource: Resource[Any], place: tuple[str, str]
) -> None:
    from dray.client.requests import DeleteOptions

    options = DeleteOptions(
        propagation="Background", grace_period=0 if arguments.force else arguments.grace_period
    )
    await asked.client.delete(resource, place[1], namespace=place[0] or None, options=options)


async def _of_files(
    asked: Asked, files: list[Manifest]
) -> tuple[list[tuple[Kind, dict[str, Any]]], list[NotFoundError]]:
    """The last first, so that what needs others goes before them."""
    from dray.cli.kind_names import Kinds
    from dray.cli.object_files import at

    kinds = Kinds(asked.client)
    found: list[tuple[Kind, dict[str, Any]]] = []
    missing: list[NotFoundError] = []
    for manifest in reversed(files):
        try:
            kind = await kinds.of_document(manifest.api_version, manifest.kind)
        except InvalidError as error:
            raise at(manifest, error) from error
        if kind.resource is None:
            continue
        place = (manifest.namespace or asked.namespace) if kind.namespaced else None
        try:
            found.append((kind, await asked.client.get_raw(kind.resource, manifest.name, namespace=place)))
        except NotFoundError:
            where = f" in namespace {place}" if place else ""
            missing.append(
                NotFoundError(
                    f'no {kind.singular} "{manifest.name}"{where} ({manifest.source}); nothing to delete',
                    kind=kind.singular,
                    name=manifest.name,
                )
            )
    return found, missing


async def _of_words(
    arguments: argparse.Namespace, asked: Asked
) -> tuple[list[tuple[Kind, dict[str, Any]]], list[NotFoundError]]:
    from dray.cli.kind_names import read_targets
    from dray.cli.views.chosen import read_documents, read_one

    found: list[tuple[Kind, dict[str, Any]]] = []
    missing: list[NotFoundError] = []
    for target in await read_targets(arguments.words, asked.client):
        if target.kind.resource is None:
            raise InvalidError(f"{target.kind.view} cannot be deleted: their drivers make them", field="KIND")
        if not target.names and not (arguments.all or arguments.selector):
            raise InvalidError(
                f"name which {target.kind.view}, or give -l LABEL=VALUE or --all", field="NAME"
            )
        if not target.names:
            every = await read_documents(asked, target, arguments.selector)
            found += [(target.kind, one) for one in every]
        for name in target.names:
            try:
                found.append((target.kind, await read_one(asked, target.kind, name)))
            except NotFoundError as error:
                missing.append(error)
    return found, missing
