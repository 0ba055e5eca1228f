from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dray.api.codec import load_documents
from dray.api.codec.unknown_fields import unknown_fields
from dray.api.core import Pod
from dray.api.field_errors import Path as FieldPath
from dray.api.meta import Model
from dray.api.resource import ResourceClaimTemplate
from dray.api.resource.device_class import DeviceClass
from dray.sdk.skeleton import parse_name, render, write

TYPES: dict[str, type[Model]] = {
    "DeviceClass": DeviceClass,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "Pod": Pod,
}
NAMES = ["lamp", "desk-lamp.acme.io"]


@pytest.mark.parametrize("name", NAMES)
def test_no_word_is_left_to_fill_in(name: str) -> None:
    for path, text in render(parse_name(name)).items():
        assert "@" not in text.replace("@pytest", ""), path
        assert not text or text.endswith("\n")


def test_its_tests_pass(tmp_path: Path) -> None:
    """All but the one that takes long: the tutorial runs it, and `test_examples` for other drivers."""
    directory = tmp_path / "new"
    write(parse_name("desk-lamp.acme.io"), directory)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not contract"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
    )
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr


def test_it_is_formatted(tmp_path: Path) -> None:
    write(parse_name("desk-lamp.acme.io"), tmp_path / "new")
    ruff = str(Path(sys.executable).parent / "ruff")
    commands = [
        [ruff, "format", "--isolated", "--line-length", "110", "--check", "."],
        [ruff, "check", "--isolated", "--select", "E4,E7,E9,F,I,UP,B", "."],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=tmp_path / "new", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_project_file(name: str) -> None:
    new = parse_name(name)
    found = tomllib.loads(render(new)["pyproject.toml"])
    assert found["project"]["name"] == new.project
    assert found["project"]["scripts"] == {new.project: f"{new.module}:main"}
    assert list(found["project"]["entry-points"]["dray.drivers"]) == [new.short]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", ["deploy.yaml", "pod.yaml"])
def test_the_manifests(name: str, path: str) -> None:
    new = parse_name(name)
    found = load_documents(render(new)[path], path)
    assert {one.kind for one in found} >= ({"DaemonSet", "DeviceClass"} if path == "deploy.yaml" else {"Pod"})
    for one in found:
        if (kind := TYPES.get(one.kind)) is not None:
            one.view(kind)
            assert unknown_fields(one.raw, kind, FieldPath()) == []
