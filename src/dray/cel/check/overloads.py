"""Which overloads of a function fit the types of a call: type variables, what they stand for, and what may be passed as what."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from dray.cel.environment import Candidate
from dray.cel.types import ANY, DURATION, DYN, ERROR, NULL, TIMESTAMP, Type, variable

_DYNAMIC = frozenset([DYN, ANY])
_WILD = frozenset([DYN, ANY, ERROR])
_NULLABLE = frozenset([ANY, DURATION, TIMESTAMP, NULL])


class Resolution(NamedTuple):
    """The overloads that fit, by id, and the type of the result: dyn where they differ in it."""

    ids: tuple[str, ...]
    result: Type


def is_dynamic(type_: Type) -> bool:
    """Whether any value may be there at run time."""
    return type_ in _DYNAMIC


def unwrap_optional(type_: Type) -> tuple[Type, bool]:
    """What an optional holds, and whether it is one."""
    if type_.name == "optional_type" and type_.parameters:
        return type_.parameters[0], True
    return type_, False


class Substitutions:
    """What the type variables of one expression stand for. Grows while it is checked; a trial that fails leaves no trace."""

    __slots__ = ("_bound", "_final", "_fresh", "_plain", "_trail")

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []
        self._plain: dict[Type, bool] = {}
        self._final: dict[Type, Type] = {}
        self._fresh = 0

    def fresh(self) -> Type:
        """A type variable that nothing is known of."""
        self._fresh += 1
        return variable(f"_var{self._fresh - 1}")

    def assignable(self, first: Type, second: Type) -> bool:
        """Whether one may stand for the other; what it says of type variables is kept if so."""
        return first is second or self._tried((first,), (second,))

    def resolve(self, candidates: tuple[Candidate, ...], arguments: tuple[Type, ...]) -> Resolution | None:
        """Every candidate that fits, as values known only at run time may need any of them."""
        ids: list[str] = []
        result: Type | None = None
        for candidate in candidates:
            parameters, outcome = self._instance(candidate)
            if not self._tried(arguments, parameters):
                continue
            ids.append(candidate.id)
            found = self.applied(outcome)
            if result is None:
                result = found
            elif result not in _DYNAMIC and found != result:
                result = DYN
        return None if result is None else Resolution(tuple(ids), result)

    def applied(self, type_: Type) -> Type:
        """With the variables replaced by what they stand for."""
        while type_.is_parameter:
            if type_ not in self._bound:
                return type_
            type_ = self._bound[type_]
        if not type_.parameters or self._is_plain(type_):
            return type_
        return _with(type_, tuple(map(self.applied, type_.parameters)))

    def final(self, type_: Type) -> Type:
        """The same, with dyn for the variables that stand for nothing. Only once no more is learnt of any."""
        known = self._final.get(type_)
        if known is None:
            if type_.is_parameter:
                known = self.final(self._bound[type_]) if type_ in self._bound else DYN
            elif type_.parameters and not self._is_plain(type_):
                known = _with(type_, tuple(map(self.final, type_.parameters)))
            else:
                known = type_
            self._final[type_] = known
        return known

    def shown(self, type_: Type) -> Type:
        """As `final`, but for a message: of what is known so far."""
        type_ = self.applied(type_)
        if type_.is_parameter:
            return DYN
        return _with(type_, tuple(map(self.shown, type_.parameters))) if type_.parameters else type_

    def _is_plain(self, type_: Type) -> bool:
        """Whether no variable is in it. Remembered, so that types in types take no longer each time."""
        known = self._plain.get(type_)
        if known is None:
            known = not type_.is_parameter and all(map(self._is_plain, type_.parameters))
            self._plain[type_] = known
        return known

    def _instance(self, candidate: Candidate) -> tuple[tuple[Type, ...], Type]:
        """Its types, with variables that no other call uses."""
        if not candidate.variables:
            return candidate.parameters, candidate.result
        fresh = {name: self.fresh() for name in candidate.variables}
        return tuple([_renamed(type_, fresh) for type_ in candidate.parameters]), _renamed(
            candidate.result, fresh
        )

    def _tried(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        mark = len(self._trail)
        if self._all(first, second):
            return True
        while len(self._trail) > mark:
            name, previous = self._trail.pop()
            if previous is None:
                del self._bound[name]
            else:
                self._bound[name] = previous
        return False

    def _bind(self, name: Type, type_: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = type_

    def _all(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        if len(first) != len(second):
            return False
        return all(map(self._fits, first, second))

    def _fits(self, first: Type, second: Type) -> bool:
        if first == second:
            return True
        if second.is_parameter:
            fits, is_bound = self._stands_for(first, second)
            if fits or is_bound:
                return fits
        if first.is_parameter:
            return self._stands_for(second, first)[0]
        if first in _WILD or second in _WILD:
            return True
        if first == NULL or second == NULL:
            return _is_nullable(second if first == NULL else first)
        if first.name != second.name or first.is_opaque != second.is_opaque:
            return False
        return first.name == "type" or self._all(first.parameters, second.parameters)

    def _stands_for(self, type_: Type, name: Type) -> tuple[bool, bool]:
        """Whether the variable may stand for the type, and whether it stood for something before."""
        bound = self._bound.get(name)
        if bound is None:
            if self._occurs(name, type_):
                return False, False
            self._bind(name, type_)
            return True, False
        if bound == type_:
            return True, True
        if not self._fits(type_, bound):
            return False, True
        general = most_general(type_, bound)
        if not self._occurs(name, general):
            self._bind(name, general)
        return True, True

    def _occurs(self, name: Type, within: Type) -> bool:
        while within.is_parameter:
            if within == name:
                return True
            if within not in self._bound:
                return False
            within = self._bound[within]
        if not within.parameters or self._is_plain(within):
            return False
        return any(map(partial(self._occurs, name), within.parameters))


def most_general(first: Type, second: Type) -> Type:
    """Of two that fit each other."""
    return first if _is_as_general(first, second) else second


def _is_as_general(first: Type, second: Type) -> bool:
    if first in _DYNAMIC or first.is_parameter:
        return True
    if second in _DYNAMIC or second.is_parameter or first.name != second.name:
        return False
    if first.name == "type" or len(first.parameters) != len(second.parameters):
        return first.name == "type"
    return all(map(_is_as_general, first.parameters, second.parameters))


def _is_nullable(type_: Type) -> bool:
    return type_.is_opaque or type_.is_struct or type_ in _NULLABLE


def _renamed(type_: Type, fresh: dict[str, Type]) -> Type:
    if type_.is_parameter:
        return fresh[type_.name]
    if not type_.parameters:
        return type_
    return _with(type_, tuple([_renamed(parameter, fresh) for parameter in type_.parameters]))


def _with(type_: Type, parameters: tuple[Type, ...]) -> Type:
    return Type(type_.name, parameters, is_opaque=type_.is_opaque, is_struct=type_.is_struct)
