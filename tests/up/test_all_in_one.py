"""Everything in one process: pods with devices run, and all is there again after a stop."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dray.api.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.api.scheduling import POD_GROUPS
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import ConflictError, InvalidError, UnavailableError
from dray.up.all_in_one import UpOptions, devices_told, up
from dray.up.choice import free_port
from dray.up.place import RunningUp, UpPlace
from tests.processes.small_disk import small_disk
from tests.up.up_program import DRAY, UpProgram, dray
from tests.waiting import PATIENCE, until

Json = dict[str, Any]
NAMES = ("by-claim", "by-plugin", "by-resource")
PROFILE = """
local:
  devices:
  - {name: gpu, count: 2}
  - {name: old, count: 2, resourceName: example.com/gpu}
"""


@contextmanager
def started(*flags: str) -> Iterator[UpProgram]:
    directory = Path(tempfile.mkdtemp(prefix="dray-"))
    profile = directory / "two.yaml"
    profile.write_text(PROFILE)
    made = UpProgram(UpPlace(directory / "up"), ("--runtime", "process", "--sim", str(profile), *flags))
    try:
        made.start()
        yield made
    finally:
        made.end()
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def program() -> Iterator[UpProgram]:
    """One for the tests that leave it running: a start takes a second or two."""
    with started() as made:
        yield made


@asynccontextmanager
async def client_of(program: UpProgram) -> AsyncIterator[Client]:
    async with Client(find_access(program.place.kubeconfig)) as client:
        yield client


def pod(name: str, resources: Json, **spec: Any) -> Json:
    command = ["sh", "-c", f"echo {name} runs; exec sleep 1000"]
    container = {"name": "main", "image": "none", "command": command, "resources": resources}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


async def wait_running(client: Client, *names: str) -> dict[str, str]:
    """The containers' ids by pod."""
    found: dict[str, str] = {}

    async def are_running() -> bool:
        for one in (await client.list(PODS)).items:
            if one.status.phase == "Running":
                found[one.metadata.name] = one.status.container_statuses[0].container_id
        return found.keys() >= set(names)

    try:
        await until(are_running)
    except TimeoutError:
        pytest.fail(str([one.status for one in (await client.list(PODS)).items]))
    return found


async def add_template(client: Client) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "sim.dray.internal"}}
    template = {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace="default")


async def run_pods(client: Client) -> dict[str, str]:
    """Three pods, a device each: by claim, by plugin and by extended resource. Return their containers' ids."""
    await add_template(client)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    by_claim = pod("by-claim", {"claims": [{"name": "gpu"}]}, resourceClaims=claims)
    by_plugin = pod("by-plugin", {"limits": {"example.com/gpu": "1"}}, schedulerName="dray")
    by_resource = pod("by-resource", {"limits": {"dray.internal/sim-gpu": "1"}})
    for one in (by_claim, by_plugin, by_resource):
        await client.create(PODS, one, namespace="default")
    return await wait_running(client, *NAMES)


async def test_pods_get_devices_through_both_doors_under_both_schedulers(program: UpProgram) -> None:
    async with client_of(program) as client:
        await run_pods(client)
        node = await client.get(NODES, program.place.read(RunningUp).node)  # type: ignore[union-attr]
        assert str(node.status.capacity["example.com/gpu"]) == "2"
        assert (await client.get(DEVICE_CLASSES, "sim.dray.internal")).spec.selectors


def test_the_picture_says_what_there_is_and_what_to_do(program: UpProgram) -> None:
    known = program.place.read(RunningUp)
    assert known is not None
    for text in (
        f"node         {known.node}",
        "4 sim",
        f"profile {known.sim}: these devices and nodes do not exist",
        "process: plain processes of this machine, not isolated from it",
        str(program.place.kubeconfig),
        f"https://127.0.0.1:{program.port}",
        f"{known.dashboard} (token: {program.place.dashboard_token})",
        f"dray get devices --data-dir {program.place.data_dir}",
        "Ctrl-C ends it.",
    ):
        assert text in program.out, text
    assert "level=info" not in program.err
    assert known.supervisor == "" and known.runtime == "process" and known.sim.endswith("two.yaml")


def test_its_files_are_for_its_user_alone(program: UpProgram) -> None:
    place = program.place
    assert place.data_dir.stat().st_mode & 0o777 == 0o700
    for path in (place.kubeconfig, place.dashboard_token, place.running_file, place.kept_file):
        assert path.stat().st_mode & 0o777 == 0o600, path
    token = place.dashboard_token.read_text().strip()
    assert token not in place.running_file.read_text()


def test_a_second_one_is_refused_with_who_has_the_directory(program: UpProgram) -> None:
    known = program.place.read(RunningUp)
    assert known is not None
    for more in ((), ("--detach",)):
        second = dray("up", *program.flag, *more)
        assert second.returncode == 1 and second.stdout == ""
        assert f"process {known.pid}" in second.stderr and "--data-dir" in second.stderr
        assert len(second.stderr.splitlines()) == 1
    assert program.place.read(RunningUp) == known


def test_the_status_is_told(program: UpProgram) -> None:
    shown = dray("status", *program.flag)
    assert shown.returncode == 0 and "runs since" in shown.stdout and "none: it ends with" in shown.stdout
    found = json.loads(dray("status", *program.flag, "-o", "json").stdout)
    assert found["state"] == "running" and found["healthy"] is True
    assert found["parts"] == dict.fromkeys(
        ("API server", "agent", "controllers", "kubelet", "scheduler"), "ok"
    )
    assert found["counts"]["nodes"] == {"Ready": 1} and found["counts"]["devices"]["published"] == 2
    assert found["running"]["pid"] and found["supervisor"] is None


def test_the_dashboard_answers_with_a_token_only(program: UpProgram) -> None:
    known = program.place.read(RunningUp)
    assert known is not None

    def ask(headers: dict[str, str]) -> int:
        connection = http.client.HTTPConnection(urlsplit(known.dashboard).netloc, timeout=60)
        try:
            connection.request("GET", "/api/fleet", headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    token = program.place.dashboard_token.read_text().strip()
    assert ask({}) == 401
    assert ask({"Authorization": f"Bearer {token}"}) == 200


@pytest.fixture
def own_program() -> Iterator[UpProgram]:
    with started() as made:
        yield made


async def test_after_a_stop_and_a_start_all_is_as_before(own_program: UpProgram) -> None:
    """Ports and names stay, and containers go on as if nothing had happened."""
    program = own_program
    before = program.place.read(RunningUp)
    assert before is not None
    async with client_of(program) as client:
        containers = await run_pods(client)
    assert program.stop() == 0
    assert "lost" not in program.err, "who stopped it wants no warnings about it"
    assert not program.place.running_file.exists()
    stopped = await asyncio.to_thread(dray, "status", *program.flag)
    assert stopped.returncode == 1 and "does not run" in stopped.stdout
    after = program.start()
    assert (after.server, after.dashboard, after.node) == (before.server, before.dashboard, before.node)
    async with client_of(program) as client:
        assert await wait_running(client, *NAMES) == containers
    down = await asyncio.to_thread(dray, "down", *program.flag)
    assert down.returncode == 0 and "3 containers go on" in down.stdout
    ended = await asyncio.to_thread(dray, "down", "--all", *program.flag)
    assert "does not run" in ended.stdout and "3 containers were ended." in ended.stdout


@pytest.fixture
def program_with_groups() -> Iterator[UpProgram]:
    with started("--feature-gates", "DRAWorkloadResourceClaims=true") as made:
        yield made


async def test_the_pods_of_a_group_run_with_its_claim(program_with_groups: UpProgram) -> None:
    """The gate is on in every part: the claim is made and reserved for the group, and the kubelet prepares it for its pods."""
    async with client_of(program_with_groups) as client:
        await add_template(client)
        entry = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
        spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]}
        await client.create(POD_GROUPS, {"metadata": {"name": "g"}, "spec": spec}, namespace="default")
        for name in ("first", "second"):
            uses = {"claims": [{"name": "gpu"}]}
            member = pod(name, uses, resourceClaims=[entry], schedulingGroup={"podGroupName": "g"})
            await client.create(PODS, member, namespace="default")
        await wait_running(client, "first", "second")
        (claim,) = (await client.list(RESOURCE_CLAIMS)).items
        assert [(one.resource, one.name) for one in claim.status.reserved_for] == [("podgroups", "g")]


async def test_what_is_wrong_with_the_options_is_told_before_anything_starts(short: Path) -> None:
    for options, text in (
        (UpOptions(short / "a", node_name="No Node"), "--node-name: 'No Node'"),
        (UpOptions(short / "a", sim="nonsense"), "--sim: there is no profile 'nonsense'"),
        (UpOptions(short / "a", runtime="docker"), "--runtime 'docker'"),
        (UpOptions(Path("/tmp/" + "x" * 80)), "choose a shorter one"),
    ):
        with pytest.raises(InvalidError, match=text):
            async with up(options):
                pytest.fail("it started")


async def test_a_port_that_is_taken(short: Path) -> None:
    with pytest.raises(UnavailableError, match=r"192\.0\.2\.77"):
        async with up(UpOptions(short / "a", Address("192.0.2.77", free_port()))):
            pytest.fail("it started")


async def test_a_directory_that_another_uses_in_this_very_process(short: Path) -> None:
    options = UpOptions(short / "a", Address("127.0.0.1", 0), runtime="process", dashboard=False)
    async with up(options) as known:
        assert known.dashboard == "" and known.devices
        with pytest.raises(ConflictError, match="another `dray up` has the data directory"):
            async with up(options):
                pytest.fail("it started")


async def test_a_full_disk_is_told(short: Path) -> None:
    async with small_disk(short / "disk", megabytes=1) as disk:
        disk.fill()
        words = (*disk.enter, *DRAY, "up", "--data-dir", str(disk.place / "up"), "--listen", "127.0.0.1:0")
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 3
    assert b"the disk is full" in err and len(err.decode().splitlines()) == 1, err


def test_devices_are_told_by_kind() -> None:
    assert devices_told(()) == ""


async def test_metrics_of_all_parts_can_be_for_who_has_the_token(short: Path) -> None:
    (token := short / "token").write_text("a-token-of-sixteen\n")
    address = Address("127.0.0.1", 0)
    options = UpOptions(short / "a", address, runtime="process", dashboard=False, metrics_token_file=token)
    right = {"Authorization": "Bearer a-token-of-sixteen"}
    async with up(options) as running:
        assert running.metrics.keys() == {"agent", "controllers", "kubelet", "scheduler"}
        for part, url in running.metrics.items():
            for headers, expected in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), (right, 200)):
                found = await asyncio.to_thread(_status, url, "/metrics", headers)
                assert found == expected, part
            assert await asyncio.to_thread(_status, url, "/healthz", {}) == 200, part


def _status(url: str, path: str, headers: dict[str, str]) -> int:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()
