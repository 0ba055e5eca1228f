"""What keeps the allocator from an answer. That nothing fits is no error: then the answer is None."""

from __future__ import annotations

from dray.errors import InvalidError


class AllocationError(InvalidError):
    """The claims, classes or slices cannot be worked with on any node: the whole scheduling attempt ends."""


class NodeAllocationError(InvalidError):
    """This node cannot serve the claims for a reason worth telling; other nodes may."""


class StepLimitError(NodeAllocationError):
    """The search was cut off: whether the claims fit on this node is not known. `steps` were taken."""

    def __init__(self, message: str, *, steps: int) -> None:
        super().__init__(message)
        self.steps = steps


class TimeLimitError(StepLimitError):
    """The same, because the time was over: so many `seconds` were allowed."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message, steps=0)
        self.seconds = seconds


class SelectorError(InvalidError):
    """A selector has no answer for a device. `compiled` tells run-time faults from a text that does not compile."""

    def __init__(self, message: str, *, compiled: bool = True) -> None:
        super().__init__(message)
        self.compiled = compiled
