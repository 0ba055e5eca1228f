"""What holds for every test: which ones run, Hypothesis' profiles, short temporary paths."""

from __future__ import annotations

import gc
import logging
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.campaign import PLAN
from tests.tiers import PROGRAMS, TIER_OF, tier_of

pytest_plugins = ["tests.record"]

hypothesis.settings.register_profile("same every time", derandomize=True, deadline=None)
hypothesis.settings.register_profile("campaign", database=None, deadline=None, print_blob=True)

STARTED = pytest.StashKey[float]()
TEMPORARY = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dray")
    tiers = sorted(set(TIER_OF.values()))
    group.addoption(
        "--tier", action="append", choices=tiers, help="Run the tests of this tier (tests/tiers.py)."
    )
    group.addoption(
        "--random-cases", action="store_true", help="Run the files that use tests/campaign.py alone."
    )
    group.addoption("--box", type=float, metavar="SECONDS", help="Run tests in random order, for so long.")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.monotonic()
    is_campaign = PLAN.is_long or PLAN.seed != 0
    hypothesis.settings.load_profile("campaign" if is_campaign else "same every time")
    if is_campaign and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(PLAN.seed * PLAN.shares + PLAN.share)
    if config.option.basetemp is None:
        # The path of a Unix socket has at most 107 bytes; pytest's own directories would take more than half of them.
        config.option.basetemp = tempfile.mkdtemp(prefix="d-")
        config.stash[TEMPORARY] = Path(config.option.basetemp)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    made = session.config.stash.get(TEMPORARY, None)
    if made is not None and exitstatus == 0:
        # Several times faster than shutil.rmtree: a run makes a hundred thousand files.
        subprocess.run(["rm", "-rf", "--one-file-system", made], check=False, stderr=subprocess.DEVNULL)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Tests wait for files and sockets about as long as they compute, and longer for programs."""
    return (3 if config.option.tier == [PROGRAMS] else 2) * len(os.sched_getaffinity(0))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    if config.option.tier and tier_of(collection_path) not in config.option.tier:
        return True
    if config.option.random_cases and "tests.campaign" not in collection_path.read_text():
        return True
    return None


def pytest_collection_finish() -> None:
    """What is collected stays: the garbage collector need not walk over thousands of tests during each of them."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.box:
        random.Random(PLAN.seed).shuffle(items)


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Pass over what comes after the end of the time box: it is neither run nor counted."""
    box = item.config.option.box
    return True if box and time.monotonic() - item.config.stash[STARTED] > box else None


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with room for sockets below it, whatever the test is called."""
    made = Path(tempfile.mkdtemp(prefix="dray-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that is run in process sends the logs to the stderr of that test, which is closed after it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
