from __future__ import annotations

import pytest

from dray.inventory.handouts import UNTOLD
from dray.inventory.holds_file import Content
from dray.inventory.knowledge import Knowledge
from dray.runtime.clock import FakeClock
from dray.runtime.files.checkpoint import Loaded, SetAside

LOST: Loaded[Content] = Loaded(None, SetAside("holds", "it is empty", "holds.corrupt"))


@pytest.mark.parametrize(
    ("loaded", "is_lost", "enough"),
    [
        (Loaded(Content()), False, None),
        (Loaded(None), False, 0.0),
        (LOST, True, UNTOLD),
        (Loaded(Content(complete=False)), True, UNTOLD),
    ],
    ids=["a good file", "a first start", "lost", "lost before"],
)
def test_when_all_is_known(loaded: Loaded[Content], is_lost: bool, enough: float | None) -> None:
    known = Knowledge(FakeClock())
    known.begin(loaded)
    assert known.is_lost == is_lost
    assert known.is_complete == (enough is None)
    if enough is not None:
        assert "the kubelet has not told yet" in known.why_wait(is_contested=False)
        assert not known.hear(enough - 0.1)
        assert known.hear(enough)
    assert not known.hear(100.0)
    assert not known.is_lost
    assert known.why_wait(is_contested=True) == ""


def test_while_another_process_has_the_ledger() -> None:
    known = Knowledge(FakeClock())
    assert known.hear(0.0)
    assert known.why_wait(is_contested=False) == ""
    assert "another process" in known.why_wait(is_contested=True)
    known.begin(Loaded(None))
    assert known.is_complete  # one look was enough
    known = Knowledge(FakeClock())
    known.hear(0.0)
    known.begin(LOST)
    assert not known.is_complete
