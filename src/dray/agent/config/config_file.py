"""The agent's configuration as files that may be edited at any time: the newest good content counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dray.agent.config.config_source import (
    ConfigSource,
    Labels,
    NodeLabels,
    OnRefusal,
    Text,
    read_text,
)
from dray.agent.config.label_lines import parse_label, parse_labels

__all__ = ["ConfigFile", "parse_label", "parse_labels"]


class ConfigFile(ConfigSource):
    """A file, and the labels of the node: its object's, `labels` given once, `labels_path` a file that goes before.

    `load` reads both files; `follow` watches them.
    """

    def __init__(
        self,
        path: Path,
        labels: Mapping[str, str] | None = None,
        labels_path: Path | None = None,
        *,
        node: NodeLabels | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> None:
        super().__init__(Labels(labels or {}, labels_path, node), on_refusal)
        self.path = path

    def _document(self) -> Text:
        return Text(read_text(self.path, "--config"), str(self.path))

    def _files(self) -> tuple[Path, ...]:
        return (self.path,)
