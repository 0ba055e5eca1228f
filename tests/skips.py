"""`make skips`: no test is skipped everywhere without being listed.

What `make test-all` skipped as root is run again as a normal user. What is skipped in both ways, and what `make e2e` skipped,
is printed with its reason and compared with tests/skips.txt: one test a line, `#` starts a comment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

RECORDS = Path("build/tests")
LISTED = Path("tests/skips.txt")


def main() -> int:
    """Run it; exit status 1 where a test is skipped that is not listed."""
    skipped = _read("fast") | _read("programs")
    if os.geteuid() == 0 and skipped:
        again = RECORDS / "user.json"
        again.unlink(missing_ok=True)
        pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--record", str(again))
        if status := subprocess.run(
            [sys.executable, "-m", "tests.as_user", *pytest, *sorted(skipped)], check=False
        ).returncode:
            return status
        skipped = _read("user")
    skipped |= _read("e2e")
    listed = {line.partition("#")[0].strip() for line in LISTED.read_text().splitlines()} - {""}
    print(f"skipped everywhere: {len(skipped)} tests; {LISTED} lists {len(listed)}")
    for reason, tests in sorted(_by_reason(skipped).items()):
        print(f"  {len(tests):3}  {reason}", *tests, sep="\n         ")
    if new := sorted(skipped.keys() - listed):
        print(f"not listed in {LISTED}; make them run, or list them there with the reason:", *new, sep="\n  ")
    if ran := sorted(listed - skipped.keys()):
        print(f"listed in {LISTED}, but they ran on this machine:", *ran, sep="\n  ")
    return 1 if new else 0


def _read(name: str) -> dict[str, str]:
    """Return the tests that a recorded run skipped, with their reasons; none where there was no such run."""
    record = RECORDS / f"{name}.json"
    skipped: dict[str, str] = json.loads(record.read_text())["skipped"] if record.exists() else {}
    return skipped


def _by_reason(skipped: dict[str, str]) -> dict[str, list[str]]:
    tests = defaultdict(list)
    for test, reason in sorted(skipped.items()):
        tests[reason].append(test)
    return tests


if __name__ == "__main__":
    sys.exit(main())
