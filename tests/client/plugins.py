"""Credential plugins for tests: small real programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dray.client.access import ExecPlugin

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def script(path: Path, *lines: str) -> Path:
    """A shell script that notes each of its runs, with KUBERNETES_EXEC_INFO, in `<name>.calls`."""
    note = f'echo "$KUBERNETES_EXEC_INFO" >> "{path}.calls"'
    path.write_text("\n".join(["#!/bin/sh", note, *lines, ""]))
    path.chmod(0o755)
    return path


def calls(path: Path) -> list[Any]:
    """What the plugin was told, call by call."""
    noted = Path(f"{path}.calls")
    return [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []


def answer(api_version: str = V1, **status: Any) -> str:
    """What a plugin says."""
    return json.dumps({"kind": "ExecCredential", "apiVersion": api_version, "status": status})


def saying(path: Path, text: str) -> Path:
    """A plugin that says what `<name>.says` holds at the time."""
    Path(f"{path}.says").write_text(text)
    return script(path, f'cat "{path}.says"')


def say(path: Path, text: str) -> None:
    """What the plugin of `saying` says from now on."""
    Path(f"{path}.says").write_text(text)


def plugin(path: Path, **fields: Any) -> ExecPlugin:
    return ExecPlugin("config: exec", str(path), fields.pop("api_version", V1), **fields)
