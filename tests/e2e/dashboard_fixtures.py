"""`world`, `browser` and `visitor` for tests of the dashboard in a real browser; one world and browser for each module.

Not for the session: as long as the driver is there, its event loop runs in the main thread, and no async test can.

Install the browser first: `make e2e` does, or `python -m dray.testing.browser install`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from dray.testing.browser import Parts, locate
from tests.e2e.dashboard_person import Person, person
from tests.e2e.dashboard_world import World


@pytest.fixture(scope="session")
def browser_parts() -> Parts:
    parts = locate()
    if missing := parts.missing():
        line = f"not installed: {', '.join(missing)}. Run `make e2e`, or `python -m dray.testing.browser install`."
        pytest.exit(line, returncode=2)
    return parts


@pytest.fixture(scope="module")
def browser(browser_parts: Parts) -> Iterator[Browser]:
    with sync_playwright() as driver:
        # Chromium's own sandbox does not start for root; the page is ours.
        found = driver.chromium.launch(executable_path=browser_parts.browser, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world")) as found:
        yield found


@pytest.fixture(scope="module")
def _frequent(browser: Browser, world: World) -> Iterator[Person]:
    """One context and page for all visitors: to make them takes longer than most visits."""
    with person(browser, world.entrance) as one:
        yield one


@pytest.fixture
def visitor(_frequent: Person) -> Iterator[Person]:
    """Somebody who has opened the printed address, and was never here before."""
    try:
        yield _frequent.enter()
        _frequent.check()
    finally:
        _frequent.leave()
