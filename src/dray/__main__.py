"""The `dray` command; `python -m dray` is the same."""

from __future__ import annotations

import sys

from dray.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
