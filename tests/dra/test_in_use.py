from __future__ import annotations

import os
from pathlib import Path

from dray.dra.claims.books import CHECKPOINT
from dray.dra.in_use import names_in_use
from tests.dra.prepare_node import Node, claim_of, uid_of


async def test_names_of_drivers_that_have_claims(tmp_path: Path) -> None:
    node = Node(tmp_path)
    kind = node.add("gpu-0").kind
    node.add("gpu-1")
    plugins, name = node.data_dir.parent, node.data_dir.name
    assert names_in_use(plugins, [uid_of(1)]) == {}
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
    assert names_in_use(plugins, [uid_of(1), uid_of(2)]) == {kind: name}
    assert names_in_use(plugins, [uid_of(2)]) == names_in_use(plugins, []) == {}


def test_what_cannot_be_read_is_nobodys(tmp_path: Path) -> None:
    for name in ("garbage", "link", "pipe", "directory"):
        (tmp_path / name).mkdir()
    (tmp_path / "garbage" / CHECKPOINT).write_bytes(b"\0" * 100)
    (tmp_path / "link" / CHECKPOINT).symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe" / CHECKPOINT)
    (tmp_path / "directory" / CHECKPOINT).mkdir()
    assert names_in_use(tmp_path, [uid_of(1)]) == names_in_use(tmp_path / "nowhere", [uid_of(1)]) == {}
