"""`dray apply`: make objects as files say, by server-side apply under the name `dray`. All are tried before one is written."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.cluster import add_cluster_arguments, ask
from dray.cli.object_files import add_file_arguments
from dray.errors import ConflictError, Error, InvalidError, InvariantError, NotFoundError

if TYPE_CHECKING:
    from dray.api.codec import Manifest
    from dray.cli.cluster import Asked
    from dray.cli.kind_names import Kind, Kinds

MANAGER = "dray"
_DEFINITION = "CustomResourceDefinition"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_file_arguments(parser, "objects to make (YAML or JSON), directories of such files, or - for stdin")
    parser.add_argument(
        "--force-conflicts", action="store_true", help="take over fields that others have set otherwise"
    )
    parser.add_argument(
        "--dry-run", choices=["server"], help="ask the server what would be done, and write nothing"
    )
    parser.add_argument(
        "--wait", action="store_true", help="until the pods among them are ready or have ended well"
    )
    parser.add_argument(
        "--timeout", default="60s", metavar="T", help="of --wait: 90s, 5m, 1h30m (default 60s)"
    )
    add_cluster_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 done; 1 where another manager has a field, or a pod failed; 2 where a document is wrong: nothing is written then."""
    from dray.cli.apiserver import parse_duration
    from dray.cli.object_files import read_objects

    if not arguments.filename:
        raise InvalidError("name what to apply: -f FILE, -f DIRECTORY or -f -", field="-f")
    seconds = parse_duration(arguments.timeout, "--timeout")
    objects = read_objects(arguments.filename, recursive=arguments.recursive)
    ask(arguments, lambda asked: _apply(arguments, asked, objects, seconds))
    return exit_codes.DONE


async def _apply(
    arguments: argparse.Namespace, asked: Asked, objects: list[Manifest], seconds: float
) -> None:
    from dray.cli.kind_names import Kinds
    from dray.cli.object_files import say
    from dray.cli.waiting import wait_pods

    work = _Applying(asked, Kinds(asked.client), objects, arguments)
    tried = await work.try_all()
    if arguments.dry_run:
        for manifest in objects:
            outcome = tried.get(id(manifest), "created")
            kind = await work.kind_of(manifest)
            say(f"{kind.typed_name}/{manifest.name} {outcome} (server dry run)")
        return
    pods = []
    for manifest in objects:
        kind, outcome = await work.write(manifest)
        say(f"{kind.typed_name}/{manifest.name} {outcome}")
        if kind.view == "pods":
            pods.append((manifest.namespace or asked.namespace, manifest.name))
    if arguments.wait:
        await wait_pods(asked, pods, seconds)


@dataclass(slots=True)
class _Applying:
    asked: Asked
    kinds: Kinds
    objects: list[Manifest]
    arguments: argparse.Namespace
    _found: dict[tuple[str, str], Kind] = field(default_factory=dict)

    async def kind_of(self, manifest: Manifest) -> Kind:
        key = (manifest.api_version, manifest.kind)
        if key not in self._found:
            self._found[key] = await self.kinds.of_document(*key)
        return self._found[key]

    async def try_all(self) -> dict[int, str]:
        """What the server would do with each, by identity; what depends on an object of the same files cannot be tried."""
        from dray.cli.object_files import at, raise_all

        outcomes: dict[int, str] = {}
        faults: list[Error] = []
        for number, manifest in enumerate(self.objects, 1):
            self.asked.say(f"trying {number} of {len(self.objects)}")
            if self._depends(manifest):
                continue
            try:
                outcomes[id(manifest)] = (await self._send(manifest, dry_run=True))[1]
            except InvalidError as error:
                faults.append(at(manifest, error))
            except NotFoundError as error:
                text = f"{manifest.source}: {error}; apply the namespace too, or give another one with -n"
                faults.append(InvalidError(text, field="metadata.namespace"))
            except ConflictError as error:
                raise _in_conflict(manifest, error) from error
        raise_all(faults)
        return outcomes

    async def write(self, manifest: Manifest) -> tuple[Kind, str]:
        from dray.cli.object_files import at

        self.asked.say(f"writing {manifest.kind} {manifest.name}")
        try:
            done = await self._send(manifest, dry_run=False)
        except InvalidError as error:
            raise at(manifest, error) from error
        except ConflictError as error:
            raise _in_conflict(manifest, error) from error
        if manifest.kind == _DEFINITION:
            self.kinds.forget()
        self.asked.say("")
        return done

    def _depends(self, manifest: Manifest) -> bool:
        """Whether its namespace or its kind is made by these files."""
        spaces = {one.name for one in self.objects if one.kind == "Namespace"}
        defined = {
            str(((one.raw.get("spec") or {}).get("names") or {}).get("kind"))
            for one in self.objects
            if one.kind == _DEFINITION
        }
        return manifest.namespace in spaces or manifest.kind in defined

    async def _send(self, manifest: Manifest, *, dry_run: bool) -> tuple[Kind, str]:
        from dray.client import requests
        from dray.client.requests import WriteOptions

        kind = await self.kind_of(manifest)
        resource = kind.resource
        if resource is None:
            raise InvariantError(f"{manifest.kind} has no place in the API")
        place = self._namespace(manifest) if resource.namespaced else None
        before: dict[str, Any] | None
        try:
            before = await self.asked.client.get_raw(resource, manifest.name, namespace=place)
        except NotFoundError:
            before = None
        request = requests.apply(
            resource,
            manifest,
            manager=MANAGER,
            force=self.arguments.force_conflicts,
            namespace=place,
            options=WriteOptions(dry_run=dry_run, strict=True),
        )
        after = await self.asked.client.raw(request)
        if before is None:
            return kind, "created"
        return kind, "unchanged" if _content(before) == _content(after) else "configured"

    def _namespace(self, manifest: Manifest) -> str:
        given = self.arguments.namespace
        if given and manifest.namespace and manifest.namespace != given:
            raise InvalidError(
                f"{manifest.source}: metadata.namespace: is {manifest.namespace!r}, and -n says {given!r}; leave one out",
                field="metadata.namespace",
            )
        return manifest.namespace or self.asked.namespace


def _content(document: dict[str, Any]) -> dict[str, Any]:
    """What the object says, without what changes with every write."""
    metadata = dict(document.get("metadata") or {})
    for name in ("managedFields", "resourceVersion", "generation"):
        metadata.pop(name, None)
    return {**document, "metadata": metadata}


def _in_conflict(manifest: Manifest, error: ConflictError) -> ConflictError:
    return ConflictError(f"{manifest.source}: {error}; --force-conflicts takes these fields over")
