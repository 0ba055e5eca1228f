"""When a test file runs. A file belongs to the tier of the longest path here that it lies under; one that lies under none is an error.

fast      `make test`: no root, no Go, in three minutes on two cores
programs  `make test-all` on top of it: starts Dray's own programs, browsers of its pages, the examples of the docs
e2e       `make e2e`: real Kubernetes and real hardware; needs root and Go
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
FAST, PROGRAMS, E2E = "fast", "programs", "e2e"
TIER_OF = {
    "allocation": FAST,
    "api": FAST,
    "apiserver": FAST,
    "cdi": FAST,
    "cel": FAST,
    "client": FAST,
    "controllers": FAST,
    "deploy": FAST,
    "deviceplugin": FAST,
    "dra": FAST,
    "drivers": FAST,
    "hardware": FAST,
    "house": FAST,
    "inventory": FAST,
    "kubelet": FAST,
    "oracle": FAST,
    "oracle_kubelet": FAST,
    "oracle_scheduler": FAST,
    "runtime": FAST,
    "scheduler": FAST,
    "semantics": FAST,
    "test_errors.py": FAST,
    "testing": FAST,
    "upgrade": FAST,
    "wire": FAST,
    "agent": PROGRAMS,
    "bench": PROGRAMS,
    "cli": PROGRAMS,
    "dashboard": PROGRAMS,
    "demo": PROGRAMS,
    "docs": PROGRAMS,
    "doctor": PROGRAMS,
    "hostile": PROGRAMS,
    "kubelet/test_plugins_view.py": PROGRAMS,
    "newcomer": PROGRAMS,
    "processes": PROGRAMS,
    "sdk": PROGRAMS,
    "testing/check": PROGRAMS,
    "up": PROGRAMS,
    "e2e": E2E,
}


def tier_of(file: Path) -> str | None:
    """Return the tier of a test file; None for one that lies under no path of the table."""
    inside = file.resolve().relative_to(TESTS)
    for path in (inside, *inside.parents):
        if (tier := TIER_OF.get(path.as_posix())) is not None:
            return tier
    return None
