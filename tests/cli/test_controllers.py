from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from dray.api.codec import load_values
from dray.cli.main import main
from dray.controllers.guard.callers import kept_secret


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["controllers", *words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--controllers=nothing"], "--controllers: there is no controller 'nothing'"),
        (["--controllers="], "--controllers: none is left to run"),
        (["--profile=k8s-9"], "--profile: no profile 'k8s-9'"),
        (["--quirks=Q16"], "--quirks: Q16 is the scheduler's"),
        (["--feature-gates=Some=true"], "--feature-gates: no gate 'Some': there are DRAAdminAccess, "),
        (
            ["--controllers=device-taint-eviction-controller", "--feature-gates=DRADeviceTaints=false"],
            "--controllers: none is left to run",
        ),
        (["--concurrent-resourceclaim-syncs=0"], "--concurrent-resourceclaim-syncs: must be 1 or more"),
        (["--leader-elect", "--leader-elect-retry-period=0"], "retry period"),
        (["--metrics-address=x"], "--metrics-address 'x' must be HOST:PORT"),
        (["--guard", "--guard-address=none"], "--guard-address must be HOST:PORT"),
        (["--guard", "--guard-service=x"], "--guard-service 'x' must be NAMESPACE/NAME"),
        (
            ["--guard", "--guard-client-ca-file=ca.crt"],
            "--guard-client-ca-file: give --guard-client-name too, or every certificate of that authority is let in",
        ),
        (
            ["--guard", "--guard-client-ca-file=ca.crt", "--guard-client-name="],
            "--guard-client-ca-file: give --guard-client-name too",
        ),
        (["--guard", "--guard-client-name=x"], "--guard-client-name: needs --guard-client-ca-file"),
        (["--guard", "--guard-endpoint=10.0.0.5"], "--guard-endpoint: needs --guard-service"),
        (
            ["--guard", "--guard-service=a/b", "--guard-endpoint=here"],
            "--guard-endpoint: 'here' must be an IP address",
        ),
        (["--guard", "--guard-patience=0"], "--guard-patience: must be more than 0"),
        (["--print-guard-webhook", "--guard-address=127.0.0.1:0"], "--guard-address: give the port"),
        (["--print-guard-webhook", "--guard-url=http://x"], "--guard-url: 'http://x' must be https://HOST"),
    ],
)
def test_bad_input_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], text: str
) -> None:
    found = refused(capsys, f"--guard-dir={tmp_path}", *words)
    assert text in found and found.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--guard-address=10.0.0.5:8443"], {"url": "https://10.0.0.5:8443/claims/{secret}"}),
        (["--guard-url=https://guard.example:1"], {"url": "https://guard.example:1/claims/{secret}"}),
        (
            ["--guard-service=kube-system/guard"],
            {
                "service": {
                    "namespace": "kube-system",
                    "name": "guard",
                    "port": 443,
                    "path": "/claims/{secret}",
                }
            },
        ),
    ],
)
def test_the_webhook_is_printed_with_the_authority_that_is_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], expected: dict[str, object]
) -> None:
    said = []
    for _ in range(2):
        assert main(["controllers", "--print-guard-webhook", f"--guard-dir={tmp_path}", *words]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    (found,) = load_values(said[0])
    (hook,) = found.value["webhooks"]
    authority = base64.b64encode((tmp_path / "ca.crt").read_bytes()).decode()
    secret = kept_secret(tmp_path)
    assert len(secret) > 40
    wanted = json.loads(json.dumps(expected).replace("{secret}", secret))
    assert hook["clientConfig"] == {**wanted, "caBundle": authority}


def test_parameters_of_named_drivers_are_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "controllers",
        "--print-guard-webhook",
        f"--guard-dir={tmp_path}",
        "--guard-url=https://a.example",
    ]
    names = ["--guard-parameters=sim.dray.internal", "--guard-parameters=gpu.nvidia.com"]
    assert main([*words, *names]) == 0
    said = capsys.readouterr().out
    assert "sim.dray.internal" in said and "gpu.nvidia.com" in said
    assert main([*words, "--guard-parameters=nvidia.example"]) == 2
    assert "give gpu.nvidia.com, sim.DOMAIN or a driver of an installed package" in capsys.readouterr().err
