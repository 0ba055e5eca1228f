"""`python -m tests.e2e.builds` makes what the tests here would make first: programs to ask, helm, the parts of Dray's image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dray.testing.image import image_trees
from dray.testing.kubernetes.tools import locate
from tests.e2e.deploy_cluster import install_helm
from tests.e2e.kubevirt_program import kubevirt_program
from tests.e2e.wire_peer import peer_program
from tests.oracle import program as oracle
from tests.oracle_apply import program as apply
from tests.oracle_cdi import program as cdi
from tests.oracle_driver import program as driver
from tests.oracle_fit import program as fit
from tests.oracle_kubelet import program as kubelet
from tests.oracle_patch import program as patch
from tests.oracle_proto import program as proto
from tests.oracle_scheduler import program as scheduler

_ORACLES = (apply, cdi, driver, fit, kubelet, patch, proto, scheduler)
BUILDS: tuple[Callable[[], object], ...] = (
    lambda: install_helm(locate(Path(__file__).parent / "tools")),
    lambda: [oracle.program(version) for version in oracle.MODULES],
    *(module.program for module in _ORACLES),
    kubevirt_program,
    peer_program,
    lambda: image_trees(Path.cwd()),
)


if __name__ == "__main__":
    for build in BUILDS:
        build()
