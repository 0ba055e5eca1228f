"""Drivers of other packages, really installed: the guard checks the parameters of their claims."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.api.codec import load_documents
from dray.apiserver.http.server import Address
from dray.controllers.guard.callers import PARAMETERS_PATH, secret_at
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.sdk.skeleton import parse_name, write
from tests.waiting import PATIENCE

EXAMPLE = Path("examples/02-lamp-with-config").absolute()
LAMP, DESK_LAMP = "lamp.example.com", "desk-lamp.acme.io"
FLAGS = (
    "--guard",
    "--controllers=",
    "--no-guard-webhook",
    "--guard-address=127.0.0.1:0",
    "--metrics-address=none",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip put an example and a new driver."""
    directory = tmp_path_factory.mktemp("guarded")
    write(parse_name(DESK_LAMP), directory / "source")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(directory / "packages")]
    subprocess.run([*command, str(EXAMPLE), str(directory / "source")], check=True)
    return directory / "packages"


@dataclass(frozen=True)
class Asking:
    session: aiohttp.ClientSession
    path: str


@asynccontextmanager
async def guard(directory: Path, packages: Path, *flags: str) -> AsyncIterator[Asking]:
    """`dray controllers --guard`, as an API server asks it: it knows the secret part of the path."""
    async with api_server(ApiServerOptions(directory, Address())) as found:
        words = ("controllers", f"--kubeconfig={found.kubeconfig}", f"--guard-dir={directory / 'guard'}")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dray", *words, *FLAGS, *flags),
            env={**os.environ, "PYTHONPATH": str(packages)},
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            port = await _port(process)
            context = ssl.create_default_context(cafile=str(directory / "guard/ca.crt"))
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
                secret = secret_at(PARAMETERS_PATH, (directory / "guard/path.secret").read_text().strip())
                yield Asking(session, f"{PARAMETERS_PATH}/{secret}")
        finally:
            process.terminate()
            await asyncio.wait_for(process.communicate(), 60)


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        async for line in process.stderr:
            if b'msg="the guard listens"' in line:
                return int(line.rpartition(b"port=")[2])
    raise AssertionError("it has ended")


async def refusal(asking: Asking, driver: str, parameters: object) -> str:
    """What a writer of such a claim is told; empty: nothing."""
    config = {"requests": ["r"], "opaque": {"driver": driver, "parameters": parameters}}
    claim = {"spec": {"devices": {"config": [config]}}}
    request = {"uid": "u", "resource": {"resource": "resourceclaims"}, "object": claim}
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "request": request})
    async with asking.session.post(asking.path, data=body) as answer:
        found = (await answer.json())["response"]
    return "" if found["allowed"] else str(found["status"]["message"])


def parameters_of(path: Path) -> dict[str, Any]:
    (template,) = (
        one.raw for one in load_documents(path.read_bytes(), str(path)) if one.kind == "ResourceClaimTemplate"
    )
    found: dict[str, Any] = template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    return found


async def test_claims_are_refused_when_they_are_written(tmp_path: Path, installed: Path) -> None:
    flags = [f"--guard-parameters={name}" for name in (LAMP, DESK_LAMP)]
    place = "spec.devices.config[0].opaque.parameters"
    async with guard(tmp_path, installed, *flags) as asking:
        assert await refusal(asking, LAMP, parameters_of(EXAMPLE / "claim.yaml")) == ""
        assert await refusal(asking, LAMP, {"brightness": 900}) == (
            f"{place}.brightness: expected `int` <= 100 (driver {LAMP}, requests: r)"
        )
        assert "maxWatts of 100 or more" in await refusal(asking, LAMP, {"brightness": 90})
        assert f"{place}.brightnes: unknown field" in await refusal(asking, LAMP, {"brightnes": 9})
        assert await refusal(asking, DESK_LAMP, {"debug": True}) == ""
        assert f"{place}.debug: " in await refusal(asking, DESK_LAMP, {"debug": "yes"})
        assert await refusal(asking, "other.example.com", {"any": "thing"}) == ""


def test_a_name_that_nobody_knows(tmp_path: Path, installed: Path) -> None:
    words = ["controllers", *FLAGS, f"--guard-dir={tmp_path}", "--guard-parameters=lamp.example.org"]
    done = subprocess.run(
        [sys.executable, "-m", "dray", *words],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "--guard-parameters: 'lamp.example.org' is not known here" in done.stderr
    assert f"installed package ({DESK_LAMP}, {LAMP})" in done.stderr
