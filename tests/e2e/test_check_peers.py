"""`dray check` on what Kubernetes itself ships in Go: its sample device plugin and the DRA driver of its own tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.testing.check.driver import run as driver
from dray.testing.check.plugin import run as plugin
from dray.testing.check.rules import Pace, Report, Verdict
from dray.testing.kubernetes.tools import Tools
from tests.campaign import campaign

FOLDER = "/var/lib/kubelet/plugins/test-driver.cdi.k8s.io"
# As the hostPath volume of its DaemonSet would: the driver does not make its own directory.
WITH_FOLDER = f'mkdir -p {FOLDER} && exec "$0" "$@"'


def broken(report: Report) -> dict[str, str]:
    return {one.rule: one.outcome.evidence for one in report.results if one.outcome.verdict is Verdict.FAIL}


def test_the_sample_device_plugin_keeps_all_rules(tools: Tools) -> None:
    """It knows one directory only, and waits 10 s before it comes back."""
    program = tools.path("sample-device-plugin")
    try:
        report = asyncio.run(plugin.check_command([str(program)], pace=Pace(), say=print))
    finally:
        for name in ("Dev-1", "Dev-2"):
            (Path("/tmp") / name).unlink(missing_ok=True)
    assert broken(report) == {}
    skipped = [one.rule for one in report.results if one.outcome.verdict is Verdict.SKIPPED]
    assert skipped == ["notify", "preferred", "pre-start"]


# The driver publishes deleted slices again after up to a minute: with one kind of server that is waited for in every run.
@pytest.mark.parametrize("server", ["real API server", "played API server"][: campaign(1, 2)])
def test_the_dra_test_driver_keeps_all_rules(
    tools: Tools, server: str, request: pytest.FixtureRequest
) -> None:
    """Kubernetes' Go library fails the whole call where one claim is gone: every driver made with it does."""
    kubeconfig = request.getfixturevalue("apiserver").kubeconfig if server == "real API server" else None
    program = str(tools.path("test-driver"))
    command = ["sh", "-c", WITH_FOLDER, program, "kubelet-plugin", "--node-name={node-name}"]
    report = asyncio.run(driver.check_command(command, pace=Pace(), say=print, kubeconfig=kubeconfig))
    assert report.is_kept, broken(report)
    warned = {one.rule: one.outcome.evidence for one in report.results if one.outcome.verdict is Verdict.WARN}
    assert set(warned) == {"prepare-unknown"}, warned
    assert "get resource claims" in warned["prepare-unknown"]
