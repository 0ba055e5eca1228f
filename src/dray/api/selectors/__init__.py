"""All selectors under one name: the types, their string forms, and the matchers they compile to."""

from __future__ import annotations

from dray.api.selectors.fields import FieldMatcher, FieldTerm, parse_field_selector
from dray.api.selectors.label_syntax import parse_label_selector
from dray.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelMatcher,
    Operator,
    Requirement,
    compile_label_selector,
    match_labels,
)
from dray.api.selectors.nodes import NodeMatcher, compile_node_selector
from dray.api.selectors.types import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldMatcher",
    "FieldTerm",
    "LabelMatcher",
    "LabelSelector",
    "LabelSelectorRequirement",
    "NodeMatcher",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Operator",
    "Requirement",
    "compile_label_selector",
    "compile_node_selector",
    "match_labels",
    "parse_field_selector",
    "parse_label_selector",
]
