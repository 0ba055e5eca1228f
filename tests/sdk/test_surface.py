"""What drivers of others are written against: names, signatures, fields and defaults, as `surface.txt` has them.

Something more is fine: write it there. Something less or else is a new contract: raise `CONTRACT`, keep the old one
working, and say so in docs/reference/sdk.md.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path

import dray.sdk
from dray.errors import Error

SNAPSHOT = Path(__file__).parent / "surface.txt"


def surface() -> Iterator[str]:
    for name in dray.sdk.__all__:
        thing = getattr(dray.sdk, name)
        if not inspect.isclass(thing):
            yield f"{name}{inspect.signature(thing)}" if callable(thing) else f"{name} = {thing!r}"
            continue
        yield f"class {name}({', '.join(one.__name__ for one in thing.__bases__)})"
        yield from () if issubclass(thing, Error) else (f"    {line}" for line in _members(thing))


def _members(thing: type) -> Iterator[str]:
    fields = {one.name: one for one in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else {}
    for name, kind in inspect.get_annotations(thing).items():
        if name == "_" or name.startswith("_"):
            continue
        if name in fields:
            keyword = " (by name)" if fields[name].kw_only else ""
            yield f"{name}: {kind}{_default(fields[name])}{keyword}"
        else:
            yield f"{name}: {kind} = {getattr(thing, name)!r}"
    if "__init__" in vars(thing) and not fields:
        yield f"__init__{inspect.signature(vars(thing)['__init__'])}"
    for name, member in sorted(vars(thing).items()):
        if name.startswith("_") or name in inspect.get_annotations(thing):
            continue
        if isinstance(member, property):
            yield f"{name}: property"
        elif isinstance(member, classmethod):
            yield f"{name}{inspect.signature(member.__func__)} (of the class)"
        elif inspect.isfunction(member):
            yield f"{name}{inspect.signature(member)}"


def _default(field: dataclasses.Field[object]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {field.default!r}"
    return " = …" if field.default_factory is not dataclasses.MISSING else ""


def test_the_contract_is_what_it_was() -> None:
    found = "\n".join(surface()) + "\n"
    assert found == SNAPSHOT.read_text(), __doc__


def test_the_types_are_told() -> None:
    assert (Path(dray.sdk.__file__).parents[1] / "py.typed").exists()


def test_the_page_names_everything() -> None:
    page = Path("docs/reference/sdk.md").read_text()
    assert [name for name in dray.sdk.__all__ if f"`{name}" not in page] == []
