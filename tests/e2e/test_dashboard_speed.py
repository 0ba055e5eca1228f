"""How long a person waits on a page with many nodes of eight devices. Printed, never judged: machines differ.

1,000 nodes and 20 tries of each in the campaign, the figures of docs/dashboard.md; else enough to see that all is measured.

The nodes are objects only: kubelets and drivers are played, as in test_dashboard_browser.py.
"""

from __future__ import annotations

import gc
import os
import statistics
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from dray.runtime.garbage import settle
from tests.campaign import campaign
from tests.e2e.dashboard_person import Person, person
from tests.e2e.dashboard_world import World

pytest_plugins = ("tests.e2e.dashboard_fixtures",)

NODES = campaign(250, 1000)
TIMES = campaign(2, 20)
OTHERS = 3
"""Nodes of the fleet beside these."""
# From the input to the frame after the next one: then it is on the screen.
_FRAMES = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))"
)
_TYPE = f"""async (text) => {{
  const search = document.querySelector("input[type=search]");
  const from = performance.now();
  search.value = text;
  search.dispatchEvent(new Event("input", {{ bubbles: true }}));
  await {_FRAMES};
  return performance.now() - from;
}}"""
_SCROLL = f"""async (part) => {{
  const grid = document.querySelector(".grid");
  const from = performance.now();
  grid.scrollTop = grid.scrollHeight * part;
  await {_FRAMES};
  return performance.now() - from;
}}"""
_OPEN = f"""async ([route, sign]) => {{
  const from = performance.now();
  location.hash = route;
  while (!document.querySelector(sign)) await new Promise((done) => setTimeout(done, 1));
  await {_FRAMES};
  return performance.now() - from;
}}"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    usual = gc.get_threshold()
    with World(tmp_path_factory.mktemp("large"), more_nodes=NODES) as found:
        settle()  # as `dray up` and `dray dashboard` do when they are ready
        yield found
    gc.set_threshold(*usual)
    gc.unfreeze()


def _p95(measure: Callable[[int], float]) -> tuple[float, float]:
    found = [measure(number) for number in range(TIMES)]
    return statistics.median(found), statistics.quantiles(found, n=20)[-1]


def test_a_large_fleet_stays_smooth(
    browser: Browser, large: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with person(browser, large.entrance) as one:
        one.enter()
        expect(one.look("#found")).to_contain_text(f"on {NODES + OTHERS:,} nodes")
        page = one.page
        loaded = page.evaluate("() => performance.now()")
        drawn = page.evaluate("() => document.querySelectorAll('*').length")
        figures = _figures(one, page)
    with capsys.disabled():
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"\ndashboard, {NODES} nodes x 8: live after {loaded:.0f} ms, {drawn} elements; load {load}")
        for name, (median, p95) in figures.items():
            print(f"  {name}: median {median:.0f} ms, p95 {p95:.0f} ms")
    assert drawn < 3000  # only what is in view is in the document


def _figures(one: Person, page: Page) -> dict[str, tuple[float, float]]:
    words = ["h", "ho", "hollow-00", "hollow-01 gpu-3", "gpu-a", "", "h200", "train", "hollow-0999", ""]

    def open_device(number: int) -> float:
        one.open("#/fleet")
        route = f"#/devices/sim.dray.internal/hollow-{number:04d}/gpu-1"
        return float(page.evaluate(_OPEN, [route, ".at-devices .story"]))

    def open_node(number: int) -> float:
        one.open("#/fleet")
        return float(page.evaluate(_OPEN, [f"#/nodes/hollow-{number:04d}", ".topology svg"]))

    def open_refusal(sign: str) -> Callable[[int], float]:
        def measure(number: int) -> float:
            one.open("#/claims")
            return float(page.evaluate(_OPEN, ["#/claims/team-a/dream", sign]))

        return measure

    def open_fleet(number: int) -> float:
        one.open("#/claims")
        return float(page.evaluate(_OPEN, ["#/fleet", ".row"]))

    return {
        "typing in the filter": _p95(lambda number: float(page.evaluate(_TYPE, words[number % len(words)]))),
        "scrolling the grid": _p95(
            lambda number: float(page.evaluate(_SCROLL, (number * 7 % TIMES) / TIMES))
        ),
        "opening a device": _p95(open_device),
        "opening a node": _p95(open_node),
        "opening the fleet": _p95(open_fleet),
        "opening a refusal, until it says so": _p95(open_refusal(".explanation .working")),
        "opening a refusal, until the funnel": _p95(open_refusal(".explanation .funnel")),
    }
