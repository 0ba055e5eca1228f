"""Rules for node selectors, as slices, devices, allocations and pods carry them."""

from __future__ import annotations

from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.selectors.types import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dray.api.validation.faults import by_rule, forbidden, invalid, required

_BAD_OPERATOR: Final = "not a valid selector operator"


def check_node_selector(selector: NodeSelector, path: Path, *, any_values: bool = False) -> list[FieldError]:
    """All terms. `any_values` lets values pass that no label can have, as a pod's own affinity may hold them."""
    terms = path.child("nodeSelectorTerms")
    if not selector.node_selector_terms:
        return [required(terms, "must have at least one node selector term")]
    errors: list[FieldError] = []
    for position, term in enumerate(selector.node_selector_terms):
        errors += check_node_selector_term(term, terms.index(position), any_values=any_values)
    return errors


def check_node_selector_term(
    term: NodeSelectorTerm, path: Path, *, any_values: bool = False
) -> list[FieldError]:
    """The requirements of one term."""
    errors: list[FieldError] = []
    for position, requirement in enumerate(term.match_expressions):
        errors += _expression(requirement, path.child("matchExpressions").index(position), any_values)
    for position, requirement in enumerate(term.match_fields):
        errors += _field(requirement, path.child("matchFields").index(position))
    return errors


def _expression(requirement: NodeSelectorRequirement, path: Path, any_values: bool) -> list[FieldError]:
    errors = _operator(requirement, path) + by_rule(names.label_key, requirement.key, path.child("key"))
    if not any_values:
        for position, value in enumerate(requirement.values):
            errors += by_rule(names.label_value, value, path.child("values").index(position))
    return errors


def _operator(requirement: NodeSelectorRequirement, path: Path) -> list[FieldError]:
    count = len(requirement.values)
    match requirement.operator:
        case "In" | "NotIn":
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            return [] if count else [required(path.child("values"), text)]
        case "Exists" | "DoesNotExist":
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [forbidden(path.child("values"), text)] if count else []
        case "Gt" | "Lt":
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            return [] if count == 1 else [required(path.child("values"), text)]
        case operator:
            return [invalid(path.child("operator"), operator, _BAD_OPERATOR)]


def _field(requirement: NodeSelectorRequirement, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if requirement.operator not in ("In", "NotIn"):
        errors.append(invalid(path.child("operator"), requirement.operator, _BAD_OPERATOR))
    elif len(requirement.values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(path.child("values"), text))
    if requirement.key != "metadata.name":
        return [*errors, invalid(path.child("key"), requirement.key, "not a valid field selector key")]
    for position, value in enumerate(requirement.values):
        errors += by_rule(names.dns_subdomain, value, path.child("values").index(position))
    return errors
