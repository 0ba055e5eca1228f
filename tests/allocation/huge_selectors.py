"""Texts that would take forever or fill the memory, if nothing stopped them. Run as a program: prints the work each took."""

from __future__ import annotations

import contextlib
import json
import resource

from dray.allocation.faults import SelectorError
from dray.cel.faults import EvaluationError
from tests.allocation.selecting import DRIVER, A, device, selector
from tests.cel.counting import calls

MEMORY = 512 * 2**20

HUGE = {
    "brackets": "(" * 5000 + "true" + ")" * 5000,
    "lists": "[" * 5000 + "]" * 5000 + " == []",
    "negations": "!" * 10_000 + "true",
    "conjunction": " && ".join([f'{A}.s == "{number}"' for number in range(280)]),
    "failing alternatives": " || ".join([f"{A}.q{number} == 1" for number in range(300)]),
    "choices": "true ? true : " * 700 + "true",
    "nested macros": "".join(f"[1, 2].all(x{number}, " for number in range(40)) + "true" + ")" * 40,
    "nested lists": "".join(f"[1, 1].map(x{number}, " for number in range(30)) + "1" + ")" * 30 + " == []",
    "range": "lists.range(9223372036854775807).size() > 0",
    "large range": "lists.range(1000000).map(x, x).size() > 0",
    "three folds": "lists.range(999).all(x, lists.range(999).all(y, lists.range(999).all(z, x + y + z >= 0)))",
    "doubled list": "cel.bind(a, [1, 1], " + "cel.bind(a, a + a, " * 60 + "a.size() > 0" + ")" * 61,
    "doubled string": f"cel.bind(a, {A}.s, " + "cel.bind(a, a + a, " * 60 + "a.size() > 0" + ")" * 61,
    "shared lists": "cel.bind(a, [1, 1], " + "cel.bind(a, [a, a], " * 60 + "a == a" + ")" * 61,
    "backtracking": f'{A}.s.matches("' + "(a*)*" * 500 + 'b")',
    "counted pattern": f'{A}.s.matches("(a{{1000}}){{1000}}")',
    "wide pattern": f'{A}.s.matches("a{{0,1000}}a{{0,1000}}a{{0,1000}}b")',
    "deep pattern": f'{A}.s.matches("' + "(" * 2000 + "a" + ")" * 2000 + '")',
    "made pattern": f'{A}.s.matches({A}.s + "(a|a)*b")',
    "replaced": f"{A}.s" + f'.replace("", {A}.s)' * 5 + ".size() > 0",
    "joined": f'lists.range(10000).map(x, {A}.s).join("{"a" * 8000}").size() > 0',
    "formatted": '"%s".format([lists.range(1000000)]) == ""',
    "precise": '"%.1000000000f".format([1.0]) == ""',
    "sorted": "lists.range(100000).sortBy(x, -x).size() > 0",
    "sets": "sets.equivalent(lists.range(30000), lists.range(30000))",
    "long string": '"' + "a" * 10_200 + '" == ""',
    "open string": '"' + "\\" * 10_200,
    "large amount": 'quantity("1e999999999").isInteger()',
    "large number": "9" * 10_000 + " > 0",
    "large duration": f'duration("{"9" * 9000}s") > duration("1s")',
    "large map": "{" + ", ".join(f"{number}: 1" for number in range(1000)) + "}.size() > 0",
}


def work(text: str) -> tuple[int, int, int]:
    """(calls to compile it, cost and steps of folds to ask it about a device), whatever comes out."""

    def compiled() -> None:
        with contextlib.suppress(SelectorError):
            selector(text)

    count = calls(compiled)
    one = device(s="a" * 64)
    with contextlib.suppress(SelectorError):
        found = selector(text)
        if found.program.is_fast:
            with contextlib.suppress(SelectorError):
                found.matches(DRIVER, one)
        run = found.program.start({"device": found.prepare(DRIVER, one).value})
        with contextlib.suppress(EvaluationError):
            found.program.finish(run)
        return count, run.cost, run.steps
    return count, 0, 0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    print(json.dumps({name: work(text) for name, text in HUGE.items()}))
