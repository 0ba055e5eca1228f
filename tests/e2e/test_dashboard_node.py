"""The dashboard on a real node, in a real Chromium: what is shown comes from kube-apiserver, the real kubelet and `dray agent`.

The dashboard is the `dray dashboard` process. What else people do with it is in test_dashboard_browser.py, where kubelets are played.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect

from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.part import wait_until
from tests.e2e.dashboard_person import person
from tests.e2e.dra_agent import (
    GPU,
    GPUS,
    SIM,
    STAYS,
    container,
    dra_node,
    of,
    pod,
    requests,
    sim_config,
    template,
)

pytest_plugins = ("tests.e2e.dashboard_fixtures",)


@contextmanager
def dashboard(cluster: Cluster) -> Iterator[str]:
    """`dray dashboard` beside the node; the address that it prints."""
    words = ("dashboard", f"--kubeconfig={cluster.kubeconfig}", "--listen=127.0.0.1:0")
    part = cluster.spawn("dray-dashboard", sys.executable, "-m", "dray", *words)

    def printed() -> list[str]:
        return re.findall(r"^http://\S+#token=\S+$", part.log.read_text(), re.MULTILINE)

    try:
        wait_until(lambda: bool(printed()), "the dashboard's address", 60.0, (part,))
        yield printed()[0]
    finally:
        part.stop()


def test_a_person_sees_the_devices_of_a_real_node_and_the_claim_of_its_pod(
    cluster: Cluster, browser: Browser, tmp_path: Path
) -> None:
    name = cluster.node_name
    with (
        dra_node(cluster, "agent-shown", tmp_path, sim_config()) as node,
        dashboard(cluster) as entrance,
        person(browser, entrance) as visitor,
    ):
        node.create(template("shown", requests(gpu=of(GPU))))
        visitor.enter()
        for number in range(GPUS):
            expect(visitor.cell(name, f"gpu-{number}")).to_be_visible()
            assert visitor.state_of(name, f"gpu-{number}") == "free"
        node.run(pod("shown", container(STAYS, "device"), device="template:shown"))
        claim = node.claim_of("shown", "device")
        (device,) = node.allocated(claim)
        cell = visitor.cell(name, device)
        expect(cell).to_have_accessible_name(re.compile(f"^{device}, held"))
        cell.hover()
        expect(visitor.look(".card")).to_contain_text(f"held by claim default/{claim} for pod default/shown")
        visitor.open(f"#/devices/{SIM}/{name}/{device}")
        # The agent's Event; earlier pods on this node have theirs.
        expect(visitor.look(".story .step.prepared").filter(has_text="default/shown")).to_have_count(1)
        visitor.open("#/pods?q=shown")
        expect(visitor.look("tbody tr")).to_contain_text(["running"])  # the kubelet's status
        node.delete_pod("shown")
        visitor.open("#/fleet")
        expect(cell).to_have_accessible_name(re.compile(f"^{device}, free"))
