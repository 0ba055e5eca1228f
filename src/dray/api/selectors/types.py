"""Label and node selectors as objects carry them. `label_selectors` and `node_selectors` compile them to matchers."""

from __future__ import annotations

from msgspec import field

from dray.api.meta import Model


class LabelSelectorRequirement(Model, frozen=True, kw_only=True):
    """One condition on labels: `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Model, frozen=True, kw_only=True):
    """All conditions must hold. Empty matches everything; an absent selector (None) matches nothing."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Model, frozen=True, kw_only=True):
    """One condition on a node: `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model, frozen=True, kw_only=True):
    """All conditions must hold. A term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model, frozen=True, kw_only=True):
    """One of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()
