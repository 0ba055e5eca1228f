from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dray.deviceplugin.kubelet_notes import CHECKPOINT, noted_devices


def entry(pod: str, resource: str, ids: Any) -> dict[str, Any]:
    return {
        "PodUID": pod,
        "ContainerName": "main",
        "ResourceName": resource,
        "DeviceIDs": ids,
        "AllocResp": "CgA=",
    }


def write(path: Path, *entries: dict[str, Any]) -> None:
    content = {
        "Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": {"a.com/x": ["1"]}},
        "Checksum": 7,
    }
    (path / CHECKPOINT).write_text(json.dumps(content))


def test_what_pods_that_exist_have(tmp_path: Path) -> None:
    (tmp_path / "pods" / "uid-1").mkdir(parents=True)
    write(
        tmp_path,
        entry("uid-1", "a.com/x", {"0": ["1"], "-1": ["2", "3"]}),
        entry("uid-1", "a.com/y", {"0": None}),
        entry("uid-1", "a.com/z", None),
        entry("uid-2", "a.com/x", {"0": ["4"]}),
        entry("", "a.com/x", {"0": ["5"]}),
    )
    assert noted_devices(tmp_path, tmp_path) == {("a.com/x", "1"), ("a.com/x", "2"), ("a.com/x", "3")}
    write(tmp_path)
    assert noted_devices(tmp_path, tmp_path) == frozenset()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"Data": 5}', "{}", '{"Data": {"PodDeviceEntries": [1]}}']
)
def test_what_cannot_be_read_tells_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / CHECKPOINT).write_text(content)
    assert noted_devices(tmp_path, tmp_path) == frozenset()


def test_no_file_and_no_plain_file(tmp_path: Path) -> None:
    assert noted_devices(tmp_path, tmp_path) == frozenset()
    (tmp_path / CHECKPOINT).mkdir()
    assert noted_devices(tmp_path, tmp_path) == frozenset()
