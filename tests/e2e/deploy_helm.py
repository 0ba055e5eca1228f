"""`python -m tests.e2e.deploy_helm` builds helm where it is missing, before the tests that use it."""

from __future__ import annotations

from pathlib import Path

from dray.testing.kubernetes.tools import locate
from tests.e2e.deploy_cluster import install_helm

if __name__ == "__main__":
    install_helm(locate(Path(__file__).parent / "tools"))
