"""What an expression may name: variables, functions, types and macros, with the options of the language.

Immutable. All lookups are tables that are built once, when the environment is made; share it between expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from dray.cel.functions import Library, Overload
from dray.cel.syntax.reading import ParseOptions
from dray.cel.types import DOUBLE, INT, UINT, StructType, Type, type_of
from dray.errors import InvariantError

_COMPARISONS = frozenset(["_<_", "_<=_", "_>_", "_>=_"])
_NUMERIC = frozenset([INT, UINT, DOUBLE])


@dataclass(frozen=True, slots=True)
class Options:
    """The defaults are what Kubernetes sets from 1.29 on."""

    container: str = ""
    """The namespace that names are looked up in first."""
    optional_syntax: bool = True
    escaped_names: bool = False
    homogeneous_literals: bool = True
    """A list or map literal has values of one type."""
    mixed_comparisons: bool = True
    """An int may be compared with a double."""
    validates_literals: bool = True
    """Durations, timestamps and patterns that stand in the text are tried before the expression is accepted."""


class Candidate(NamedTuple):
    """An overload as the checker sees it. `variables` are the names of its type variables."""

    id: str
    parameters: tuple[Type, ...]
    result: Type
    variables: tuple[str, ...]


class Declared(NamedTuple):
    """What a name stands for: a variable of that type, or where `constant` is not None, that type."""

    name: str
    type: Type
    constant: Type | None = None


class Environment:
    """Later libraries add overloads to the functions of earlier ones, and replace macros."""

    __slots__ = (
        "_candidates",
        "_declared",
        "_fields",
        "_functions",
        "libraries",
        "options",
        "overloads",
        "parse_options",
        "structs",
        "variables",
    )

    def __init__(
        self,
        variables: Mapping[str, Type],
        libraries: tuple[Library, ...],
        options: Options | None = None,
        structs: tuple[StructType, ...] = (),
    ) -> None:
        self.variables: Mapping[str, Type] = MappingProxyType(dict(variables))
        self.libraries = libraries
        self.options = options or Options()
        self.structs = structs
        overloads = _distinct(libraries)
        by_id: dict[str, Overload] = {}
        for overload in overloads:  # in their order: calls on dyn take the first that fits
            by_id.setdefault(overload.id, overload)
        self.overloads: Mapping[str, Overload] = MappingProxyType(by_id)
        self.parse_options = ParseOptions(
            macros={macro.key: macro for library in libraries for macro in library.macros},
            optional_syntax=self.options.optional_syntax,
            escaped_names=self.options.escaped_names,
        )
        self._declared = _declared(self.variables, libraries, structs)
        self._fields = {struct.type: struct.fields for struct in structs}
        self._candidates = self._group(overloads)
        self._functions = frozenset(overload.function for overload in overloads)

    def extend(
        self,
        variables: Mapping[str, Type] | None = None,
        libraries: tuple[Library, ...] = (),
        options: Options | None = None,
        structs: tuple[StructType, ...] = (),
    ) -> Environment:
        """A new environment with these as well; options replace the ones here."""
        return Environment(
            {**self.variables, **(variables or {})},
            (*self.libraries, *libraries),
            options or self.options,
            (*self.structs, *structs),
        )

    def declared(self, name: str) -> Declared | None:
        """The variable or type that is called so, without looking into the container."""
        return self._declared.get(name)

    def resolve(self, name: str) -> tuple[str, ...]:
        """The full names that a name may mean, the first that is declared wins: those of the container come first."""
        if name.startswith("."):
            return (name[1:],)
        container = self.options.container
        if not container:
            return (name,)
        parts = container.split(".")
        return (*(".".join([*parts[:count], name]) for count in range(len(parts), 0, -1)), name)

    def function(self, name: str) -> str | None:
        """The full name of a function that is declared."""
        return next((full for full in self.resolve(name) if full in self._functions), None)

    def candidates(self, function: str, *, is_member: bool, count: int) -> tuple[Candidate, ...]:
        """The overloads that fit a call by its form; `count` includes the target."""
        return self._candidates.get((function, is_member, count), ())

    def field(self, struct: Type, name: str) -> Type | None:
        """The type of a declared field."""
        return self._fields[struct].get(name) if struct in self._fields else None

    def has_fields(self, struct: Type) -> bool:
        """Whether the fields of a type are declared."""
        return struct in self._fields

    def _group(self, overloads: Iterable[Overload]) -> dict[tuple[str, bool, int], tuple[Candidate, ...]]:
        grouped: dict[tuple[str, bool, int], tuple[Candidate, ...]] = {}
        for overload in overloads:
            if not self.options.mixed_comparisons and _is_mixed(overload):
                continue
            key = (overload.function, overload.is_member, len(overload.parameters))
            variables = tuple(sorted(_variables((overload.result, *overload.parameters))))
            candidate = Candidate(overload.id, overload.parameters, overload.result, variables)
            grouped[key] = (*grouped.get(key, ()), candidate)
        return grouped


def _distinct(libraries: tuple[Library, ...]) -> tuple[Overload, ...]:
    """All overloads in order; one that a second library declares again counts once."""
    found: dict[tuple[str, str], Overload] = {}
    for library in libraries:
        for overload in library.overloads:
            known = found.setdefault((overload.function, overload.id), overload)
            if known.parameters != overload.parameters:
                raise InvariantError(
                    f"overload {overload.id} of {library.name} is declared twice, differently"
                )
    return tuple(found.values())


def _declared(
    variables: Mapping[str, Type], libraries: tuple[Library, ...], structs: tuple[StructType, ...]
) -> dict[str, Declared]:
    types = [
        *(struct.type for struct in structs),
        *(type_ for library in libraries for type_ in library.types),
    ]
    named = {type_.name: Declared(type_.name, type_of(type_), type_) for type_ in types}
    return named | {name: Declared(name, type_) for name, type_ in variables.items()}


def _is_mixed(overload: Overload) -> bool:
    """A comparison of two kinds of numbers."""
    kinds = set(overload.parameters)
    return overload.function in _COMPARISONS and len(kinds) > 1 and kinds <= _NUMERIC


def _variables(types: Iterable[Type]) -> set[str]:
    found: set[str] = set()
    for type_ in types:
        found |= {type_.name} if type_.is_parameter else _variables(type_.parameters)
    return found
