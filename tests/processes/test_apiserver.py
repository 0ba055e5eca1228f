from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.api.kinds import CONFIG_MAPS, DEVICE_CLASSES, NAMESPACES
from dray.apiserver.http.server import Address
from dray.cli.apiserver import parse_duration
from dray.cli.main import main
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import ConflictError, DeniedError, InvalidError, UnavailableError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.semantics.features import Gate, enabled_gates


@asynccontextmanager
async def started(directory: Path, port: int = 0) -> AsyncIterator[Client]:
    async with (
        api_server(ApiServerOptions(directory, Address(port=port))) as found,
        Client(find_access(found.kubeconfig)) as client,
    ):
        yield client


async def test_it_serves_and_remembers(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with started(data) as client:
        await client.create(
            CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "default"}, "data": {"a": "b"}}
        )
        first = client.access.user.token
    assert stat.S_IMODE((data / "admin.kubeconfig").stat().st_mode) == 0o600
    async with started(data) as client:
        assert (await client.get(CONFIG_MAPS, "c", namespace="default")).data == {"a": "b"}
        assert client.access.user.token == first


async def test_a_kubeconfig_that_was_spoilt_is_written_anew(tmp_path: Path) -> None:
    async with started(tmp_path):
        pass
    for text in ("", "nonsense: [", "current-context: none\n"):
        (tmp_path / "admin.kubeconfig").write_text(text)
        async with started(tmp_path) as client:
            assert (await client.list(NAMESPACES)).items


async def test_what_selectors_may_say_goes_by_the_gates(tmp_path: Path) -> None:
    expression = 'device.attributes["a.example"].x.includes(1)'
    lists = {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    async with started(tmp_path / "off") as client:
        with pytest.raises(InvalidError, match="includes"):
            await client.create(DEVICE_CLASSES, lists)
    gates = enabled_gates({Gate.LIST_TYPE_ATTRIBUTES: True})
    async with (
        api_server(ApiServerOptions(tmp_path / "on", Address(), feature_gates=gates)) as found,
        Client(find_access(found.kubeconfig)) as client,
    ):
        await client.create(DEVICE_CLASSES, lists)


async def test_selectors_are_checked_when_they_are_stored(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        bad = {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": "device.nothing"}}]}}
        with pytest.raises(InvalidError, match=r"spec\.selectors\[0\]\.cel\.expression.*undefined field"):
            await client.create(DEVICE_CLASSES, bad)


async def test_a_second_one_is_refused(tmp_path: Path) -> None:
    async with started(tmp_path / "a") as client:
        with pytest.raises(ConflictError, match="is locked by"):
            async with started(tmp_path / "a"):
                pass
        port = int(client.access.server.rpartition(":")[2])
        with pytest.raises(UnavailableError, match="cannot listen on"):
            async with started(tmp_path / "b", port):
                pass


async def test_a_namespace_is_emptied(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "n"}})
        await client.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "n"}})
        await client.delete(NAMESPACES, "n")
        async with asyncio.timeout(60):
            while any(one.metadata.name == "n" for one in (await client.list(NAMESPACES)).items):
                await asyncio.sleep(0.01)


async def test_tokens_are_issued_and_revoked_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with started(tmp_path / "data"):
        data = f"--data-dir={tmp_path / 'data'}"
        for role, user in (("reader", "reader"), ("node/n1", "system:node:n1")):
            assert main(["apiserver", data, f"--issue={role}"]) == 0
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(capsys.readouterr().out)
            async with Client(find_access(kubeconfig)) as client:
                assert (await client.list(NAMESPACES)).items if role == "reader" else True
                with pytest.raises(DeniedError, match=f'User "{user}" cannot create'):
                    await client.create(NAMESPACES, {"metadata": {"name": "n"}})
                assert main(["apiserver", data, f"--revoke={role}"]) == 0
                assert capsys.readouterr().out == f"1 tokens of {user} ended\n"
                with pytest.raises(DeniedError, match="Unauthorized"):
                    await client.list(NAMESPACES)


@pytest.mark.parametrize("role", ["", "root", "node", "node/", "node/A B", "reader/x"])
def test_a_role_that_does_not_exist(tmp_path: Path, role: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "admin.kubeconfig").touch()
    assert main(["apiserver", f"--data-dir={tmp_path}", f"--issue={role}"]) == 2
    assert "--issue must be admin, reader or node/NAME" in capsys.readouterr().err
    assert main(["apiserver", f"--data-dir={tmp_path / 'none'}", "--issue=admin"]) == 1
    assert "no server ever ran" in capsys.readouterr().err


async def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    """The command itself, killed while writers wait for answers."""
    answered: list[str] = []
    for turn in range(3):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", "apiserver", f"--data-dir={tmp_path}", "--listen=127.0.0.1:0",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while b"msg=ready" not in await process.stderr.readline():
                pass
        async with Client(find_access(tmp_path / "admin.kubeconfig")) as client:
            found = {one.metadata.name for one in (await client.list(CONFIG_MAPS)).items}
            assert found >= set(answered)
            writers = [
                asyncio.ensure_future(_write(client, f"t{turn}-{number}", answered)) for number in range(4)
            ]
            before = len(answered)
            async with asyncio.timeout(60):
                while len(answered) < before + 20:
                    await asyncio.sleep(0.001)
            os.kill(process.pid, signal.SIGKILL)
            await asyncio.gather(*writers)
        await process.communicate()
    async with started(tmp_path) as client:
        found = {one.metadata.name for one in (await client.list(CONFIG_MAPS)).items}
        assert found >= set(answered) and len(answered) >= 60


async def _write(client: Client, prefix: str, answered: list[str]) -> None:
    for number in range(10_000):
        name = f"{prefix}-{number}"
        try:
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
        except UnavailableError:
            return
        answered.append(name)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h", 3600), ("90s", 90), ("90", 90), ("1h30m", 5400), ("2m5s", 125)]
)
def test_how_long_events_are_kept(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-1s", "1d", "soon", "1.5h", "h"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(InvalidError, match="--event-ttl must be a time above 0"):
        parse_duration(text)


async def test_it_remembers_who_wrote_what(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        await client.create(
            CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "default"}, "data": {"a": "b"}}
        )
        made = await client.get_raw(CONFIG_MAPS, "c", namespace="default")
        assert [one["operation"] for one in made["metadata"]["managedFields"]] == ["Update"]
