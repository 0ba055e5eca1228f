"""The `exec` entry of a kubeconfig's user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.client.access import ExecPlugin
from dray.client.client import Client
from tests.client.plugins import V1, V1BETA1, answer, saying
from tests.client.servers import ScriptedServer
from tests.client.test_kubeconfig import access, config, fault


def entry(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "command": "get-token", "interactiveMode": "Never", **fields}


def plugin(tmp_path: Path, cluster: dict[str, Any] | None = None, **fields: Any) -> ExecPlugin:
    found = access(tmp_path, config(cluster, {"exec": entry(**fields)})).user.plugin
    assert found is not None
    return found


def test_everything(tmp_path: Path) -> None:
    extensions = [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
    ]
    found = plugin(
        tmp_path,
        {"extensions": extensions},
        args=["a", "--b=c"],
        env=[{"name": "X", "value": "y"}, {"name": "EMPTY", "value": ""}],
        installHint="Get it:\n\x1b[31mhere",
        provideClusterInfo=True,
    )
    assert found == ExecPlugin(
        f'{tmp_path / "config"}: context "main": user "main": exec',
        "get-token",
        V1,
        ("a", "--b=c"),
        (("X", "y"), ("EMPTY", "")),
        "Never",
        "Get it:  [31mhere",
        True,
        b'{"audience":"x"}',
    )
    assert "--b=c" not in repr(found)


def test_nulls_as_kubectl_writes_them(tmp_path: Path) -> None:
    found = plugin(tmp_path, args=None, env=None, installHint=None, provideClusterInfo=False)
    assert (found.args, found.env, found.cluster_config) == ((), (), b"null")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("token", "token"),
        ("./token", "{}/token"),
        ("bin/token", "{}/bin/token"),
        ("/bin/token", "/bin/token"),
    ],
)
def test_paths_belong_to_the_file(tmp_path: Path, command: str, wanted: str) -> None:
    assert Path(plugin(tmp_path, command=command).command) == Path(wanted.format(tmp_path))


def test_interactive_mode_has_a_default_in_v1beta1_only(tmp_path: Path) -> None:
    assert plugin(tmp_path, apiVersion=V1BETA1, interactiveMode="").interactive == "IfAvailable"
    for mode in ("Never", "IfAvailable", "Always"):
        assert plugin(tmp_path, interactiveMode=mode).interactive == mode
    for mode in ("", "Sometimes"):
        error = fault(tmp_path, config(user={"exec": entry(interactiveMode=mode)}))
        assert (error.field, "write Never, IfAvailable or Always" in str(error)) == (
            "exec.interactiveMode",
            True,
        )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"command": ""}, "exec.command"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion"),
        ({"env": [{"value": "x"}]}, "exec.env[0].name"),
        ({"env": [{"name": "A"}, {"name": "B=C", "value": "x"}]}, "exec.env[1].name"),
        ({"args": ["a\0b"]}, "exec.args"),
    ],
)
def test_faults_name_the_field(tmp_path: Path, fields: dict[str, Any], field: str) -> None:
    assert fault(tmp_path, config(user={"exec": entry(**fields)})).field == field


async def test_from_kubeconfig_to_the_server(tmp_path: Path, server: ScriptedServer) -> None:
    saying(tmp_path / "get-token", answer(token="from-plugin"))
    document = config({"server": server.url}, {"exec": entry(command="./get-token")})
    async with Client(access(tmp_path, document)) as client:
        await client.server_version()
    assert server.seen[0].headers["Authorization"] == "Bearer from-plugin"
