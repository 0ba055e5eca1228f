"""`dray logs`; that logs come from the kubelet at all is tested in tests/processes/test_container_logs.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from dray.cli.main import main
from tests.client.servers import scripted

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "a"}, {"name": "long"}], "initContainers": [{"name": "first"}]},
}


class Logs:
    """An API server with one pod. `waits`: how often a log is not there yet."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []
        self.waits = 0
        self.kubeconfig = Path()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1/namespaces/default/pods/web":
            return web.json_response(POD)
        if request.path != "/api/v1/namespaces/default/pods/web/log":
            return _status(404, "NotFound", "not found")
        self.queries.append(dict(request.query))
        if self.waits:
            self.waits -= 1
            return _status(
                400, "BadRequest", 'container "a" in pod "web" is waiting to start: PodInitializing'
            )
        name = request.query["container"]
        return web.Response(text=f"{name} one\n{name} two")

    async def run(self, *words: str) -> int:
        return await asyncio.to_thread(main, ["logs", *words, "--kubeconfig", str(self.kubeconfig)])


def _status(code: int, reason: str, message: str) -> web.Response:
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return web.json_response(told | {"code": code}, status=code)


@asynccontextmanager
async def logs(path: Path) -> AsyncIterator[Logs]:
    made = Logs()
    async with scripted() as server:
        server.answer(made.handle)
        made.kubeconfig = path / "kubeconfig"
        made.kubeconfig.write_text(
            "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
            f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}], users: [{{name: u, user: {{}}}}]}}"
        )
        yield made


async def test_the_first_container_and_what_was_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with logs(tmp_path) as server:
        assert await server.run("pod/web", "--tail", "5", "--since", "1m30s", "-p", "--timestamps") == 0
    assert server.queries == [
        {"container": "a", "previous": "true", "timestamps": "true", "tailLines": "5", "sinceSeconds": "90"}
    ]
    shown = capfd.readouterr()
    assert shown.out == "a one\na two"
    assert shown.err == "container a out of a, long, first (init); -c chooses another\n"


async def test_all_containers_each_line_with_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with logs(tmp_path) as server:
        assert await server.run("web", "--all-containers") == 0
    assert capfd.readouterr().out == (
        "[first] first one\n[first] first two\n[a    ] a one\n[a    ] a two\n[long ] long one\n[long ] long two\n"
    )


async def test_following_waits_for_the_container_to_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with logs(tmp_path) as server:
        server.waits = 1
        assert await server.run("web", "-c", "a", "-f") == 0
        assert len(server.queries) == 2
        server.waits = 1
        assert await server.run("web", "-c", "a") == 2
    shown = capfd.readouterr()
    assert shown.out == "a one\na two"
    first, *rest = shown.err.splitlines()
    assert first == 'container "a" in pod "web" is waiting to start: PodInitializing…'
    assert rest == ['dray: container "a" in pod "web" is waiting to start: PodInitializing']


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("other",), 1, 'no pod "other" in namespace default; `dray get pods -A` shows all'),
        (("web", "-c", "x"), 2, 'pod "web" has no container "x"; it has a, long, first (init)'),
        (("web", "-c", "a", "--all-containers"), 2, "exclude each other"),
        (("web", "--tail", "-1"), 2, "--tail must be 0 or more"),
        (("web", "--since", "soon"), 2, "--since must be a time above 0"),
        (("a/b/c",), 2, "must be a pod's name"),
    ],
)
async def test_refusals(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, text: str
) -> None:
    async with logs(tmp_path) as server:
        assert await server.run(*words) == code
    shown = capfd.readouterr()
    assert shown.out == ""
    assert text in shown.err
