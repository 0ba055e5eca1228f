"""`dray kubelet` in one process, with pods from a directory, plain processes as containers and our own agent's devices."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.errors import InvalidError
from dray.processes.agent import AgentOptions, run_agent
from dray.processes.kubelet import PROCESS, KubeletOptions, run_kubelet
from dray.runtime.tasks import running
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginRegistrationClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import RegisterRequest
from dray.wire.gen.podresources_v1_pb2 import ListPodResourcesRequest
from dray.wire.podresources import SOCKET, PodResourcesClient
from tests.kubelet.plugins.real_plugin import Plugin
from tests.processes.kubelet_program import options
from tests.waiting import wait_until

Json = dict[str, Any]
GPU = "example.com/gpu"


@dataclass
class Pods:
    """The manifests a kubelet follows, and the statuses it writes."""

    root: Path

    def put(self, name: str, *containers: Json, **spec: Any) -> None:
        made = [{"image": "none"} | one for one in containers]
        inits = [{"image": "none"} | one for one in spec.pop("inits", ())]
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": made, "initContainers": inits, "terminationGracePeriodSeconds": 2, **spec},
        }
        (self.root / "manifests" / f"{name}.json").write_text(json.dumps(document))

    def drop(self, name: str) -> None:
        (self.root / "manifests" / f"{name}.json").unlink()

    def status(self, name: str) -> Json:
        path = self.root / "state/status" / f"default_{name}.json"
        found: Json = json.loads(path.read_text())["status"] if path.exists() else {}
        return found

    def log(self, name: str, container: str, attempt: int = 0) -> list[str]:
        """Lines as the container wrote them."""
        (path,) = (self.root / "logs").glob(f"default_{name}_*/{container}/{attempt}.log")
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]

    async def until(self, name: str, condition: Callable[[Json], Any]) -> Json:
        async with asyncio.timeout(60):
            while not condition(status := self.status(name)):
                await asyncio.sleep(0.02)
            return status

    async def phase(self, name: str, phase: str) -> Json:
        return await self.until(name, lambda status: status.get("phase") == phase)


def script(name: str, text: str, **more: Any) -> Json:
    return {"name": name, "command": ["sh", "-c", text], **more}


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    (tmp_path / "manifests").mkdir()
    return Pods(tmp_path)


@asynccontextmanager
async def kubelet(pods: Pods) -> AsyncIterator[None]:
    async with running(run_kubelet(options(pods.root)), name="kubelet", stop_timeout=20):
        yield


@asynccontextmanager
async def agent(root: Path, count: int = 2) -> AsyncIterator[None]:
    config = root / "agent.json"
    sim = {"devices": [{"name": "gpu", "count": count, "resourceName": GPU}]}
    config.write_text(json.dumps({"dray": {"sim": sim}}))
    given = AgentOptions(
        config,
        kubelet_dir=root / "kubelet",
        device_plugin_dir=root / "kubelet/device-plugins",
        state_dir=root / "agent",
    )
    async with running(run_agent(given), name="agent", stop_timeout=20):
        yield


async def test_a_pod_runs_to_its_end(pods: Pods) -> None:
    environment = [{"name": "WHO", "value": "world"}, {"name": "HELLO", "value": "hello $(WHO)"}]
    pods.put("p", script("a", "echo $HELLO", env=environment), restartPolicy="Never")
    async with kubelet(pods):
        status = await pods.phase("p", "Succeeded")
        assert pods.log("p", "a") == ["hello world"]
        (container,) = status["containerStatuses"]
        assert container["state"]["terminated"]["reason"] == "Completed"
        assert container["containerID"].startswith("process-without-isolation://")


async def test_a_failure_is_told_with_its_code(pods: Pods) -> None:
    pods.put("p", script("a", "exit 3"), restartPolicy="Never")
    async with kubelet(pods):
        status = await pods.phase("p", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_init_containers_come_first_and_sidecars_end_last(pods: Pods) -> None:
    trace = pods.root / "trace"
    side = (
        f"trap 'echo side ends >> {trace}; exit 0' TERM; echo side >> {trace}; while :; do sleep 0.05; done"
    )
    pods.put(
        "p",
        script("a", f"echo main >> {trace}; sleep 0.2; echo main ends >> {trace}"),
        inits=[script("side", side, restartPolicy="Always"), script("i", f"sleep 0.1; echo init >> {trace}")],
        restartPolicy="Never",
    )
    async with kubelet(pods):
        await pods.phase("p", "Succeeded")
    assert trace.read_text().splitlines() == ["side", "init", "main", "main ends", "side ends"]


async def test_a_container_that_fails_is_restarted_and_then_waits(pods: Pods) -> None:
    pods.put("p", script("a", "echo run; exit 1"))
    async with kubelet(pods):

        def waits(status: Json) -> bool:
            (container,) = status.get("containerStatuses") or [{}]
            return bool(container.get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff")

        status = await pods.until("p", waits)
        (container,) = status["containerStatuses"]
        assert (status["phase"], container["restartCount"]) == ("Running", 1)
        assert container["lastState"]["terminated"]["exitCode"] == 1
        assert (pods.log("p", "a", 0), pods.log("p", "a", 1)) == (["run"], ["run"])


async def test_a_pod_that_goes_is_stopped_with_grace(pods: Pods) -> None:
    trace = pods.root / "trace"
    pods.put("p", script("a", f"trap 'echo asked >> {trace}; exit 0' TERM; while :; do sleep 0.05; done"))
    async with kubelet(pods):
        await pods.phase("p", "Running")
        pods.drop("p")
        await wait_until(lambda: not list((pods.root / "state/records").glob("*.json")))
    assert trace.read_text() == "asked\n"


async def test_a_command_that_cannot_start_names_the_reason(pods: Pods) -> None:
    pods.put("p", {"name": "a", "command": ["/nothing/there"]}, restartPolicy="Never")
    pods.put(
        "q",
        script("a", "true", env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]),
    )
    async with kubelet(pods):
        status = await pods.phase("p", "Failed")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] in (127, 128)
        status = await pods.until("q", lambda found: found.get("containerStatuses"))
        waiting = status["containerStatuses"][0]["state"]["waiting"]
        assert (waiting["reason"], waiting["message"]) == (
            "CreateContainerConfigError",
            'configmap "c" not found',
        )


async def test_devices_wait_for_their_plugin_and_reach_the_container(pods: Pods) -> None:
    limits = {"limits": {GPU: "2"}}
    pods.put("p", script("a", "echo $SIM_RESOURCE_EXAMPLE_COM_GPU; sleep 1000", resources=limits))
    async with kubelet(pods):
        status = await pods.until("p", lambda found: found.get("containerStatuses"))
        waiting = status["containerStatuses"][0]["state"]["waiting"]
        assert waiting["message"] == f"no device plugin has registered {GPU} with this node"
        async with agent(pods.root):
            status = await pods.phase("p", "Running")
            (held,) = status["containerStatuses"][0]["allocatedResourcesStatus"]
            assert held == {
                "name": GPU,
                "resources": [
                    {"resourceID": "gpu-0", "health": "Healthy"},
                    {"resourceID": "gpu-1", "health": "Healthy"},
                ],
            }
            async with connect(pods.root / "kubelet" / SOCKET) as channel:
                answer = await PodResourcesClient(channel).list(ListPodResourcesRequest())
            (pod,) = answer.pod_resources
            ids = sorted(one for each in pod.containers[0].devices for one in each.device_ids)
            assert ids == ["gpu-0", "gpu-1"]
            pods.put("late", script("a", "sleep 1000", resources=limits))
            await pods.until("late", lambda found: found.get("containerStatuses"))
            message = pods.status("late")["containerStatuses"][0]["state"]["waiting"]["message"]
            assert "requested number of devices unavailable for example.com/gpu" in message
            pods.drop("p")
            await pods.phase("late", "Running")
            pods.drop("late")
            await pods.until("late", lambda found: found["phase"] != "Running")


async def test_the_next_kubelet_takes_over_what_runs(pods: Pods) -> None:
    pods.put("p", script("a", "echo $$$$; exec sleep 1000"))
    async with kubelet(pods):
        await pods.phase("p", "Running")
        await wait_until(lambda: pods.log("p", "a"))
    (pid,) = map(int, pods.log("p", "a"))
    os.kill(pid, 0)
    status = pods.root / "state/status/default_p.json"
    status.unlink()
    async with kubelet(pods):
        await wait_until(status.exists)
        os.kill(pid, signal.SIGKILL)
        found = await pods.until("p", lambda found: found["containerStatuses"][0].get("restartCount") == 1)
        assert found["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
        pods.drop("p")
        await wait_until(lambda: not list((pods.root / "state/records").glob("*.json")))


async def test_without_a_source_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="give --kubeconfig, --manifests DIRECTORY or -f FILE"):
        await run_kubelet(
            KubeletOptions(
                runtime=PROCESS,
                root_dir=tmp_path / "k",
                device_plugin_dir=tmp_path / "k/d",
                state_dir=tmp_path / "s",
                log_dir=tmp_path,
            )
        )


async def test_a_plugin_that_thinks_for_long_keeps_back_its_own_pods_alone(pods: Pods) -> None:
    plugins = pods.root / "kubelet/device-plugins"
    slow, quick = Plugin(hang="allocate"), Plugin()
    one = {"resources": {"limits": {"example.com/slow": "1"}}}
    other = {"resources": {"limits": {"example.com/quick": "1"}}}
    async with kubelet(pods), AsyncExitStack() as stack:
        await wait_until((plugins / "kubelet.sock").exists)  # the sockets of before are gone by then
        await stack.enter_async_context(slow.serving(plugins / "slow"))
        await stack.enter_async_context(quick.serving(plugins / "quick"))
        for name in ("slow", "quick"):
            request = RegisterRequest(version="v1beta1", endpoint=name, resource_name=f"example.com/{name}")
            async with connect(plugins / "kubelet.sock", wait=10) as channel:
                await DevicePluginRegistrationClient(channel).register(request)
        pods.put("held", script("a", "sleep 1000", **one))
        await wait_until(lambda: "allocate" in slow.calls)
        pods.put("next", script("a", "sleep 1000", **one))
        pods.put("free", script("a", "sleep 1000", **other))
        await pods.phase("free", "Running")
        assert slow.calls.count("allocate") == 1, "pods of one resource come one after the other"
        # One that goes while the plugin still thinks leaves nothing behind, and the next one has its turn.
        pods.drop("held")
        pods.put("later", script("a", "sleep 1000"))
        await pods.phase("later", "Running")  # so what went before it was seen too
        slow.allocating.set()
        await pods.phase("next", "Running")
        for name in ("next", "free", "later"):
            pods.drop(name)
        await wait_until(lambda: not list((pods.root / "state/records").glob("*.json")))
