"""A real browser for tests of the dashboard: Debian's Chromium, and axe-core, which finds faults of accessibility.

In: the installed parts (`python -m dray.testing.browser install`).
Out: `Parts`: the browser's program and axe-core's source.
Next: tests that do what a person does.
"""

from __future__ import annotations

from dray.testing.browser.parts import Parts, locate

__all__ = ["Parts", "locate"]
