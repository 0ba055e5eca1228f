"""Evaluates selectors where they can hurt nobody: each within 64 MiB of memory and some processor time, or the process dies.

`python -m tests.hostile.selector_worker FIRST COUNT` tries the drawn ones with these seeds, as a search with little time
left would: 50 ms for each, of which it is lent 20, after 150 ms in which it must be compiled. Without arguments those that come as a JSON list on stdin, without a
budget, so that what becomes of them depends on no clock. Prints one JSON object. Children do the work, a hundred selectors
each; one that dies names its last.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from dray.allocation.budget import Budget
from dray.allocation.device_values import DeviceValue, prepare
from dray.allocation.faults import SelectorError, TimeLimitError
from dray.allocation.features import Features
from dray.allocation.selector import CompileError, compile_selector
from dray.api.quantity import Quantity
from dray.api.resource.slice import Device, DeviceAttribute, DeviceCapacity
from tests.hostile.selectors import selector_of

GROWTH = 64 << 20
SECONDS = 0.050
LENT = 0.020
ALONE_SECONDS = 5.0
"""Without a budget the work limit alone decides; it is half a second on a quiet machine."""
COMPILE_SECONDS = 0.150
"""For ten kilobytes of text, which take a tenth of a second at worst; most take 5 ms."""
FEATURES = Features(consumable_capacity=True, list_type_attributes=True)
BATCH = 100
BY_BUDGET = "refused by the budget"
COLLECTED = 20
"""Selectors after which garbage is collected: walking over what is remembered takes longer than most selectors."""


def device() -> DeviceValue:
    """One with a little of everything."""
    attributes = {
        "name": DeviceAttribute(string_value="gpu-0"),
        "words": DeviceAttribute(string_values=tuple(f"word-{number}" for number in range(40))),
        "count": DeviceAttribute(int_value=7),
    }
    made = Device(
        name="a", attributes=attributes, capacity={"memory": DeviceCapacity(value=Quantity("40Gi"))}
    )
    return prepare("d", made, lists=True)


def outcome(expression: str, value: DeviceValue, lent: float | None) -> str:
    """What became of one selector. The timers end the process, not the evaluation. They count what the process computes: a
    kernel may take tens of milliseconds for pages that a child touches first, and memory has a limit of its own."""
    signal.setitimer(signal.ITIMER_VIRTUAL, COMPILE_SECONDS)
    try:
        selector = compile_selector(expression, FEATURES)
    except CompileError as error:
        return f"does not compile: {error}"
    signal.setitimer(signal.ITIMER_VIRTUAL, ALONE_SECONDS if lent is None else SECONDS)
    budget = None if lent is None else Budget(lent, time.process_time)
    try:
        return f"answered: {selector.accepts(value, budget)}"
    except TimeLimitError as error:
        return f"{BY_BUDGET}: {error}"
    except SelectorError as error:
        return f"refused: {error}"


def limit_memory() -> None:
    """As much more as one selector may need, whatever those before it left."""
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH, resource.RLIM_INFINITY))


def work(batch: Sequence[tuple[int, str]], lent: float | None, out: int) -> None:
    """In a child: a line before each selector, and one with what became of it."""
    value = device()
    compile_selector("device.driver == 'd'", FEATURES).accepts(value)
    gc.collect()
    gc.freeze()
    gc.disable()
    for at, (number, expression) in enumerate(batch):
        if at % COLLECTED == 0:
            gc.collect()
        limit_memory()
        os.write(out, json.dumps({"number": number}).encode() + b"\n")
        try:
            result = outcome(expression, value, lent)
        except BaseException as error:  # noqa: BLE001 whatever it is, it is a fault of ours
            result = f"FAULT {error!r:.300}"
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        os.write(out, json.dumps({"number": number, "result": result[:2000]}).encode() + b"\n")


def results(numbered: Iterable[tuple[int, str]], lent: float | None) -> Iterable[tuple[int, str]]:
    """(number, what became of it) of each; the rest of a batch goes on after a death."""
    waiting = iter(numbered)
    while left := list(islice(waiting, BATCH)):
        while left:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reading)
                work(left, lent, writing)
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as lines:
                heard = [json.loads(line) for line in lines]
            _, status = os.waitpid(child, 0)
            done = {one["number"]: one["result"] for one in heard if "result" in one}
            yield from done.items()
            left = [one for one in left if one[0] not in done]
            if left:
                yield left[0][0], f"FAULT the process ended by signal {os.WTERMSIG(status)}"
                del left[0]


def main() -> None:
    """See the module."""
    given: Iterable[tuple[int, str]]
    is_drawn = len(sys.argv) == 3
    if is_drawn:
        first, count = int(sys.argv[1]), int(sys.argv[2])
        given = ((seed, selector_of(seed)) for seed in range(first, first + count))
    else:
        given = list(enumerate(json.load(sys.stdin)))
    found = {}
    kinds: Counter[str] = Counter()
    stopped: set[str] = set()
    for number, result in results(given, LENT if is_drawn else None):
        kinds[result.split(":")[0]] += 1
        if result.startswith(BY_BUDGET):
            stopped.add(result.removeprefix(f"{BY_BUDGET}: "))
        if not is_drawn or result.startswith("FAULT"):
            found[number] = result
    answer: dict[str, Any] = {"kinds": kinds, "stopped": sorted(stopped), "found": found}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
