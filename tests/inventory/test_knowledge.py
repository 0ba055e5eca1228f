from __future__ import annotations

from pathlib import Path

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
        assert "the kubelet has not told yet" in known.why_wait(is_contested=False)[0]
        assert not known.hear(enough - 0.1)
        assert known.hear(enough)
    assert not known.hear(100.0)
    assert not known.is_lost
    assert known.why_wait(is_contested=True) == ("", 0.0)


def test_while_another_process_has_the_ledger() -> None:
    known = Knowledge(FakeClock())
    assert known.hear(0.0)
    assert known.why_wait(is_contested=False) == ("", 0.0)
    assert "another process" in known.why_wait(is_contested=True)[0]
    known.begin(Loaded(None))
    assert known.is_complete  # one look was enough
    known = Knowledge(FakeClock())
    known.hear(0.0)
    known.begin(LOST)
    assert not known.is_complete


def test_without_a_socket_only_plugins_make_anybody_wait() -> None:
    known = Knowledge(FakeClock())
    known.begin(Loaded(None))
    patient = known.why_wait(is_contested=False, has_plugins=False)
    assert patient[0]  # there is a kubelet to ask
    known.missing = Path("/k/pod-resources/kubelet.sock")
    why, seconds = known.why_wait(is_contested=True)
    assert why.endswith("'/k/pod-resources/kubelet.sock' is not there: mount its directory into the agent")
    assert seconds < patient[1]
    assert known.why_wait(is_contested=True, has_plugins=False) == ("", 0.0)
