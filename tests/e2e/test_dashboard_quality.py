"""The dashboard for everyone, everywhere: accessible, on a phone, dark, and safe with whatever objects say.

Kubelets and drivers are played, as in test_dashboard_browser.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dray.api.core import ObjectReference
from dray.api.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.event_recorder import EventRecorder
from dray.runtime.clock import SystemClock
from dray.testing.browser import Parts
from tests.dashboard import small_fleet as objects
from tests.dashboard.fleet_script import make
from tests.e2e.dashboard_person import DARK, LOOKS, PHONE, Person, person
from tests.e2e.dashboard_world import World
from tests.waiting import until

pytest_plugins = ("tests.e2e.dashboard_fixtures",)

PAGES = {
    "fleet": ("#/fleet", ".row"),
    "node": ("#/nodes/gpu-b", ".topology svg"),
    "device": ("", ".step.prepared"),  # the one that a pod got, see `_route`
    "claims": ("#/claims", "tbody tr"),
    "refusal": ("#/claims/team-a/big", ".funnel"),
    "pods": ("#/pods", "tbody tr"),
    "events": ("#/events", ".events-list li"),
    "whatif": ("#/whatif", "textarea"),
}
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
HOSTILE = "<img src=x onerror=window.pwned=1>"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A fleet with work on it: what is on its pages is in the pictures of the docs."""
    with World(tmp_path_factory.mktemp("busy")) as found:
        found.do(_load(found))
        yield found


async def _load(world: World) -> None:
    """Partitions first: whole GPUs would take what they are cut from."""
    for template, name, many in (("one-part", "serve", 4), ("one-gpu", "train", 26)):
        for number in range(1, many + 1):
            pod = objects.pod(f"{name}-{number}", templates={"gpu": template})
            await make(world.shown.client, PODS, pod)
        await until(partial(_is_running, world, f"{name}-{many}"))
    await make(world.shown.client, RESOURCE_CLAIMS, objects.claim("big", objects.request(objects.WHOLE, 7)))


async def _is_running(world: World, pod: str) -> bool:
    return (await world.shown.client.get(PODS, pod, namespace=objects.NS)).status.phase == "Running"


async def _route(world: World, pod: str) -> str:
    """The page of the device that a pod has."""
    claims = await world.shown.client.list(RESOURCE_CLAIMS)
    claim = next(one for one in claims.items if pod in [holder.name for holder in one.status.reserved_for])
    assert claim.status.allocation is not None
    result = claim.status.allocation.devices.results[0]
    return f"#/devices/{result.driver}/{result.pool}/{result.device}"


def _go(one: Person, world: World, name: str) -> None:
    route, sign = PAGES[name]
    one.open(route or world.do(_route(world, "serve-0")))
    expect(one.look(sign).first).to_be_visible()
    if name == "whatif":
        one.page.get_by_label("How many").fill("200")
        one.page.get_by_role("button", name="Try it").click()
        expect(one.look(".result .verdict")).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_in_the_way_of_anyone(
    browser: Browser, busy: World, browser_parts: Parts, look: str
) -> None:
    """Nor does a phone ever scroll sideways."""
    found = {}
    with person(browser, busy.entrance, LOOKS[look]) as one:
        one.enter()
        for name in PAGES:
            _go(one, busy, name)
            if faults := one.faults(browser_parts.axe):
                found[name] = faults
            if look == "phone":
                wide = one.page.evaluate("() => document.documentElement.scrollWidth")
                assert wide <= PHONE["viewport"]["width"], name
            if os.environ.get("DRAY_PICTURES"):
                _keep_picture(one.page, f"{name}-{look}.png")
        if look == "phone":
            _go(one, busy, "node")
            one.look(".topology a").first.tap()
            expect(one.look(".story")).to_be_visible()
        one.page.keyboard.press("Escape")
        one.look("#help").click()
        if faults := one.faults(browser_parts.axe):
            found["help"] = faults
    assert found == {}


def _keep_picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
    page.screenshot(path=PICTURES / name)


def test_the_login_is_accessible(browser: Browser, world: World, browser_parts: Parts) -> None:
    with person(browser, world.entrance) as one:
        one.page.goto(world.shown.at.url)
        expect(one.page.get_by_label("Token")).to_be_focused()
        assert one.faults(browser_parts.axe) == []


def test_a_refusal_names_who_holds_the_rest(browser: Browser, busy: World) -> None:
    with person(browser, busy.entrance) as one:
        one.enter()
        _go(one, busy, "refusal")
        taken = one.look(".funnel li").filter(has_text="are in use")
        expect(taken.get_by_role("link").first).to_be_hidden()
        taken.get_by_text("Who holds them").click()
        expect(taken.get_by_role("link", name="team-a/train-").first).to_be_visible()
        expect(one.look(".funnel .end")).to_have_text(
            re.compile(r"^\d+ left, at most \d on one node; 7 wanted$")
        )
        expect(one.look(".funnel")).to_contain_text("example.com/maintenance=fan:NoSchedule on 1")


def test_dark_by_the_system_and_by_choice(browser: Browser, world: World) -> None:
    def back(one: Person) -> int:
        colour = one.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    with person(browser, world.entrance, DARK) as one:
        one.enter()
        assert back(one) < 200
        button = one.look("#theme")
        button.click()
        expect(button).to_have_accessible_name("Colours: Light")
        assert back(one) > 600
        one.page.reload()
        expect(one.look(".row").first).to_be_visible()
        assert back(one) > 600
        button.click()
        assert back(one) < 200
        button.click()
        expect(button).to_have_accessible_name("Colours: Auto")


@pytest.fixture
def hostile(world: World) -> None:
    """Names are checked by the server; these texts are free."""
    client = world.shown.client

    async def write() -> None:
        device = objects.gpu(0, model=HOSTILE)
        evil = objects.slice_of("evil", [device])
        evil["metadata"]["name"] = "evil-devices"
        await make(client, RESOURCE_SLICES, evil)
        expression = f'device.attributes["{objects.DRIVER}"].model == "{HOSTILE}" && device.driver == "no"'
        claim = await make(client, RESOURCE_CLAIMS, objects.claim("evil", objects.request(expression)))
        recorder = EventRecorder(client, HOSTILE, SystemClock())
        about = ObjectReference(
            api_version=RESOURCE_CLAIMS.api_version, kind="ResourceClaim", namespace=objects.NS, name="evil", uid=claim.metadata.uid
        )  # fmt: skip
        recorder.tell(about, "Warning", "Evil", HOSTILE)
        await recorder.flush(5.0)

    world.do(write())


def test_what_objects_say_is_never_markup(visitor: Person, hostile: None) -> None:
    told = {
        "#/fleet?q=evil": ".row",
        "#/nodes/evil": "tbody",
        "#/devices/sim.dray.internal/evil/gpu-0": ".facts",
        "#/claims/team-a/evil": ".explanation .miss",
        "#/events?q=evil": ".events-list li",
    }
    for route, sign in told.items():
        visitor.open(route)
        expect(visitor.look(sign).first).to_be_visible()
        if not route.startswith("#/fleet"):
            expect(visitor.look("main")).to_contain_text(HOSTILE)
        assert visitor.look("main img").count() == 0
    visitor.open("#/fleet?q=evil")
    expect(visitor.cell("evil", "gpu-0")).to_have_accessible_name(re.compile(re.escape(HOSTILE)))
    visitor.cell("evil", "gpu-0").hover()
    expect(visitor.look(".card")).to_contain_text(HOSTILE)
    for route in ("#/nodes/%3Cimg src=x onerror=window.pwned=1%3E", "#/claims/a/%3Cimg%20src=x%3E"):
        visitor.expected.append("status of 404")
        visitor.open(route)
        assert visitor.look("main img").count() == 0
    assert visitor.page.evaluate("() => window.pwned") is None


def test_reduced_motion_and_forced_colours(browser: Browser, world: World) -> None:
    with person(browser, world.entrance) as one:
        one.page.emulate_media(forced_colors="active")
        one.enter()
        held = one.look(".mark.held").first.evaluate("(one) => getComputedStyle(one).color")
        free = one.look(".mark.free").first.evaluate("(one) => getComputedStyle(one).color")
        assert held != free
        assert (
            one.look(".bar span").first.evaluate("(one) => getComputedStyle(one).transitionDuration") == "0s"
        )
