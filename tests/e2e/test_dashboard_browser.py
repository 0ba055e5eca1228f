"""What people do with the dashboard, done in a real Chromium.

The fleet is that of tests/dashboard/fleet_script.py: Dray's API server, scheduler, controllers and dashboard in this
process; kubelets and drivers are played. test_dashboard_node.py opens it on a real node.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, expect

from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.apiserver.http.server import Address
from dray.client.requests import DeleteOptions
from dray.processes.apiserver import ApiServerOptions, api_server
from tests.dashboard import small_fleet as objects
from tests.dashboard.fleet_script import make
from tests.e2e.dashboard_person import Person, person
from tests.e2e.dashboard_world import World

AT_ONCE = DeleteOptions(grace_period=0)
"""No kubelet is there that would end a pod."""
pytest_plugins = ("tests.e2e.dashboard_fixtures",)


def test_the_printed_address_logs_in_and_leaves_no_token(browser: Browser, world: World) -> None:
    with person(browser, world.entrance) as one:
        one.enter()
        assert one.page.url.endswith("/#/fleet")
        assert world.shown.at.token not in one.page.evaluate(
            "() => JSON.stringify([history.state, document.cookie, {...localStorage}])"
        )
        one.page.reload()
        expect(one.look(".row").first).to_be_visible()


def test_without_a_token_one_is_asked_for(browser: Browser, world: World) -> None:
    with person(browser, world.entrance) as stranger:
        stranger.page.goto(world.shown.at.url)
        token = stranger.page.get_by_label("Token")
        token.fill("wrong")
        token.press("Enter")
        expect(stranger.look(".login .error")).not_to_be_empty()
        token.fill(world.shown.at.token)
        stranger.page.get_by_role("button", name="Log in").click()
        expect(stranger.look(".row").first).to_be_visible()


def test_find_a_free_gpu(visitor: Person) -> None:
    expect(visitor.cell("gpu-a", "gpu-5")).to_be_visible()
    visitor.page.get_by_label("State").select_option("free")
    visitor.page.get_by_label("Search nodes").fill("gpu-a")
    expect(visitor.cell("gpu-a", "gpu-5")).to_have_count(0)  # is not healthy
    expect(visitor.cell("gpu-a", "gpu-6")).to_have_count(0)  # is tainted
    expect(visitor.look(".row")).to_have_count(1)
    shown = visitor.look(".row .cell").count()
    expect(visitor.look("#found")).to_have_text(f"{shown} devices on 1 node")
    visitor.look(".row .cell a").first.click()
    expect(visitor.page.get_by_role("heading", level=1)).to_contain_text("free")
    visitor.page.go_back()
    expect(visitor.page.get_by_label("Search nodes")).to_have_value("gpu-a")


def test_see_who_holds_one(visitor: Person) -> None:
    visitor.page.get_by_label("Search nodes").fill("team-a/pair-0")
    expect(visitor.look(".row .cell")).to_have_count(2)
    visitor.look(".row .cell a").first.hover()
    expect(visitor.look(".card")).to_contain_text("held by claim team-a/pair for pod team-a/pair-0")
    visitor.look(".row .cell a").first.click()
    visitor.look("dl.facts").first.get_by_role("link", name="team-a/pair", exact=True).click()
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text(re.compile("team-a/pair reserved"))
    expect(visitor.look("dl.facts")).to_contain_text("team-a/pair-0")


def test_see_why_a_claim_is_pending(visitor: Person) -> None:
    visitor.look(".n-pendingClaims").click()
    visitor.page.get_by_role("link", name="why? team-a/dream is pending").click()
    expect(visitor.look(".verdict")).to_have_text(re.compile(r"does not fit on any of \d+ nodes"))
    expect(visitor.look(".ways")).to_contain_text("NVIDIA B300")
    expect(visitor.look(".miss").first).to_contain_text("is false")
    funnel = visitor.look(".funnel").first
    assert _numbers(funnel.locator("ol").inner_text()) != []
    visitor.look("#funnel-node").select_option(label="gpu-a")
    rows = funnel.locator("li:not(.end)")
    expect(rows.first).to_contain_text("9 devices")  # its eight, and one in the network
    expect(rows.nth(1)).to_contain_text("1 is not of the class")
    expect(rows.nth(2)).to_contain_text("8 do not match the selector")
    expect(funnel.locator(".end")).to_have_text("0 left; 1 wanted")


def _numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", text)]


def test_see_why_a_pod_is_pending(visitor: Person) -> None:
    visitor.open("#/pods?state=pending")
    expect(visitor.look("tbody tr")).to_have_count(1)
    visitor.page.get_by_role("link", name="team-a/dreamer", exact=True).click()
    expect(visitor.look(".verdict")).to_contain_text("does not fit")


def test_read_the_story_of_a_device(visitor: Person) -> None:
    visitor.page.get_by_label("Search nodes").fill("team-a/train-0")
    visitor.look(".row .cell a").first.click()
    story = visitor.look(".story")
    expect(story.locator(".step.prepared")).to_be_visible()
    stages = story.locator(".step strong").all_inner_texts()
    assert [one for one in stages if one in ("published", "allocated", "prepared")] == [
        "published",
        "allocated",
        "prepared",
    ]
    expect(story.locator(".gap").first).to_have_text(re.compile(r"\+ [\d.]+ \w+"))
    expect(story.locator(".step.prepared")).to_contain_text("team-a/train-0")
    when = story.locator(".step.published time")
    when.focus()
    shown = when.evaluate("(one) => getComputedStyle(one, '::after').content")
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown), shown


def test_a_node_as_a_picture(visitor: Person) -> None:
    visitor.look(".node a").filter(has_text="gpu-b").click()
    picture = visitor.page.get_by_role("group", name="Topology of node gpu-b")
    expect(picture.get_by_role("group", name="NUMA node 0")).to_be_visible()
    expect(picture.get_by_role("group", name="PCIe root pci0000:10")).to_be_visible()
    expect(picture.get_by_role("link")).to_have_count(16)  # four GPUs of three partitions each
    visitor.page.get_by_role("button", name="Show 12 partitions").click()
    expect(visitor.look("tbody tr").filter(has_text="└")).to_have_count(12)
    picture.get_by_role("link", name=re.compile("^gpu-3 ")).click()
    expect(visitor.page.get_by_role("heading", level=1)).to_contain_text("gpu-3")


def test_a_gpu_that_can_be_cut_in_many_ways(visitor: Person, world: World) -> None:
    whole = objects.gpu(0)
    own = {"parent": {"string": "gpu-0"}, "profile": {"string": "1g.18gb"}}
    parts = [
        whole | {"name": f"gpu-0-part-{number}", "attributes": whole["attributes"] | own}
        for number in range(12)
    ]
    world.do(make(world.shown.client, RESOURCE_SLICES, objects.slice_of("many", [whole, *parts])))
    rest = visitor.page.get_by_role("link", name="+12 partitions of gpu-0, 12 of them free")
    expect(rest).to_have_text("+12")
    visitor.open("#/nodes/many")
    expect(visitor.page.get_by_role("link", name="1g.18gb 12/12 free, partitions of gpu-0")).to_be_visible()
    visitor.open("#/fleet?q=many")
    rest.click()
    visitor.page.get_by_text("12 partitions, 12 free").click()
    visitor.page.get_by_role("link", name="gpu-0-part-11").click()
    expect(visitor.look("dl.facts").first).to_contain_text("1g.18gb")
    world.do(world.shown.client.delete(RESOURCE_SLICES, "many-devices"))
    visitor.open("#/fleet")
    expect(visitor.look(".node a").filter(has_text="many")).to_have_count(0)


def test_who_has_what_a_whole_gpu_needs(visitor: Person, world: World) -> None:
    async def held() -> tuple[str, str]:
        for claim in (await world.shown.client.list(RESOURCE_CLAIMS)).items:
            results = claim.status.allocation.devices.results if claim.status.allocation else ()
            for one in results:
                if claim.metadata.name.startswith("serve-0"):
                    return one.pool, one.device
        raise AssertionError("serve-0 has no partition")

    pool, part = world.do(held())
    whole = "-".join(part.split("-")[:2])
    visitor.open(f"#/devices/{objects.DRIVER}/{pool}/{whole}")
    facts = visitor.look("dl.facts").first
    expect(facts).to_contain_text(f"no claim of its own: what it needs is held by {part}")
    facts.get_by_role("link", name=part, exact=True).click()
    expect(visitor.look("dl.facts").first).to_contain_text("team-a/serve-0")


def test_what_if(visitor: Person, world: World) -> None:
    async def claims() -> list[str]:
        listing = await world.shown.client.list(RESOURCE_CLAIMS)
        return [one.metadata.uid for one in listing.items]

    before = world.do(claims())
    visitor.open("#/whatif")
    visitor.page.get_by_label("How many").fill("1000")
    visitor.page.get_by_role("button", name="Try it").click()
    expect(visitor.look(".result .verdict")).to_have_text(re.compile(r"^\d+ of 1000 fit\."))
    expect(visitor.look(".result")).to_contain_text("Runs out:")
    assert world.do(claims()) == before


def test_what_if_shows_the_line_of_an_error(visitor: Person) -> None:
    visitor.expected.append("status of 422")  # the browser notes every such answer
    visitor.open("#/whatif")
    text = visitor.page.get_by_label("Manifests")
    text.fill("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: [}\n")
    text.press("Control+Enter")
    expect(visitor.look("#manifests-error")).to_contain_text("Line 3, column")
    expect(visitor.look(".line-numbers .wrong")).to_have_text("3")
    assert (
        text.evaluate("(one) => one.value.slice(one.selectionStart, one.selectionEnd)")
        == "metadata: {name: [}"
    )


def test_changes_arrive_without_a_reload(visitor: Person, world: World) -> None:
    visitor.page.evaluate("() => { window.same = true; window.shifts = 0; }")
    held, name = visitor.number("held"), "late-0"
    client = world.shown.client
    world.do(make(client, RESOURCE_CLAIM_TEMPLATES, objects.template("late", objects.request(objects.WHOLE))))
    world.do(make(client, PODS, objects.pod(name, templates={"gpu": "late"})))
    expect(visitor.look(".n-held .value")).to_have_text(str(held + 1))
    visitor.open("#/events?q=late-0")
    expect(visitor.look(".events-list")).to_contain_text("DevicePrepared")
    visitor.open("#/pods?q=late-0")
    expect(visitor.look("tbody tr")).to_contain_text(["running"])
    world.do(client.delete(PODS, name, namespace=objects.NS, options=AT_ONCE))
    expect(visitor.look("tbody tr")).to_have_count(0)
    visitor.open("#/fleet")
    expect(visitor.look(".n-held .value")).to_have_text(str(held))
    assert visitor.page.evaluate("() => window.same")
    assert visitor.page.evaluate("() => window.shifts") < 0.01


def test_events_can_be_paused(visitor: Person, world: World) -> None:
    visitor.open("#/events")
    rows = visitor.look(".events-list li")
    expect(rows.first).to_be_visible()
    visitor.page.get_by_role("button", name="Pause").click()
    before = rows.count()
    world.do(
        make(world.shown.client, RESOURCE_CLAIMS, objects.claim("paused", objects.request(objects.WHOLE)))
    )
    world.do(make(world.shown.client, PODS, objects.pod("paused-0", claims={"gpu": "paused"})))
    expect(visitor.look(".found")).to_contain_text("waiting")
    assert rows.count() == before
    visitor.page.get_by_role("button", name="Go on").click()
    expect(visitor.look(".events-list")).to_contain_text("paused-0")
    world.do(world.shown.client.delete(PODS, "paused-0", namespace=objects.NS, options=AT_ONCE))


def test_what_device_plugins_serve_is_shown_too(visitor: Person) -> None:
    visitor.page.get_by_label("Search nodes").fill("fpga")
    cell = visitor.page.get_by_role("link", name="fpga 2/3 in use, dray.internal/fpga of a device plugin")
    cell.click()
    expect(visitor.look("tbody").first).to_contain_text("dray.internal/fpga")


def test_log_out(browser: Browser, world: World) -> None:
    with person(browser, world.entrance) as one:
        one.enter()
        one.look("#help").click()
        one.page.get_by_role("button", name="Log out", exact=True).click()
        expect(one.page.get_by_label("Token")).to_be_visible()


def test_keyboard_alone(visitor: Person) -> None:
    keys = visitor.page.keyboard
    focused = visitor.page.locator(":focus")
    keys.press("Tab")
    expect(focused).to_have_text("Skip to the content")
    keys.press("Enter")
    expect(visitor.look("main")).to_be_focused()
    keys.press("/")
    keys.type("gpu-a")
    expect(visitor.look(".row")).to_have_count(1)
    for _ in range(4):
        keys.press("Tab")
    expect(focused).to_have_text("gpu-a")
    keys.press("ArrowRight")
    expect(focused).to_have_attribute("aria-label", re.compile("^gpu-0, "))
    expect(visitor.look(".card")).to_be_visible()
    keys.press("End")
    expect(focused).to_have_attribute("aria-label", re.compile("^fpga 2/3 in use"))
    keys.press("ArrowLeft")
    expect(focused).to_have_attribute("aria-label", re.compile("^gpu-7, "))
    keys.press("Enter")
    expect(visitor.page.get_by_role("heading", level=1)).to_contain_text("gpu-7")
    keys.press("?")
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    expect(visitor.page.get_by_role("dialog")).to_be_hidden()
    keys.press("g")
    keys.press("c")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Claims")


def test_keys_move_in_the_grid_beyond_what_is_drawn(visitor: Person) -> None:
    focused = visitor.page.locator(":focus")
    visitor.cell("gpu-a", "gpu-1").focus()
    visitor.page.keyboard.press("ArrowDown")
    expect(focused).to_have_attribute("href", re.compile("/gpu-b/"))
    visitor.page.keyboard.press("Control+End")
    last = visitor.look(".grid").get_attribute("aria-rowcount")
    assert focused.evaluate("(one) => one.closest('.row').getAttribute('aria-rowindex')") == last
    visitor.page.keyboard.press("Control+Home")
    assert focused.evaluate("(one) => one.closest('.row').getAttribute('aria-rowindex')") == "1"
    assert visitor.look('.grid a[tabindex="0"]').count() == 1


def test_a_lost_connection_is_said_and_mended(browser: Browser, world: World, tmp_path: Path) -> None:
    token = tmp_path / "token"
    page = browser.new_page()
    with world.inside(lambda: world.another_dashboard(token)) as at:
        page.goto(at.entrance)
        expect(page.locator("#link-state")).to_have_text("Live")
    expect(page.locator("#banner")).to_contain_text("Connection lost")
    port = int(at.url.rpartition(":")[2])
    with world.inside(lambda: world.another_dashboard(token, port)):
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("#link-state")).to_have_text("Live")
        page.close()


def test_a_cluster_that_is_away_is_said(browser: Browser, world: World, tmp_path: Path) -> None:
    with ExitStack() as stack:
        options = ApiServerOptions(tmp_path / "data", Address(port=0))
        with world.inside(lambda: api_server(options)) as server:
            at = stack.enter_context(
                world.inside(lambda: world.another_dashboard(tmp_path / "token", 0, server.kubeconfig))
            )
            one = stack.enter_context(person(browser, at.entrance)).enter()
            expect(one.look(".empty")).to_contain_text("dray up --sim")
        expect(one.look("#banner")).to_contain_text("The cluster has not answered since")
        expect(one.look("#link-state")).to_have_text("Cluster away")
