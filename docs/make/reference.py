"""The pages of `docs/reference/` that the code itself tells."""

from __future__ import annotations

from pathlib import Path

from docs.make.boundaries import api_groups, boundaries, grpc_services
from docs.make.commands import commands
from docs.make.feature_gates import feature_gates
from docs.make.made import Made, between_marks
from docs.make.metrics import metrics_of
from docs.make.settings import settings

PLACE = Path("docs/reference")


def reference() -> list[Made]:
    """All of them, as they should be now."""
    return [
        Made(PLACE / "commands.md", commands()),
        Made(PLACE / "settings.md", settings()),
        between_marks(PLACE / "errors.md", errors=boundaries()),
        between_marks(PLACE / "feature-gates.md", gates=feature_gates()),
        between_marks(PLACE / "metrics.md", metrics=metrics_of()),
        between_marks(PLACE / "protocols.md", services=grpc_services(), groups=api_groups()),
    ]
