"""`dray check` on what Kubernetes itself ships in Go: its sample device plugin and the DRA driver of its own tests."""

from __future__ import annotations

import asyncio

import pytest

from dray.testing.check.driver import run as driver
from dray.testing.check.plugin import run as plugin
from dray.testing.check.rules import Pace, Report, Verdict
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.tools import Tools
from tests.campaign import campaign

FOLDER = "/var/lib/kubelet/plugins/test-driver.cdi.k8s.io"
# As the hostPath volume of its DaemonSet would: the driver does not make its own directory.
WITH_FOLDER = f'mkdir -p {FOLDER} && exec "$0" "$@"'
# It makes a file for each of its devices there, and other tests run it too.
OWN_TMP = 'mount -t tmpfs none /tmp && exec "$0"'
# The driver publishes deleted slices again after up to a minute: with one kind of server that is waited for in every run.
SERVERS = ("real API server", "played API server")[: campaign(1, 2)]


@pytest.fixture(scope="module")
def reports(tools: Tools, apiserver: ControlPlane) -> dict[str, Report]:
    """Of all of them, checked at once: both programs wait most of the time."""
    with_folder = ["sh", "-c", WITH_FOLDER, str(tools.path("test-driver")), "kubelet-plugin"]
    command = [*with_folder, "--node-name={node-name}"]

    async def check_all() -> dict[str, Report]:
        async with asyncio.TaskGroup() as group:
            sample = ["unshare", "--mount", "sh", "-c", OWN_TMP, str(tools.path("sample-device-plugin"))]
            checks = {"plugin": group.create_task(plugin.check_command(sample, pace=Pace(), say=print))}
            for server in SERVERS:
                kubeconfig = apiserver.kubeconfig if server == SERVERS[0] else None
                check = driver.check_command(command, pace=Pace(), say=print, kubeconfig=kubeconfig)
                checks[server] = group.create_task(check)
        return {name: check.result() for name, check in checks.items()}

    return asyncio.run(check_all())


def broken(report: Report) -> dict[str, str]:
    return {one.rule: one.outcome.evidence for one in report.results if one.outcome.verdict is Verdict.FAIL}


def test_the_sample_device_plugin_keeps_all_rules(reports: dict[str, Report]) -> None:
    """It knows one directory only, and waits 10 s before it comes back."""
    report = reports["plugin"]
    assert broken(report) == {}
    skipped = [one.rule for one in report.results if one.outcome.verdict is Verdict.SKIPPED]
    assert skipped == ["notify", "preferred", "pre-start"]


@pytest.mark.parametrize("server", SERVERS)
def test_the_dra_test_driver_keeps_all_rules(server: str, reports: dict[str, Report]) -> None:
    """Kubernetes' Go library fails the whole call where one claim is gone: every driver made with it does."""
    report = reports[server]
    assert report.is_kept, broken(report)
    warned = {one.rule: one.outcome.evidence for one in report.results if one.outcome.verdict is Verdict.WARN}
    assert set(warned) == {"prepare-unknown"}, warned
    assert "get resource claims" in warned["prepare-unknown"]
