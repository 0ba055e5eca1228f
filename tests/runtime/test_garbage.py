from __future__ import annotations

import subprocess
import sys

_SETTLED = """
import gc, weakref
from dray.runtime.garbage import settle

class Knot:
    def __init__(self):
        self.self = self

kept = [Knot()]
settle()
frozen = gc.get_freeze_count()
first = weakref.ref(Knot())
more = [[] for _ in range(25_000)]
print(frozen > 0, first() is None, weakref.ref(kept[0])() is kept[0])
"""


def test_what_comes_after_is_still_collected() -> None:
    """In a process of its own: it is told for good."""
    done = subprocess.run(
        [sys.executable, "-c", _SETTLED], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout.split() == ["True", "True", "True"], done.stderr
