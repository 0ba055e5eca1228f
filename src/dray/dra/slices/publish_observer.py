"""Who counts what the publisher of slices does: the hooks for metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dray.errors import Error


class PublishObserver(Protocol):
    """Who counts. Called from the publisher's task; must not wait."""

    def published(self, slices: int, devices: int, generation: int) -> None:
        """The server has what is wanted."""
        ...

    def wrote(self, verb: str) -> None:
        """One `create`, `update` or `delete` was answered."""
        ...

    def failed(self, error: Error) -> None:
        """A try ended so; the next one comes by itself."""
        ...

    def dropped(self, features: Sequence[str]) -> None:
        """The server did not store all fields; these feature gates are probably off. Told once each."""
        ...


class NoObserver:
    """Nobody counts."""

    def published(self, slices: int, devices: int, generation: int) -> None:
        """Not counted."""

    def wrote(self, verb: str) -> None:
        """Not counted."""

    def failed(self, error: Error) -> None:
        """Not counted."""

    def dropped(self, features: Sequence[str]) -> None:
        """Not counted."""
