"""What needs no root. Containers of the real runc: tests/e2e/test_runc.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.kubelet.runtimes.runc import can_limit_swap


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("memory/memory.memsw.limit_in_bytes", True),
        ("system.slice/memory.swap.max", True),
        ("memory/memory.limit_in_bytes", False),
        ("system.slice/memory.max", False),
    ],
)
def test_kernels_with_and_without_a_limit_of_swap(tmp_path: Path, file: str, expected: bool) -> None:
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).touch()
    assert can_limit_swap(tmp_path) is expected
