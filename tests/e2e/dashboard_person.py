"""Somebody with a browser: opens the dashboard, and whatever goes wrong on the page meanwhile is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Dialog, Locator, Page, expect

from tests.waiting import PATIENCE

LIGHT: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
DARK: dict[str, Any] = {**LIGHT, "color_scheme": "dark"}
PHONE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 740}, "color_scheme": "light", "has_touch": True, "is_mobile": True,
}  # fmt: skip
LOOKS = {"light": LIGHT, "dark": DARK, "phone": PHONE}

expect.set_options(timeout=1000 * PATIENCE)

# Only what a person would see as broken: a page that asks for its token is answered 401 on purpose.
_EXPECTED = "status of 401"
_WATCH = """
window.violations = []; window.shifts = 0;
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
new PerformanceObserver((list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts += one.value; })
  .observe({ type: "layout-shift", buffered: true });
"""


class Person:
    """One page of a browser, with what went wrong on it."""

    def __init__(self, page: Page, entrance: str) -> None:
        self.page = page
        self.entrance = entrance
        self.expected = [_EXPECTED]
        self.wrong: list[str] = []
        self.elsewhere: list[str] = []
        page.add_init_script(_WATCH)
        page.on("console", lambda said: self._on_console(said.type, said.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", self._on_dialog)
        page.on("request", lambda request: self._on_request(request.url))

    def _on_console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(one in text for one in self.expected):
            self.wrong.append(text)

    def _on_dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _on_request(self, url: str) -> None:
        if urlsplit(url).scheme != "data" and urlsplit(url).netloc != urlsplit(self.entrance).netloc:
            self.elsewhere.append(url)

    def enter(self) -> Person:
        """Open the printed address, until the page is live."""
        self.page.goto(self.entrance)
        expect(self.page.locator("#link-state")).to_have_attribute("data-state", "ok")
        return self

    def open(self, route: str) -> Person:
        """Go to a page by its address, as a bookmark does, until it has its heading."""
        self.page.evaluate("(route) => { location.hash = route; }", route)
        expect(self.page.locator(f"main .at-{route.split('/')[1].partition('?')[0]} h1")).to_be_attached()
        return self

    def look(self, selector: str) -> Locator:
        """A place on the page."""
        return self.page.locator(selector)

    def cell(self, node: str, device: str) -> Locator:
        """The cell of a device in the grid."""
        return self.page.locator(f'.grid a[href$="/{node}/{device}"]')

    def number(self, key: str) -> int:
        """One of the fleet's numbers."""
        return int(self.look(f".n-{key} .value").inner_text().replace(",", ""))

    def state_of(self, node: str, device: str) -> str:
        """The state of a cell, as a screen reader is told."""
        return (self.cell(node, device).get_attribute("aria-label") or "").split(", ")[1]

    def faults(self, axe: Path) -> list[str]:
        """What axe-core has against the page as it is now."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(axe.read_text())
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']} ({one['impact']}): {one['help']}: {json.dumps([each['target'] for each in one['nodes']][:3])}"
            for one in found["violations"]
        ]

    def leave(self) -> None:
        """As if nobody had been there: nothing kept, nothing routed, nothing noted, no page."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.context.clear_cookies()
        self.page.goto("about:blank")
        self.expected, self.wrong, self.elsewhere = [_EXPECTED], [], []

    def check(self) -> None:
        """Nothing went wrong, nothing was asked of anybody else, the policy was kept."""
        assert self.wrong == []
        assert self.elsewhere == []
        assert self.page.evaluate("() => window.violations") == []


@contextmanager
def person(browser: Browser, entrance: str, look: dict[str, Any] = LIGHT) -> Iterator[Person]:
    """Left: `check` held."""
    context = browser.new_context(**look, reduced_motion="reduce")
    context.set_default_timeout(1000 * PATIENCE)
    try:
        one = Person(context.new_page(), entrance)
        yield one
        one.check()
    finally:
        context.close()
