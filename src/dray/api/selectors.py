"""All selectors under one name: the types, their string forms, and the matchers they compile to."""

from __future__ import annotations

from dray.api.field_selectors import FieldMatcher, FieldTerm, parse_field_selector
from dray.api.label_selectors import (
    EVERYTHING,
    NOTHING,
    LabelMatcher,
    Operator,
    Requirement,
    compile_label_selector,
    match_labels,
)
from dray.api.label_syntax import parse_label_selector
from dray.api.node_selectors import NodeMatcher, compile_node_selector
from dray.api.selector_types import (
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
