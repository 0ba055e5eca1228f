"""`python -m tests.e2e.builds` makes what the tests here would make first: programs to ask, helm, the parts of Dray's image."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
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

BUILDS: dict[str, Callable[[], object]] = {
    "helm": lambda: install_helm(locate(Path(__file__).parent / "tools")),
    **{f"the allocator of {version}": partial(oracle.program, version) for version in oracle.MODULES},
    "field manager": apply.program,
    "CDI": cdi.program,
    "readers of DRA drivers": driver.program,
    "scheduler plugins": fit.program,
    "kubelet": kubelet.program,
    "patches": patch.program,
    "protobuf": proto.program,
    "scheduler": scheduler.program,
    "KubeVirt": kubevirt_program,
    "gRPC peer": peer_program,
    "parts of the image": lambda: image_trees(Path.cwd()),
}


if __name__ == "__main__":
    for name, build in BUILDS.items():
        began = time.monotonic()
        build()
        if (took := time.monotonic() - began) > 1:
            print(f"{name}: made in {took:.0f} s", flush=True)
