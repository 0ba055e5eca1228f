"""All hand-made validation cases: `tests/api/validation` runs them through ours, `tests/e2e` through a real API server."""

from __future__ import annotations

from typing import Final

from tests.api.cases import claim_status, claims, core, devices, metadata, pods, slices, taint_rules
from tests.api.cases.case import Case

CASES: Final[tuple[Case, ...]] = tuple(
    case
    for table in (
        slices.TABLE,
        devices.TABLE,
        claims.TABLE,
        claims.TEMPLATE_TABLE,
        claims.CLASS_TABLE,
        claim_status.TABLE,
        taint_rules.TABLE,
        *metadata.TABLES,
        pods.TABLE,
        *core.TABLES,
    )
    for case in table.cases
)
