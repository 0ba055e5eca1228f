"""Node selectors, compiled: terms are alternatives, the conditions inside a term must all hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from dray.api.field_errors import FieldError, Path, Reason
from dray.api.selectors.fields import FieldMatcher, FieldTerm
from dray.api.selectors.labels import (
    NAMED_OPERATORS,
    LabelMatcher,
    Labels,
    Requirement,
    divide,
    matcher,
    raise_faults,
    require,
)
from dray.api.selectors.types import NodeSelector, NodeSelectorRequirement

_FIELD_OPERATORS: Final = ("In", "NotIn")


@dataclass(frozen=True, slots=True)
class _Term:
    labels: LabelMatcher
    fields: FieldMatcher
    faults: tuple[FieldError, ...] = ()

    def matches(self, labels: Labels, name: str) -> bool:
        if self.faults or not self.labels.matches(labels):
            return False
        return not name or self.fields.matches({"metadata.name": name})


@dataclass(frozen=True, slots=True)
class NodeMatcher:
    """Matches a node by its labels and name. Without any term that has a condition it matches nothing."""

    terms: tuple[_Term, ...] = ()

    def matches(self, labels: Labels, name: str) -> bool:
        """Whether a node is selected. A broken term of a lenient matcher counts only when no other term matches:
        then it raises InvalidError.
        """
        if any(term.matches(labels, name) for term in self.terms):
            return True
        raise_faults("node selector", [fault for term in self.terms for fault in term.faults])
        return False


def compile_node_selector(
    selector: NodeSelector, path: Path | None = None, *, lenient: bool = False
) -> NodeMatcher:
    """The matcher of a node selector; raises InvalidError with every fault.

    `lenient` keeps broken terms and reports them on matching, as the scheduler does with a pod's node affinity.
    """
    terms_path = (path or Path()).child("nodeSelectorTerms")
    terms = []
    for index, term in enumerate(selector.node_selector_terms):
        if term.match_expressions or term.match_fields:
            place = terms_path.index(index)
            labels, label_faults = _labels(term.match_expressions, place.child("matchExpressions"))
            fields, field_faults = _fields(term.match_fields, place.child("matchFields"))
            terms.append(_Term(labels, fields, (*label_faults, *field_faults)))
    if not lenient:
        raise_faults("node selector", [fault for term in terms for fault in term.faults])
    return NodeMatcher(tuple(terms))


def _labels(entries: Sequence[NodeSelectorRequirement], path: Path) -> tuple[LabelMatcher, list[FieldError]]:
    results: list[Requirement | list[FieldError]] = []
    for index, entry in enumerate(entries):
        operator = NAMED_OPERATORS.get(entry.operator)
        if operator is None:
            results.append([_unsupported(path.index(index), entry.operator, NAMED_OPERATORS)])
        else:
            results.append(require(entry.key, operator, entry.values, path.index(index)))
    made, faults = divide(results)
    return matcher(made), faults


def _fields(entries: Sequence[NodeSelectorRequirement], path: Path) -> tuple[FieldMatcher, list[FieldError]]:
    made, faults = [], list[FieldError]()
    for index, entry in enumerate(entries):
        place = path.index(index)
        if entry.operator not in _FIELD_OPERATORS:
            faults.append(_unsupported(place, entry.operator, _FIELD_OPERATORS))
        elif len(entry.values) != 1:
            shown = msgspec.json.encode(entry.values).decode()
            text = f"Invalid value: {shown}: must have one element"
            faults.append(FieldError(str(place.child("values")), Reason.INVALID, text, entry.values))
        else:
            made.append(FieldTerm(entry.key, entry.values[0], entry.operator == "In"))
    return FieldMatcher(tuple(made)), faults


def _unsupported(place: Path, operator: str, known: Iterable[str]) -> FieldError:
    names = ", ".join(f'"{name}"' for name in sorted(known))
    shown = msgspec.json.encode(operator).decode()
    text = f"Unsupported value: {shown}: supported values: {names}"
    return FieldError(str(place.child("operator")), Reason.NOT_SUPPORTED, text, operator)
