"""Writes tests/api/*_cases.jsonl from Go's answers: `python tests/api/oracle/generate.py [--compare N --seed S]`.

With `--compare N` nothing is written: N fresh random cases are compared and every difference is printed. Needs Go.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))

from tests.api.oracle.compare import Case, differences  # noqa: E402
from tests.api.oracle.questions import quantity_questions, value_questions  # noqa: E402

SEED = 20260101


def main() -> int:
    """Write the corpora, or compare fresh cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        oracle = Path(folder) / "oracle"
        subprocess.run(["go", "build", "-o", oracle, "."], cwd=HERE, check=True)
        if options.compare:
            return _compare(oracle, options.compare, options.seed)
        _write(oracle, "quantity_cases.jsonl", quantity_questions(random.Random(SEED), 3000))
        _write(oracle, "value_cases.jsonl", value_questions(random.Random(SEED), 2000))
    return 0


def _ask(oracle: Path, questions: Iterator[Case]) -> list[str]:
    text = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([oracle], input=text.encode(), stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().splitlines()


def _write(oracle: Path, name: str, questions: Iterator[Case]) -> None:
    lines = _ask(oracle, questions)
    (HERE.parent / name).write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(lines)} cases")


def _compare(oracle: Path, count: int, seed: int) -> int:
    found = compared = 0
    for start in range(0, count, 50_000):
        source = random.Random(seed + start)
        size = min(50_000, count - start)
        for make in (quantity_questions, value_questions):
            for line in _ask(oracle, make(source, size)):
                compared += 1
                for difference in differences(json.loads(line)):
                    found += 1
                    print(difference, line)
    print(f"{compared} cases, {found} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
