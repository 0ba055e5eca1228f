"""`python -m deploy.supply.audit`: whether the pinned packages are sound.

Every entry must have a version and hashes; the index must still have files of those hashes and not have withdrawn them; and
no advisory may be known against a version. Advisories are those of the index's own JSON pages. Where nobody answers there,
that is said and is no finding: then someone must look elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deploy.supply.index import UnreachableError, fetch, files_of
from deploy.supply.locked import LOCKS, Package, read_lock

INDEX = "https://pypi.org/simple"
ADVISORIES = "https://pypi.org/pypi"


@dataclass(frozen=True, slots=True)
class Report:
    """`findings` make it fail; `unasked` and `unadvised` are packages about which nobody could be asked."""

    packages: int
    findings: tuple[str, ...]
    unasked: tuple[str, ...]
    unadvised: tuple[str, ...]

    def lines(self) -> list[str]:
        """For people."""
        told = [f"FOUND: {one}" for one in self.findings]
        if self.unasked:
            told.append(f"NOT ASKED whether withdrawn, the index did not answer: {_some(self.unasked)}")
        if self.unadvised:
            told.append(f"NOT AUDITED against advisories, nobody answered: {_some(self.unadvised)}")
        return [*told, f"{self.packages} packages pinned, {len(self.findings)} findings"]


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


def audit(locks: Iterable[Path], index: str, advisories: str) -> Report:
    """Look at all entries of all lock files; one that is in several is looked at once, with the hashes of all."""
    findings, merged = [], dict[tuple[str, str], Package]()
    for lock in locks:
        for one in read_lock(lock.read_text()):
            if not one.is_pinned:
                findings.append(f"{lock}: {one.name} has no version or no hash: run `make lock`")
            elif merged.setdefault((one.name, one.version), one).hashes != one.hashes:
                findings.append(
                    f"{lock}: {one.name} {one.version} has other hashes than in another lock file"
                )
    packages = [merged[key] for key in sorted(merged)]
    unasked, unadvised = [], []
    with ThreadPoolExecutor(8) as threads:
        for one, found in zip(
            packages, threads.map(lambda one: _withdrawn(one, index), packages), strict=True
        ):
            findings += found or ()
            unasked += [one.name] if found is None else []
        advised = threads.map(lambda one: _advisories(one, advisories), packages)
        for one, found in zip(packages, advised, strict=True):
            findings += found or ()
            unadvised += [one.name] if found is None else []
    return Report(len(packages), tuple(findings), tuple(unasked), tuple(unadvised))


def _withdrawn(package: Package, index: str) -> list[str] | None:
    """What is wrong with its files; None where the index does not tell."""
    try:
        files = [one for one in files_of(index, package.name) if one.sha256 in package.hashes]
    except UnreachableError:
        return None
    if not files:
        return [f"{package.name} {package.version}: the index has no file with any of its hashes"]
    if not (reasons := {one.yanked for one in files if one.yanked is not None}):
        return []
    said = "; ".join(sorted(filter(None, reasons))) or "no reason given"
    return [f"{package.name} {package.version} was withdrawn: {said}"]


def _advisories(package: Package, advisories: str) -> list[str] | None:
    try:
        _, body = fetch(f"{advisories.rstrip('/')}/{package.name}/{package.version}/json")
        known = json.loads(body)["vulnerabilities"]
        return [
            f"{package.name} {package.version}: {one['id']}, mended in {', '.join(one['fixed_in']) or 'no version'}"
            for one in known
            if not one.get("withdrawn")
        ]
    except (UnreachableError, ValueError, KeyError, TypeError):
        return None


def main() -> int:
    """Print the report; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m deploy.supply.audit")
    parser.add_argument("locks", nargs="*", type=Path, default=LOCKS, help="lock files (default: all)")
    parser.add_argument("--index", default=os.environ.get("PIP_INDEX_URL", INDEX), help="of packages")
    parser.add_argument("--advisories", default=ADVISORIES, help="where PACKAGE/VERSION/json is asked for")
    arguments = parser.parse_args()
    report = audit(arguments.locks, arguments.index, arguments.advisories)
    sys.stdout.write("\n".join(report.lines()) + "\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
