"""`dray controllers --guard` as a process of its own, and a webhook that refuses, for a real API server."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from dray.client.client import Client
from dray.client.http import Request
from dray.controllers.guard.webhook import Target, configuration
from dray.runtime.certificates import server_context, serving_certificate
from tests.waiting import PATIENCE

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_TIMES = ("lease-duration=3", "renew-deadline=2", "retry-period=0.3")


class GuardProcess:
    """May be killed and started again; each start takes the lead when the Lease of the one before has run out."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._arguments = [
            "--guard",
            "--controllers=",
            f"--kubeconfig={kubeconfig}",
            f"--guard-dir={directory}",
            "--guard-address=127.0.0.1:0",
            "--guard-patience=1",
            "--metrics-address=none",
            *(f"--leader-elect-{one}" for one in _TIMES),
        ]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Return once it guards."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", "controllers", *self._arguments, stderr=asyncio.subprocess.PIPE
        )
        assert self._process.stderr is not None
        said: list[bytes] = []
        async with asyncio.timeout(PATIENCE):
            while b"msg=guarding" not in (line := await self._process.stderr.readline()):
                said.append(line)
                assert line, b"".join(said).decode()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """Gives the exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        await asyncio.wait_for(process.communicate(), PATIENCE)
        return process.returncode


async def remove_hook(client: Client, name: str) -> None:
    await client.raw(Request("DELETE", f"{HOOKS}/{name}"))


@asynccontextmanager
async def refusing(client: Client, directory: Path, name: str) -> AsyncIterator[None]:
    """Another webhook, asked at the same time as the guard, that refuses every new allocation."""

    async def refuse(request: web.Request) -> web.Response:
        await asyncio.sleep(0.3)  # after the guard has let it through
        uid = json.loads(await request.read())["request"]["uid"]
        response = {"uid": uid, "allowed": False, "status": {"code": 403, "message": "not today"}}
        found = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.json_response(found)

    serving = serving_certificate(directory, ["127.0.0.1"], datetime.now(UTC))
    application = web.Application()
    application.router.add_post("/claims/no", refuse)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(serving))
    await site.start()
    target = Target(f"https://127.0.0.1:{runner.addresses[0][1]}", serving.ca.read_bytes(), "no")
    document: dict[str, Any] = configuration(target, ())
    document["metadata"]["name"] = name
    document["webhooks"][0]["name"] = "no.dray.internal"
    await client.raw(Request("POST", HOOKS, body=json.dumps(document).encode()))
    try:
        yield
    finally:
        await remove_hook(client, name)
        await runner.cleanup()
