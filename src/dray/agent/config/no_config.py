"""No configuration: a program that serves only what it brings along."""

from __future__ import annotations

from dray.agent.config import Served
from dray.agent.config.config_source import ConfigSource, Labels, Text


class NoConfig(ConfigSource):
    """Nothing to read, and nothing ever changes."""

    def __init__(self) -> None:
        super().__init__(Labels())

    def _document(self) -> Text:
        return Text("", "no configuration")

    def _first(self) -> Served:
        return Served()

    def _newer(self) -> Served | None:
        return None
