"""cel-go's `cel.bind(name, value, expression)`. Kubernetes has it where devices are selected."""

from __future__ import annotations

from dray.cel.functions import Library
from dray.cel.syntax.macros import BINDINGS

LIBRARY = Library(name="cel.lib.ext.cel.bindings", macros=BINDINGS)
