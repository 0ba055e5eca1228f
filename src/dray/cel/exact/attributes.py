"""Names with the selections and indexes that follow them. What is optional stays so until the end of the chain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dray.cel.equality import find_item
from dray.cel.exact.run import Code, Run, is_error
from dray.cel.faults import EvaluationError
from dray.cel.values import MISSING, NONE, JoinedList, Optional, Value, is_list, text_of


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One `.field` or `[key]`, the key constant or computed; with a question mark a missing one is no error but nothing."""

    constant: Value
    computed: Code | None
    is_optional: bool
    is_field: bool = False
    """A constant string that must be there: what most are."""


def constant_qualifier(key: Value, *, is_optional: bool) -> Qualifier:
    """A field, or an index that stands in the text."""
    return Qualifier(key, None, is_optional, key.__class__ is str and not is_optional)


def dynamic_qualifier(key: Code, *, is_optional: bool) -> Qualifier:
    """An index that is computed."""
    return Qualifier(None, key, is_optional)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A root and what follows. `?:` costs nothing by itself, other roots 1."""

    root: Code
    is_conditional: bool = False
    qualifiers: tuple[Qualifier, ...] = ()

    def followed_by(self, qualifier: Qualifier) -> Attribute:
        """With one more."""
        return replace(self, qualifiers=(*self.qualifiers, qualifier))

    @property
    def resolve(self) -> Code:
        """The value, without the cost of the attribute itself."""
        return _chain(self.root, self.qualifiers) if self.qualifiers else self.root


def attribute_code(attribute: Attribute) -> Code:
    """The value, with all costs."""
    resolve = attribute.resolve
    if attribute.is_conditional:
        return resolve

    def evaluate(run: Run) -> Value:
        value = resolve(run)
        run.charge(1)
        return value

    return evaluate


def _chain(root: Code, qualifiers: tuple[Qualifier, ...]) -> Code:
    def follow(run: Run) -> Value:
        value = root(run)
        if is_error(value):
            return value
        is_optional = value.__class__ is Optional
        if is_optional:
            if not value.has_value:
                return value
            value = value.content
        for qualifier in qualifiers:
            if not is_optional and value.__class__ is dict and qualifier.is_field:
                run.charge(1)
                key = qualifier.constant
                value = value.get(key, MISSING)
                if value is MISSING:
                    return EvaluationError(f"no such key: {text_of(key)}")
                continue
            is_optional = is_optional or qualifier.is_optional
            value = _qualify(run, value, qualifier, is_optional)
            if value is MISSING:
                return NONE
            if is_error(value):
                return value
        return Optional(value) if is_optional else value

    return follow


def _qualify(run: Run, container: Value, qualifier: Qualifier, is_optional: bool) -> Value:
    """What is there; an error or, if it may be missing, MISSING. A miss that is no error costs nothing."""
    key = qualifier.constant
    if qualifier.computed is not None:
        key = qualifier.computed(run)
        if is_error(key):
            run.charge(0 if is_optional else 1)
            return key
    if container.__class__ is dict and key.__class__ is str:
        value = container.get(key, MISSING)
    else:
        if container.__class__ is JoinedList:
            run.spend(container.depth)
        value = _find(container, key)
    if is_optional:
        run.charge(0 if value is MISSING or is_error(value) else 1)
        return value
    run.charge(1)
    if value is MISSING:
        return EvaluationError(
            f"{'index out of bounds' if is_list(container) else 'no such key'}: {text_of(key)}"
        )
    return value


def _find(container: Value, key: Value) -> Value:
    try:
        return find_item(container, key)
    except EvaluationError as error:
        return error.with_traceback(None)


def test_code(attribute: Attribute, field: Qualifier) -> Code:
    """`has(attribute.field)`: costs what the attribute costs, but the test itself nothing."""
    resolve, price = attribute.resolve, int(not attribute.is_conditional)

    def test(run: Run) -> Value:
        value = resolve(run)
        if is_error(value):
            return value
        if value.__class__ is Optional:
            if not value.has_value:
                return False
            found = _qualify(run, value.content, field, True)
            return found if is_error(found) else found is not MISSING
        found = _find(value, field.constant)
        run.charge(price)
        return found if is_error(found) else found is not MISSING

    return test
