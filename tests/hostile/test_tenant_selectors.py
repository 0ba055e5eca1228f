"""A tenant with a namespace writes selectors: each is answered or refused within its memory and time, and nothing else waits.

The processes of `selector_worker` decide: what takes more dies there, and the test names it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dray.allocation.budget import Budget as SearchBudget
from dray.allocation.faults import TimeLimitError
from dray.allocation.features import Features
from dray.allocation.selector import (
    ADMITTED,
    CompiledSelectors,
    CompileError,
    check_selector,
    compile_selector,
)
from dray.api.field_errors import Path as FieldPath
from dray.api.resource.slice import Device, DeviceAttribute
from dray.cel.budget import Budget, BudgetSpentError
from dray.cel.library import patterns
from dray.cel.memo import Memo
from tests.campaign import campaign, seeds
from tests.hostile.selector_worker import BY_BUDGET
from tests.hostile.selectors import described, overloads, selector_of

ROOT = Path(__file__).parents[2]
FEATURES = Features(consumable_capacity=True, list_type_attributes=True)
WORK = "refused: operation cancelled: work limit of 4000000 steps exceeded"
STOPPED = "the search for devices was stopped after 0.02 s: whether the claims fit here is not known"
COST = "refused: operation cancelled: actual cost limit exceeded"


def _limit_cpu(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def run_worker(*arguments: str, given: Sequence[str] = (), seconds: int = 60) -> Any:
    """What the worker says; it has so much processor time for all."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.selector_worker", *arguments],
        check=False,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        preexec_fn=lambda: _limit_cpu(seconds),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == "", "RE2 writes what it does not like about a pattern, whatever it is told"
    return json.loads(done.stdout)


def shared(body: str, steps: int = 40, first: str = "['x']", step: str = "[{0}, {0}]") -> str:
    """`Z` in the body is a value that holds one twice, which holds one twice, …: 2⁴⁰ values in a kilobyte."""
    bound = [f"cel.bind(a0, {first}, "]
    bound += [f"cel.bind(a{at}, {step.format(f'a{at - 1}')}, " for at in range(1, steps + 1)]
    return "".join(bound) + re.sub(r"\bZ\b", f"a{steps}", body) + ")" * len(bound)


def long_text(body: str) -> str:
    """`S` in the body has 10 million characters, `T` 300 thousand."""
    text = shared(body, 20, "'xxxxxxxxxx'", "{0} + {0}")
    return re.sub(r"\bT\b", "a15", re.sub(r"\bS\b", "a20", text))


SHARED = {
    "dyn(Z) in ['a', 'b']": "answered: False",
    "dyn(Z).matches('x')": "refused: no such overload: matches",
    "{dyn(Z): 1}.size() == 1": WORK,
    "[?dyn(Z)].size() == 1": "refused: cannot initialize optional list element from non-optional value [[",
    "[dyn(Z)].join() == ''": "refused: no such overload: join(list)",
    "[dyn('a'), dyn(Z)].join() == ''": WORK,
    "Z == Z": WORK,
    "dyn(Z) == dyn([Z])": "answered: False",
    "dyn(Z) != dyn(Z.map(x, x))": WORK,
    "dyn(Z) < dyn(Z)": WORK,
    "Z in [Z]": WORK,
    "dyn(Z) in {'a': 1}": WORK,
    "[Z].indexOf(Z) == 0": WORK,
    "[Z, Z].distinct().size() == 1": WORK,
    "sets.contains([Z], [Z])": WORK,
    "sets.equivalent([Z, Z], [Z])": WORK,
    "'%s'.format([Z]) == ''": WORK,
    "Z.flatten(50).size() == 0": WORK,
    "dyn(Z).sum() == 1": WORK,
    "dyn(Z).max() == 1": WORK,
    "dyn(Z).isSorted()": WORK,
    "Z[0] == Z[1]": WORK,
    "{dyn(Z): 1, ?dyn(Z): optional.none()}.size() == 0": WORK,
    "optional.of(Z) == optional.of(Z)": WORK,
    "{optional.of(dyn(Z)): 1}.size() == 1": WORK,
    "[Z].transformMapEntry(i, v, {dyn(v): i}).size() == 1": WORK,
    "Z.exists(x, dyn(x) == dyn(Z)) || true": WORK,
    "optional.unwrap([dyn(Z)]).size() == 0": "refused: no such overload",
    "device.attributes[dyn(Z)].size() == 0": "refused: invalid qualifier type: list",
    # What Kubernetes answers without a walk is answered.
    "Z.size() == 2": "answered: True",
    "Z.flatten().size() == 4": "answered: True",
    "type(Z) == list": "answered: True",
    "dyn(Z).includes('x')": "answered: False",
    "[Z, Z].size() + Z[0][1].size() == 4": "answered: True",
    "Z.sortBy(x, x.size()).size() == 2": "answered: True",
}
LONG_PATTERN = "refused: error parsing regexp: expression too large: a pattern has at most 10240 bytes"
TEXTS = {
    "S.replace('', S).size() > 0": COST,
    "T.replace('', T).size() > 0": WORK,
    "T.replace('x', T).size() > 0": WORK,
    "T.split('').map(x, T).join(T).size() > 0": COST,
    "T.lastIndexOf('y' + T) == -1": "answered: True",
    "T.contains(T + 'y')": COST,
    "T.findAll('.*y|').size() > 0": "refused: operation cancelled: too many matches in a long text",
    "T.matches('(x+x+)+y')": "answered: False",
    "'a'.matches(T)": LONG_PATTERN,
    "'a'.matches(S)": COST,
    "''.matches('(?i)' + T)": LONG_PATTERN,
    "T.find(T) == ''": COST,
    "'%s%s%s%s'.format([T, T, T, [T]]).size() > 0": "answered: True",
    "url('http://a/' + T).getHost() == 'a'": "answered: True",
    "isIP(T)": "answered: False",
    "duration(T) == duration(T)": "refused: type conversion error",
    "semver('1.0.0-' + T) == semver('1.0.0')": "answered: False",
    "device.attributes['d'][T] == 1": "refused: no such key: xxx",
    "{T: 1}.size() == 1": "answered: True",
}
GROWN = {
    "[": ("''.matches(Z)", LONG_PATTERN),
    "[:a": ("''.matches('[' + Z)", LONG_PATTERN),
    "k": ("''.matches('(?i)' + Z)", LONG_PATTERN),
    "(?:a)": ("''.matches(Z)", LONG_PATTERN),
    "()": ("''.find(Z) == ''", "refused: Illegal regex: error parsing regexp: expression too large"),
    "0": ("double(Z + 'x') > 0.0", "refused: type conversion error from 'string' to 'double'"),
    "1": ("double(Z) > 0.0", "refused: type conversion error from 'string' to 'double'"),
    "00": ("double('0x' + Z + 'x') > 0.0", "refused: type conversion error from 'string' to 'double'"),
    "000": ("int(Z + 'x') > 0", "refused: type conversion error from 'string' to 'int'"),
    "0.": ("duration(Z + 'x') == duration('1s')", "refused: type conversion error"),
    "a.": ("semver('1.0.0-' + Z + 'a') == semver('1.0.0')", WORK),
    "AAAA": ("format.byte().validate(Z).hasValue() || true", COST),
    "%%": ("(Z + '%s').format([1]).size() == 0", "answered: False"),
    "\U0001f600": (
        "lists.range(45000).exists(i, dyn(device.attributes['d'][Z]) == i)",
        "refused: no such key: ",
    ),
    "\U0001f601": (
        "lists.range(6000).exists(i, timestamp('2020-01-01T00:00:00+00:00').getHours(a17) == i)",
        "refused: unknown time zone ",
    ),
    "\x85": ("isIP(Z)", "answered: False"),
    "\x86": ("isCIDR(Z) || isSemver(Z) || isURL('http://a@' + Z)", WORK),
    "%25/": (
        "cel.bind(u, url('http://a/' + a12), lists.range(9000).exists(i, [?dyn(u)].size() == i))",
        "refused: cannot initialize optional list element from non-optional value kubernetes.URL(",
    ),
}
"""Texts of ten characters of such pieces, doubled 17 times, that almost are what is asked for."""
OTHERS = {
    "brackets that are not closed": (f"device.driver.matches('{'[' * 10_000}')", "does not compile: "),
    "classes of letters that are not closed": (
        f"device.driver.matches('{'[[:a' * 2500}')",
        "does not compile: ",
    ),
    "a literal of zeros": (f"double('{'0' * 10_000}x') > 0.0", "does not compile: "),
    "repetitions that are written down": (
        "device.driver.matches('" + "a{1000}" * 1400 + "')",
        "does not compile: compilation failed: ",
    ),
    "a list of patterns": (
        "[" + ", ".join(rf"'\\pL{{20}}{at}'" for at in range(40)) + "].exists(x, device.driver.matches(x))",
        WORK,
    ),
    "patterns that do not fit together": (
        " || ".join(rf"device.driver.matches('\\pL{{20}}N{at}')" for at in range(200)),
        "does not compile: compilation failed: regular expressions are too large: limit 60000 instructions in all",
    ),
    "a pattern that does not fit": (
        " || ".join(rf"device.driver.matches('\\pL{{300}}N{at}')" for at in range(200)),
        "does not compile: ",
    ),
    "patterns that are computed": (
        r"lists.range(2000).exists(i, device.driver.matches('\\pL{20}' + string(i)))",
        WORK,
    ),
    "operators that are free": (f"lists.range(99000).all(x, {' && '.join(['true'] * 900)})", WORK),
    "a constant list that is searched": (
        f"lists.range(99000).all(x, x in [{', '.join(map(str, range(-1500, 0)))}] || true)",
        WORK,
    ),
    "folds in folds over nothing": (
        "cel.bind(r, lists.range(1000), r.map(x, r.filter(y, false)).size() == 1)",
        WORK,
    ),
    "time zones": (
        "lists.range(80000).all(x, timestamp('2020-01-01T00:00:00Z').getHours('X' + string(x)) == 1 || true)",
        WORK,
    ),
    "thousands of zeros": (f"int('{'0' * 9000}1') == 1 && uint('{'0' * 900}1') == 1u", "answered: True"),
    "wide numbers": (
        f"'{'%.65535e' * 800}'.format(lists.range(800).map(x, 1.0)).size() > 0",
        "refused: operation",
    ),
    "macros that double": (f"optional.of(1){'.optMap(x, x)' * 15}.hasValue()", "does not compile: "),
    "maps of maps": (shared("Z == Z", 30, "{1: 1}", "{{1: {0}, 2: {0}}}"), WORK),
    "maps by maps": (shared("Z == Z", 30, "{1: 1}", "{{{0}: {0}}}"), "does not compile: "),
    "four million matches": (
        shared("lists.range(1000).all(i, Z.findAll('9').size() > 0)", 12, "'9'", "{0} + {0}"),
        WORK,
    ),
    "a name of half a megabyte": (
        shared("format.dns1123Subdomain().validate(Z.replace('9', 'a.')).hasValue()", 18, "'9'", "{0} + {0}"),
        "answered: True",
    ),
    "a long list": ("lists.range(900000).size() == 900000", "answered: True"),
    "an honest one at 12 % of the cost limit": (
        "lists.range(20000).all(x, x >= 0) && device.attributes['d'].name != ''",
        "answered: True",
    ),
}
TABLE = {
    **{name: (shared(name), expected) for name, expected in SHARED.items()},
    **{name: (long_text(name), expected) for name, expected in TEXTS.items()},
    **{
        f"{piece}: {body}": (shared(body, 17, f"'{piece * (10 // len(piece))}'", "{0} + {0}"), expected)
        for piece, (body, expected) in GROWN.items()
    },
    **OTHERS,
}


def test_each_is_answered_or_refused() -> None:
    """All in one child: starting one takes longer than the whole table."""
    assert all(len(text.encode()) <= 10 << 10 for text, _ in TABLE.values())
    found = run_worker(given=[text for text, _ in TABLE.values()])["found"]
    outcomes = {name: found[str(at)] for at, name in enumerate(TABLE)}
    wrong = {
        name: outcomes[name]
        for name, (_, expected) in TABLE.items()
        if outcomes[name].startswith("FAULT") or not outcomes[name].startswith(expected)
    }
    assert wrong == {}


def test_drawn_selectors_are_answered_or_refused() -> None:
    """About 130 a second of processor time, by as many children as there are processors."""
    drawn = seeds(150, 1_000_000)
    share = campaign(len(drawn), 5_000)
    firsts = range(drawn.start, drawn.stop, share)

    def tried(first: int) -> Any:
        count = min(share, drawn.stop - first)
        return run_worker(str(first), str(count), seconds=60 + count // 5)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        answers = list(threads.map(tried, firsts))
    faults = [(seed, fault) for one in answers for seed, fault in one["found"].items()]
    assert not faults, [f"{fault}\n{described(int(seed))}" for seed, fault in faults[:10]]
    kinds = sum((Counter(one["kinds"]) for one in answers), Counter[str]())
    assert kinds.total() == len(drawn)
    assert set(kinds) == {"answered", "refused", BY_BUDGET, "does not compile"}
    assert all(one["stopped"] in ([], [STOPPED]) for one in answers)


def test_every_function_is_drawn() -> None:
    texts = "\n".join(map(selector_of, range(campaign(1500, 1501))))
    assert {one.function for one in overloads() if f"{one.function}(" not in texts} == set()


def test_the_api_server_refuses_without_compiling_for_long() -> None:
    """In the worker the same takes less than its processor time; here the message is what counts."""
    text = OTHERS["patterns that do not fit together"][0]
    (fault,) = check_selector(text, FieldPath("spec"), stored=False)
    assert "regular expressions are too large: limit 60000 instructions in all" in fault.message
    (again,) = check_selector(text, FieldPath("spec"), stored=False)
    assert again == fault


def test_a_budget_ends_evaluations_and_is_no_answer() -> None:
    """What the clock cut off is asked again with the next budget."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    selectors = CompiledSelectors(FEATURES)
    slow = "lists.range(9000).map(x, string(x)).exists(s, s == device.attributes['d'].name)"
    device = Device(name="a", attributes={"name": DeviceAttribute(string_value="8999")})
    selectors.budget = Budget(10**9, 5.0, clock)
    with pytest.raises(BudgetSpentError):
        selectors.matches(slow, "d", device)
    selectors.budget = Budget(10_000)
    with pytest.raises(BudgetSpentError):
        selectors.matches(slow, "d", device)
    selectors.budget = None
    assert selectors.matches(slow, "d", device)


def test_a_budget_is_charged_for_fast_evaluations_too() -> None:
    selectors = CompiledSelectors(FEATURES)
    device = Device(name="a", attributes={"name": DeviceAttribute(string_value="x")})
    selectors.budget = Budget(100)
    assert selectors.selector("device.attributes['d'].name == 'x'").program.is_fast
    with pytest.raises(BudgetSpentError):
        for _ in range(101):
            selectors.matches("device.attributes['d'].name == 'x'", "d", device)


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    memo: Memo[int, str] = Memo(100)
    for number in range(10):
        memo.put(number, "x", 30)
    memo.put(99, "too large", 101)
    memo.put(9, "again", 40)
    assert (len(memo), memo.size, memo.get(9), memo.get(0), memo.get(99)) == (3, 100, "again", None, None)


def test_threads_remember_together() -> None:
    """The dashboard's threads compile, and so does the loop: whoever comes in between ends neither, and the count stays true."""
    memo: Memo[int, int] = Memo(8)

    def remember(first: int) -> None:
        for number in range(first, first + 50_000):
            memo.put(number, number, 1 + number % 3)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(remember, range(0, 28, 7)))
    finally:
        sys.setswitchinterval(before)
    for number in range(8):
        memo.put(-number, 0, 1)
    assert (memo.size, len(memo)) == (8, 8)


def test_compiled_patterns_are_bounded_in_bytes() -> None:
    for number in range(300):
        patterns.search(f"a{number}", "a")
    assert patterns._KNOWN.size <= 64 << 20


def test_a_text_that_does_not_compile_is_remembered() -> None:
    with pytest.raises(CompileError) as first:
        compile_selector("nothing ==", FEATURES)
    with pytest.raises(CompileError) as second:
        compile_selector("nothing ==", FEATURES)
    assert first.value is second.value


def test_selectors_that_compute_patterns_are_counted() -> None:
    """Seven characters may be a pattern that takes 20 ms to compile, and the fast way does not look at the clock."""
    few = compile_selector(r"device.driver.matches('\\pL{' + '20}')", FEATURES)
    many = compile_selector(
        r"['\\pL{20}', '\\pN{20}', '\\pL{21}'].exists(x, device.driver.matches(x))", FEATURES
    )
    known = compile_selector(r"device.driver.matches('\\pL{20}')", FEATURES)
    assert (few.program.is_fast, many.program.is_fast, known.program.is_fast) == (True, False, True)


def test_the_scheduler_finds_what_the_api_server_compiled() -> None:
    """In `dray up` they are one process, and the scheduler's loop answers others."""
    text = "device.attributes['shared'].name == 'compiled once'"
    scheduler = Features(consumable_capacity=True)
    admitted = compile_selector(text, ADMITTED, stored=False)
    assert compile_selector(text, scheduler) is admitted
    gated = "device.allowMultipleAllocations && device.attributes['d'].name == 'x'"
    assert compile_selector(gated, ADMITTED, stored=False) is compile_selector(gated, scheduler)
    with pytest.raises(CompileError):
        compile_selector(gated, Features(), stored=False)
    assert compile_selector(gated, Features()).matches(
        "d",
        Device(
            name="a", attributes={"name": DeviceAttribute(string_value="x")}, allow_multiple_allocations=True
        ),
    )
    includes = "device.attributes['d'].words.includes('x')"
    with pytest.raises(CompileError):
        compile_selector(includes, ADMITTED, stored=False)
    assert compile_selector(includes, scheduler).program.result_type.name == "bool"


def test_a_long_text_is_not_compiled_by_who_has_little_time() -> None:
    """The decision goes to a copy of the process, which has more."""
    now = [0.0]
    text = " || ".join(f"device.attributes['little time'].name == '{number}'" for number in range(100))
    device = Device(name="a", attributes={"little time/name": DeviceAttribute(string_value="7")})
    selectors, features = CompiledSelectors(FEATURES), FEATURES
    selectors.budget = SearchBudget(0.005, lambda: now[0])
    with pytest.raises(TimeLimitError):
        selectors.matches(text, "d", device)
    assert selectors.matches("device.driver == 'd'", "d", device)
    compile_selector(text, features)
    assert selectors.matches(text, "d", device)
    other = CompiledSelectors(FEATURES)
    other.budget = SearchBudget(0.1, lambda: now[0])
    longest = f"device.driver == '{'x' * 10_000}'"
    assert not other.matches(longest, "d", device)


def test_a_call_that_does_not_fit_into_the_time_left_is_not_begun() -> None:
    """Nothing looks at the clock, which stands still here, while Python makes half a million numbers."""
    text = "lists.range(500000).size() > 0 && device.driver == 'd'"
    device = Device(name="a")
    selectors = CompiledSelectors(FEATURES)
    selectors.budget = SearchBudget(0.1, lambda: 0.0)
    with pytest.raises(TimeLimitError):
        selectors.matches(text, "d", device)
    selectors.budget = SearchBudget(10.0, lambda: 0.0)
    assert selectors.matches(text, "d", device)
