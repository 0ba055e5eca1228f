"""Validation that reports like the API server: every fault at once, with its field path and reason.

`validate` and `validate_status` are the doors, and `check_admin_access` for what depends on the namespace;
`faults` has the pieces, the other files one subject each.
Rules are those of Kubernetes 1.36, quirks included where they decide whether an object is accepted.
"""

from __future__ import annotations

from dray.api.validation.admin_access import check_admin_access, check_admin_access_status
from dray.api.validation.entry import validate, validate_status
from dray.api.validation.faults import CheckSelector

__all__ = [
    "CheckSelector",
    "check_admin_access",
    "check_admin_access_status",
    "validate",
    "validate_status",
]
