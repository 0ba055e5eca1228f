"""The objects in files that `dray apply` and `dray delete` are given: files, directories, stdin. Every fault has its `file:line`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from dray.api.codec import Manifest, load_documents
from dray.cli.manifests import read_text
from dray.errors import InvalidError

_ENDINGS: Final = (".yaml", ".yml", ".json")


def add_file_arguments(parser: argparse.ArgumentParser, text: str) -> None:
    """-f and -R."""
    parser.add_argument("-f", "--filename", action="extend", nargs="+", default=[], metavar="FILE", help=text)
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="directories with all that is below them"
    )


def read_objects(names: Sequence[str], *, recursive: bool = False) -> list[Manifest]:
    """All objects, in order; every fault of every file is told at once, before anything is done."""
    found: list[Manifest] = []
    faults: list[InvalidError] = []
    for name in _files(names, recursive=recursive):
        try:
            found += load_documents(read_text(name), "<stdin>" if name == "-" else name)
        except InvalidError as error:
            faults.append(error)
    faults += [fault for one in found for fault in _faults(one)]
    raise_all(faults)
    if not found:
        raise InvalidError(f"no objects in {', '.join(names)}", field="-f")
    return found


def _files(names: Iterable[str], *, recursive: bool) -> Iterator[str]:
    for name in names:
        path = Path(name)
        if name == "-" or not path.is_dir():
            yield name
            continue
        inside = path.rglob("*") if recursive else path.iterdir()
        files = sorted(str(one) for one in inside if one.suffix in _ENDINGS and one.is_file())
        if not files:
            hint = "" if recursive else "; -R looks below it too"
            raise InvalidError(f"{name}: no file there ends in {', '.join(_ENDINGS)}{hint}", field="-f")
        yield from files


def _faults(manifest: Manifest) -> Iterator[InvalidError]:
    for field, value in (("apiVersion", manifest.api_version), ("kind", manifest.kind)):
        if not value:
            yield InvalidError(f"{manifest.source}: {field}: is not set", field=field)
    if not manifest.name:
        yield InvalidError(
            f"{manifest.source}: metadata.name: is not set, and an object is known by its name",
            field="metadata.name",
        )


def at(manifest: Manifest, error: InvalidError) -> InvalidError:
    """The error with the place in the file, unless it has one."""
    if str(error).startswith(f"{manifest.source}:"):
        return error
    return InvalidError(f"{manifest.source}: {error}", field=error.field)


def raise_all(faults: Sequence[Any]) -> None:
    """One error that names them all; nothing where there are none."""
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise InvalidError(f"{len(faults)} faults, the first: {faults[0]}", field="-f", causes=tuple(faults))


def say(text: str) -> None:
    """A line of what was done, at once: the next step may take a while."""
    print(text, flush=True)
