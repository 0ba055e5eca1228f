"""CEL selectors: the variable `device` on top of `cel/`, with Kubernetes' rules, limits and error texts.

A selector is compiled once and kept. A device is prepared once (`device_values.prepare`) and shared by all selectors.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from dray.allocation.device_values import (
    ATTRIBUTES,
    CAPACITY,
    DRIVER,
    MULTIPLE,
    DeviceValue,
    Place,
    Projection,
    places_of,
    prepare,
    projection_to,
)
from dray.allocation.faults import SelectorError
from dray.allocation.features import Features, features_of_gates
from dray.allocation.profiles import CORRECT, Profile
from dray.allocation.selector_sizes import size_hint
from dray.api.field_errors import FieldError, Path, Reason
from dray.api.resource.slice import Device
from dray.api.validation.faults import forbidden, invalid
from dray.cel import types as t
from dray.cel.budget import Charged
from dray.cel.environment import Environment
from dray.cel.faults import CelError, EvaluationError, render
from dray.cel.library import bindings, includes, kubernetes
from dray.cel.library.quantity import QUANTITY
from dray.cel.memo import Memo
from dray.cel.program import Program, compile_expression
from dray.cel.types import StructType
from dray.cel.values import Optional, Value, type_name
from dray.semantics.features import enabled_gates

COST_LIMIT: Final = 1_000_000
"""For the estimate when a selector is admitted, and for each evaluation."""
ADMITTED: Final = features_of_gates(enabled_gates(), CORRECT)
"""What an API server has on if nobody says otherwise: of what selectors look at, consumable capacity and no list attributes."""
KEPT_BYTES: Final = 64 << 20
"""What remembered selectors may need: some thousand usual ones, or a hundred of the largest."""

_DEVICE: Final = t.struct_of("kubernetes.DRADevice")
_FOLDING: Final = "program instantiation failed: "
_REMEMBERED_DEVICES: Final = 100_000
_INCLUDES: Final = "includes"
_SECONDS_PER_CHARACTER: Final = 1e-5
_LONGEST_AHEAD: Final = 0.05
"""Less than any caller with a clock has who may compile at all, so that the longest text is compiled some time."""
_SHOWN: Final = 4096
"""Characters of an error that are shown: one may repeat a text that the selector made."""


class CompileError(SelectorError):
    """A text that is no selector. `text` has all faults, each with its line and a caret, as Kubernetes words them.

    `is_internal` marks what Kubernetes takes for a failure of its own: a constant that cannot be converted.
    """

    def __init__(self, message: str, text: str = "", *, is_internal: bool = False) -> None:
        super().__init__(message, compiled=False)
        self.text = text or message
        self.is_internal = is_internal


@cache
def device_environment(*, multiple: bool, lists: bool, has_includes: bool) -> Environment:
    """What a selector may name. With `lists`, an attribute may be a list, and the checker lets macros walk over it."""
    attribute = t.DYN if lists else t.ANY
    fields = {
        DRIVER: t.STRING,
        ATTRIBUTES: t.map_of(t.STRING, t.map_of(t.STRING, attribute)),
        CAPACITY: t.map_of(t.STRING, t.map_of(t.STRING, QUANTITY)),
    }
    if multiple:
        fields[MULTIPLE] = t.BOOL
    libraries = (*kubernetes.LIBRARIES, bindings.LIBRARY)
    if has_includes:
        libraries += (includes.LIBRARY,)
    return Environment({"device": _DEVICE}, libraries, structs=(StructType(_DEVICE, fields),))


def environment_for(features: Features, *, stored: bool) -> Environment:
    """A stored text may use what it could when it was admitted: gates take nothing from it but list attributes."""
    lists = features.list_type_attributes
    return device_environment(
        multiple=stored or features.consumable_capacity, lists=lists, has_includes=stored or lists
    )


def features_for_selectors(features: Features, profile: Profile) -> Features:
    """What a scheduler's selectors go by: theirs are stored texts, which from 1.37 on know lists whatever the gate says."""
    return features if profile.lists_need_gate else replace(features, list_type_attributes=True)


class Selector:
    """A compiled selector. Immutable: shared by whoever asks for the same text. `places` is what it reads of a device."""

    __slots__ = ("_evaluate", "_lists", "places", "program", "projection")

    def __init__(self, program: Program, *, lists: bool) -> None:
        self.program = program
        self._lists = lists
        self._evaluate = program.of_variable("device")
        self.places: tuple[Place, ...] = places_of(program.reads)
        self.projection: Projection = projection_to(self.places)
        """Devices with equal projections have the same answer or error."""

    @property
    def expression(self) -> str:
        """Its text."""
        return self.program.text

    @property
    def estimated_cost(self) -> int:
        """What it may cost at most, with a device as large as a device can be."""
        return self.program.estimated_cost.max

    def prepare(self, driver: str, device: Device) -> DeviceValue:
        """What the other methods take; good for every selector with the same features."""
        return prepare(driver, device, lists=self._lists)

    def matches(self, driver: str, device: Device) -> bool:
        """For a device that is asked about once; raises `SelectorError`."""
        return self.accepts(self.prepare(driver, device))

    def accepts(self, device: DeviceValue, budget: Charged | None = None) -> bool:
        """Whether the device is meant; raises `SelectorError`, and `BudgetSpentError` where a budget is lent."""
        if device.fault:
            raise SelectorError(device.fault)
        try:
            if budget is None:
                answer = self._evaluate(device.value)
            else:
                answer = self.program.evaluate_within({"device": device.value}, budget)
        except EvaluationError as error:
            raise SelectorError(_shortened(str(error))) from None
        if answer is True:
            return True
        if answer is False:
            return False
        return _as_bool(answer)

    def accepts_with_cost(
        self, device: DeviceValue, budget: Charged | None = None
    ) -> tuple[bool | None, str, int | None]:
        """(answer, error, cost): as `accepts`, with the cost counted. It is None where nothing was evaluated."""
        if device.fault:
            return None, device.fault, None
        run = self.program.start({"device": device.value}, budget=budget)
        try:
            return _as_bool(self.program.finish(run)), "", run.cost
        except (EvaluationError, SelectorError) as error:
            return None, _shortened(str(error)), run.cost


def _shortened(message: str) -> str:
    return message if len(message) <= _SHOWN else f"{message[:_SHOWN]}…"


def _as_bool(answer: Value) -> bool:
    inner = answer
    while isinstance(inner, Optional) and inner.has_value:
        inner = inner.content
    if inner is True or inner is False:
        return bool(inner)
    raise SelectorError(f"CEL result of type {type_name(answer)} could not be converted to bool")


def compile_selector(expression: str, features: Features, *, stored: bool = True) -> Selector:
    """The selector of this text; recent ones are remembered. Raises `CompileError`.

    The allocator takes texts as stored; `stored=False` is for those that an API server sees for the first time.
    """
    key = _key(expression, features, stored=stored)
    found = _KNOWN.get(key)
    if found is None:
        try:
            found = _compile(*key)
        except CompileError as error:
            found = error
        _KNOWN.put(key, found, _size(found))
    if isinstance(found, CompileError):
        raise found.with_traceback(None)
    return found


_Key = tuple[str, bool, bool, bool]
_KNOWN: Final[Memo[_Key, Selector | CompileError]] = Memo(KEPT_BYTES)


def _key(expression: str, features: Features, *, stored: bool) -> _Key:
    """What makes a difference to this text. One that names nothing that came with a gate is the same to the API server that
    sees it first and to the scheduler in its process, which then need not compile it in its loop."""
    lists = features.list_type_attributes
    multiple = MULTIPLE in expression and (stored or features.consumable_capacity)
    return expression, multiple, lists, _INCLUDES in expression and (stored or lists)


def _seconds_ahead(expression: str) -> float:
    """What compiling a text may take, about."""
    return min(_SECONDS_PER_CHARACTER * len(expression), _LONGEST_AHEAD)


def _size(compiled: Selector | CompileError) -> int:
    """The memory of what is remembered. An error shows its text a hundred times at most, each with its line."""
    return 1024 + 4 * len(compiled.text) if isinstance(compiled, CompileError) else compiled.program.size


def _compile(expression: str, multiple: bool, lists: bool, has_includes: bool) -> Selector:
    environment = device_environment(multiple=multiple, lists=lists, has_includes=has_includes)
    try:
        program = compile_expression(expression, environment, COST_LIMIT, size_hint)
    except CelError as error:
        raise _compile_error(error, expression) from None
    accepted = (t.BOOL, t.ANY, t.DYN) if lists else (t.BOOL, t.ANY)
    if program.result_type not in accepted:
        raise CompileError(f"must evaluate to bool or the unknown type, not {program.result_type}")
    return Selector(program, lists=lists)


def compile_part(expression: str, features: Features, *, stored: bool) -> Program:
    """An expression over `device` of any type; raises `CelError`."""
    environment = environment_for(features, stored=stored)
    return compile_expression(expression, environment, COST_LIMIT, size_hint)


def _compile_error(error: CelError, expression: str) -> CompileError:
    if str(error).startswith(_FOLDING):
        return CompileError(str(error), is_internal=True)
    heads = (f"{fault.message} (at character {fault.position + 1})" for fault in error.faults)
    return CompileError(
        f"compilation failed: {'; '.join(heads)}", f"compilation failed: {render(error, expression)}"
    )


def check_selector(
    expression: str, path: Path, stored: bool, features: Features = ADMITTED
) -> list[FieldError]:
    """What an API server says to a selector in a claim or class; `api/` validation takes it as a callable."""
    try:
        selector = compile_selector(expression, features, stored=stored)
    except CompileError as error:
        if error.is_internal:
            return [FieldError(path.text, Reason.INTERNAL, f"Internal error: {error}", None)]
        return [invalid(path, expression, error.text)]
    if selector.estimated_cost > COST_LIMIT:
        return [forbidden(path, "too complex, exceeds cost limit")]
    return []


class CompiledSelectors:
    """The allocator's `Selectors`: texts are compiled and devices prepared when they are first met, and kept.

    Owned by one allocator or index. A device is known by identity, so a changed one must be a new object, as frozen
    structs are.
    """

    def __init__(self, features: Features) -> None:
        self.budget: Charged | None = None
        """Pays for evaluations while one search lends it; whoever sets it takes it back."""
        self._features = features
        self._compiled: dict[str, Selector | CompileError] = {}
        self._compiled_size = 0
        self._prepared: dict[tuple[int, str], tuple[Device, DeviceValue]] = {}

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        """See `Selectors`."""
        return self.selector(expression).accepts(self.prepared(driver, device), self.budget)

    def selector(self, expression: str) -> Selector:
        """Compiled once; raises `CompileError` each time. A claim may bring hundreds: the clock is looked at before each that
        nobody in the process has compiled, and whoever has too little time left does not begin."""
        found = self._compiled.get(expression)
        if found is None:
            if self.budget is not None:
                is_known = _KNOWN.get(_key(expression, self._features, stored=True)) is not None
                self.budget.check(0.0 if is_known else _seconds_ahead(expression))
            try:
                found = compile_selector(expression, self._features)
            except CompileError as error:
                found = error
            self._compiled_size += _size(found)
            if self._compiled_size > KEPT_BYTES:
                self._compiled.clear()
                self._compiled_size = _size(found)
            self._compiled[expression] = found
        if isinstance(found, CompileError):
            raise found.with_traceback(None)
        return found

    def prepared(self, driver: str, device: Device) -> DeviceValue:
        """Prepared once. The device is held as well: its identity stays its own for as long as it is a key."""
        found = self._prepared.get((id(device), driver))
        if found is None:
            if len(self._prepared) >= _REMEMBERED_DEVICES:
                self._prepared.clear()
            value = prepare(driver, device, lists=self._features.list_type_attributes)
            found = self._prepared[id(device), driver] = (device, value)
        return found[1]
