"""What the checker found a name or a call to mean."""

from __future__ import annotations

from dray.cel.ast import Call, Expr
from dray.cel.check.checker import Checked, Constant
from dray.cel.types import Type


def overload_ids(checked: Checked, node: Call) -> tuple[str, ...]:
    """The overloads that a call may mean; the kinds of the values at run time choose."""
    found = checked.references.get(node.id, ())
    return found if isinstance(found, tuple) else ()


def constant_of(checked: Checked, node: Expr) -> Type | None:
    """The type that a name stands for, None if it stands for a variable."""
    found = checked.references.get(node.id)
    return found.value if isinstance(found, Constant) else None
