"""What the tests in a browser need, and where it lies: the machine's own Chromium, and axe-core in the cache."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from dray.testing.kubernetes.tools import cache_dir

PACKAGE = "chromium"
"""Debian's; it is installed and not unpacked into the cache, because it needs the machine's fonts and libraries."""
PROGRAM = "DRAY_CHROMIUM"
"""The variable that names another browser of that family."""

AXE_VERSION = "4.14.0"
AXE_SHA512 = (
    "f564d9c448ec67b6f5dd31fc24f99b576cfc0876e5f34ff6866dd73c41b82603"
    "5d40b2bcd480515e64b11df3003a44aa41e4714ffd1dc0d0f3d863a6df3ce971"
)
AXE_ADDRESS = f"https://registry.npmjs.org/axe-core/-/axe-core-{AXE_VERSION}.tgz"


@dataclass(frozen=True)
class Parts:
    """The installed parts. `browser` is None where there is none."""

    browser: Path | None
    axe: Path

    def missing(self) -> list[str]:
        """What is not installed yet."""
        return [
            name
            for name, is_there in ((PACKAGE, self.browser is not None), ("axe-core", self.axe.is_file()))
            if not is_there
        ]


def locate() -> Parts:
    """Where the parts lie, or will."""
    named = os.environ.get(PROGRAM) or shutil.which("chromium") or shutil.which("chromium-browser")
    return Parts(Path(named) if named else None, cache_dir() / f"axe-core-{AXE_VERSION}.js")
