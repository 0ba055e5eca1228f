"""What is answered survives a power cut: kills cannot show it, the order of syncs and answers can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.apiserver.store.sync_child import EACH, WRITERS


def test_no_answer_before_the_log_is_synced(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.apiserver.store.sync_child", str(tmp_path / "s")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    events = json.loads(run.stdout)
    written: set[str] = set()
    synced: set[str] = set()
    answered: list[str] = []
    syncs = 0
    for event, about in events:
        if event == "write":
            written.update(about)
        elif event == "sync":
            assert about == 0
            synced |= written
            syncs += 1
        else:
            assert about in synced, f"{about} was answered before it was on the disk"
            answered.append(about)
    assert len(answered) == len(set(answered)) == WRITERS * EACH
    assert syncs < len(answered), "and writers share syncs"
