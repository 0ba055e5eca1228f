"""`make skips`: no test is skipped everywhere without being listed, and none is listed that ran.

What `make test-all` skipped as root is run again as a normal user. What is skipped in both ways, and what `make e2e` skipped,
is printed with its reason and compared with tests/skips.txt: one test a line, `#` starts a comment. Only tiers that left a
record are looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.tiers import TIER_OF, tier_of

RECORDS = Path("build/tests")
LISTED = Path("tests/skips.txt")


def main(records: Path = RECORDS, listing: Path = LISTED) -> int:
    """Run it; exit status 1 where a test is skipped that is not listed, or listed and not skipped."""
    recorded = {tier for tier in set(TIER_OF.values()) if (records / f"{tier}.json").exists()}
    skipped = _read(records / "fast.json") | _read(records / "programs.json")
    if os.geteuid() == 0 and skipped:
        again = records / "user.json"
        again.unlink(missing_ok=True)
        pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--record", str(again))
        if status := subprocess.run(
            [sys.executable, "-m", "tests.as_user", *pytest, *sorted(skipped)], check=False
        ).returncode:
            return status
        skipped = _read(records / "user.json")
    skipped |= _read(records / "e2e.json")
    listed = {line.partition("#")[0].strip() for line in listing.read_text().splitlines()} - {""}
    print(f"skipped everywhere: {len(skipped)} tests; {listing} lists {len(listed)}")
    for reason, tests in sorted(_by_reason(skipped).items()):
        print(f"  {len(tests):3}  {reason}", *tests, sep="\n         ")
    if new := sorted(skipped.keys() - listed):
        print(
            f"not listed in {listing}; make them run, or list them there with the reason:", *new, sep="\n  "
        )
    ran = [test for test in sorted(listed - skipped.keys()) if _tier(test) in recorded | {None}]
    if ran:
        print(f"listed in {listing}, but they ran, or are gone; take them off the list:", *ran, sep="\n  ")
    return 1 if new or ran else 0


def _tier(test: str) -> str | None:
    return tier_of(Path(test.partition("::")[0]))


def _read(record: Path) -> dict[str, str]:
    """Return the tests that a recorded run skipped, with their reasons; none where there was no such run."""
    skipped: dict[str, str] = json.loads(record.read_text())["skipped"] if record.exists() else {}
    return skipped


def _by_reason(skipped: dict[str, str]) -> dict[str, list[str]]:
    tests = defaultdict(list)
    for test, reason in sorted(skipped.items()):
        tests[reason].append(test)
    return tests


if __name__ == "__main__":
    sys.exit(main())
