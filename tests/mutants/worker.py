"""Tries mutants one after another in forks of a process that has collected the room's tests.

A change in the body of a function is made by giving the function other code: nothing is imported again. Any other change,
and any mutant that no test met, is tried in a fresh interpreter with a copy of the source, so that imports, caches and
child processes see it too. A test that fails counts only if it passes right after without the mutant.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.mutants.mutations import Mutant, is_in_function, located, mutated
from tests.mutants.record import ARGUMENTS, BUILD, Calm, Record, read_record
from tests.mutants.rooms import SOURCE, rooms
from tests.mutants.sample import read_outcomes, read_sample

KILLED, TIMED_OUT, SURVIVED, UNTESTED, GONE = "killed", "timed out", "survived", "untested", "gone"
_LEAST = float(os.environ.get("MUTANT_SECONDS", "5"))
"""Seconds that any test may take before it counts as timed out."""
_MEMORY = 6 << 30


class Worker:
    """A plugin of pytest: it takes the place of the loop that runs the tests."""

    def __init__(self, room: str, queue: int, answers: Path) -> None:
        self._mutants = [one for one in read_sample() if one.room == room]
        self._record: Record = read_record(rooms([room])[0])
        self._met_by = {key: test for key, (_, test) in read_outcomes().items()}
        self._queue = queue
        self._answers = answers
        self._copy = BUILD / f"source-{os.getpid()}"

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take numbers from the queue until it ends."""
        items = {item.nodeid: item for item in session.items}
        functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
        gc.collect()
        gc.freeze()
        try:
            while number := os.read(self._queue, 4):
                mutant = self._mutants[int.from_bytes(number)]
                answer = self._try(session, items, functions, mutant)
                with self._answers.open("a") as file:
                    file.write(json.dumps([mutant.key, *answer]) + "\n")
        finally:
            shutil.rmtree(self._copy, ignore_errors=True)
        return True

    def _try(
        self,
        session: pytest.Session,
        items: dict[str, pytest.Item],
        functions: Sequence[FunctionType],
        mutant: Mutant,
    ) -> tuple[str, str]:
        text, first = mutated(mutant), self._met_by.get(mutant.key, "")
        here = located(mutant)
        if not text or here is None:
            return GONE, ""
        mutant = here
        chosen = [one for one in self._record.of(mutant, first) if one in items]
        if not chosen:
            return UNTESTED, ""
        outcome, test = SURVIVED, ""
        if is_in_function(mutant.path.read_text(), mutant.line, mutant.column):
            code = compile(text, str(mutant.path.resolve()), "exec")
            outcome, test = self._fork(session, [items[one] for one in chosen], functions, code)
        if outcome == SURVIVED:
            outcome, test = self._fresh(mutant, text, chosen)
        is_sound = test not in items or self._fork(session, [items[test]], (), None)[0] == SURVIVED
        return (outcome, test) if is_sound else (SURVIVED, f"unsound: {test}")

    def _fork(
        self,
        session: pytest.Session,
        items: Sequence[pytest.Item],
        functions: Sequence[FunctionType],
        code: CodeType | None,
    ) -> tuple[str, str]:
        """Run the tests in a fork until one fails. The fork writes a byte for each test it begins."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            _be_mutant(session, items, functions, code, self._record, write)
        os.close(write)
        _, status = os.waitpid(child, 0)
        _end_group(child)
        with os.fdopen(read) as pipe:
            test = items[len(pipe.read()) - 1].nodeid
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            return TIMED_OUT, test
        return (SURVIVED, "") if status == 0 else (KILLED, test)

    def _fresh(self, mutant: Mutant, text: str, tests: list[str]) -> tuple[str, str]:
        """Run the tests as a user would, on a copy of the source with the change."""
        if not self._copy.exists():
            shutil.copytree(SOURCE, self._copy)
        file = self._copy / mutant.path.relative_to(SOURCE)
        (self._copy / "tests").write_text("\n".join(tests))
        limit = 4 * _LEAST + 4 * sum(self._record.duration[test] for test in tests)
        environment = {**os.environ, "PYTHONPATH": str(self._copy.resolve())}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        place = f"--basetemp={_scratch()}f"
        command = [
            sys.executable,
            "-m",
            "tests.mutants",
            "fresh",
            *ARGUMENTS,
            "-x",
            place,
            f"@{self._copy}/tests",
        ]
        file.write_text(text)
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                output = ""
            finally:
                _end_group(process.pid)
                shutil.copyfile(mutant.path, file)
        if not output:
            return TIMED_OUT, ""
        failed = [
            line.split(" ")[1]
            for line in output.splitlines()
            if line.startswith(("FAILED tests/", "ERROR tests/"))
        ]
        return (SURVIVED, "") if process.returncode == 0 else (KILLED, failed[0] if failed else "import")


def _be_mutant(
    session: pytest.Session,
    items: Sequence[pytest.Item],
    functions: Sequence[FunctionType],
    code: CodeType | None,
    record: Record,
    pipe: int,
) -> None:
    """The life of a fork: change the code, run the tests; a test that does not end is ended by the alarm."""
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if code:
            _change(functions, code)
        for item, following in zip(items, [*items[1:], None], strict=True):
            os.write(pipe, b".")
            signal.setitimer(signal.ITIMER_REAL, _LEAST + 10 * record.duration[item.nodeid])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                break
        status = int(bool(session.testsfailed))
    finally:
        os._exit(status)


def _change(functions: Sequence[FunctionType], code: CodeType) -> None:
    """Give every function of the file its code of the mutant; only one has other code than before."""
    changed = {(one.co_qualname, one.co_firstlineno): one for one in _all(code)}
    for function in functions:
        old = function.__code__
        new = changed.get((old.co_qualname, old.co_firstlineno))
        if old.co_filename == code.co_filename and new and new != old:
            function.__code__ = new


def _all(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _all(one)


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _scratch() -> str:
    """A short name: paths of Unix sockets are limited."""
    return f"/tmp/mutant{os.getpid()}"


def work(room: str, queue: int, answers: Path) -> None:
    """Be a worker until the queue ends."""
    places = [f"tests/{one}" for one in rooms([room])[0].tests]
    pytest.main(
        [*ARGUMENTS, f"--basetemp={_scratch()}", *places], plugins=[Calm(), Worker(room, queue, answers)]
    )
    for place in (_scratch(), f"{_scratch()}f"):
        shutil.rmtree(place, ignore_errors=True)
