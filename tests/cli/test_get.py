"""`dray get` against a real embedded API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.api.codec import load_documents
from dray.cli.main import main
from tests.cli.live_server import REFUSED, fill, live_server

Capsys = pytest.CaptureFixture[str]


def squeezed(line: str) -> str:
    return " ".join(line.split())


async def test_tables_for_people(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        head, lonely, train = map(squeezed, await server.out("get", "claims"))
        assert head == "NAME STATE CLASS DEVICES NODE POD AGE WHY"
        assert train.startswith("train reserved gpu gpu-0 node-1 job ") and train.endswith("s -")
        assert lonely.startswith("lonely pending gpu - - waits ") and lonely.endswith(REFUSED)

        assert [squeezed(line) for line in await server.out("get", "devices")] == [
            "NODE DRIVER DEVICE PRODUCT HEALTH HOLDER",
            "node-1 gpu.example.com gpu-0 A100 healthy default/job",
            "node-1 gpu.example.com gpu-2 H100 unhealthy free",
            "node-1 gpu.example.com gpu-10 H100 healthy free",
            "node-2 sim.dray.internal gpu-0 SimGPU-80 (simulated) tainted free",
        ]
        wide = [squeezed(line) for line in await server.out("get", "dev", "node-2/gpu-0", "-o", "wide")]
        assert wide[1].endswith("free node-2 - - fans=old:NoExecute")

        head, *nodes = map(squeezed, await server.out("get", "no"))
        assert head.startswith("NAME STATUS DEVICES NOT HEALTHY PODS AGE")
        assert nodes[0].startswith("node-1 Ready 1/3 held 1 0 ")
        assert nodes[1].startswith("node-2 Unknown 0/1 held 1 0 ")

        pods = [squeezed(line) for line in await server.out("get", "po")]
        assert pods[1].startswith("job 0/1 Pending 0 gpu-0 - "), "no tape yet"
        assert pods[2].endswith(REFUSED)
        slices = [squeezed(line) for line in await server.out("get", "slices")]
        assert slices[2].startswith("node-2-gpus node-2 sim.dray.internal node-2 1 3 ")
        assert squeezed((await server.out("get", "classes"))[1]).startswith(
            'gpu device.driver == "gpu.example.com" - 2 '
        )


async def test_kinds_by_all_their_names_and_those_of_the_server(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        for word in ("resourceclaims", "ResourceClaim", "claim", "resourceclaims.resource.k8s.io"):
            assert await server.out("get", word, "train", "-o", "name") == [
                "resourceclaim.resource.k8s.io/train"
            ]
        assert await server.out("get", "pod/job", "claim/train", "pods/waits", "-o", "name") == [
            "pod/job",
            "pod/waits",
            "resourceclaim.resource.k8s.io/train",
        ]
        deployment = tmp_path / "web.yaml"
        deployment.write_text(
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {tier: front}}, spec: {selector: {matchLabels: "
            "{a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: m, image: x}]}}}}"
        )
        await server.out("apply", "-f", str(deployment))
        head, row = await server.out("get", "deploy", "-A", "-l", "tier=front")
        assert head.split() == ["NAMESPACE", "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
        assert row.split()[:3] == ["default", "web", "0/1"]
        assert await server.out("get", "deployments.apps", "web", "-o", "name") == ["deployment.apps/web"]


async def test_documents_are_whole(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        one = json.loads("\n".join(await server.out("get", "pod", "job", "-o", "json")))
        assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == ("Pod", "v1", "job")
        every = json.loads("\n".join(await server.out("get", "pods,claims", "-o", "json")))
        assert every["kind"] == "List"
        assert [item["kind"] for item in every["items"]] == ["Pod", "Pod", "ResourceClaim", "ResourceClaim"]
        (first,) = load_documents("\n".join(await server.out("get", "claim", "train", "-o", "yaml")))
        assert first.raw["status"]["reservedFor"][0]["name"] == "job"
        devices = json.loads("\n".join(await server.out("get", "devices", "gpu-10", "-o", "json")))
        assert devices["id"] == "gpu.example.com/node-1/gpu-10"
        assert (devices["capacity"], devices["holders"]) == ({"memory": {"value": "80Gi"}}, [])


async def test_errors_say_what_to_do(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        cases = {
            ("pod", "jobb"): (1, "no pod \"jobb\" in namespace default; did you mean 'job'?"),
            ("claims", "zzz"): (1, 'no claim "zzz" in namespace default; `dray get claims -A` shows all'),
            ("node", "zzz"): (1, 'no node "zzz"; `dray get nodes` shows all'),
            ("devices", "gpu-11"): (1, "no device \"gpu-11\"; did you mean 'gpu-10'?"),
            ("deploymnt",): (2, 'the server has no kind "deploymnt"; did you mean deployment?'),
            ("pods", "pod/x"): (2, "write KIND NAME… or KIND/NAME for each; 'pods' beside 'pod/x' is a mix of both"),
            ("devices", "-l", "a=b"): (2, "-l selects objects by label, and devices have none; leave it out"),
            ("pods,claims", "-w"): (2, "--watch follows one kind; name one"),
        }  # fmt: skip
        for words, (wanted, text) in cases.items():
            code, out, err = await server.run("get", *words)
            assert (code, out, err) == (wanted, "", f"dray: {text}\n")
        code, out, err = await server.run("get", "pods", "-n", "ml")
        assert (code, out) == (0, "")
        assert err == "No pods in namespace ml; `dray get pods -A` shows those of all namespaces\n"


def test_a_server_that_is_away(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}]}"
    )
    assert main(["get", "pods", "--kubeconfig", str(path)]) == 3
    err = capsys.readouterr().err
    assert "127.0.0.1:9" in err and f"(the address is from {path}" in err


async def test_text_of_others_does_not_steer_the_terminal(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await server.add(
            "{apiVersion: v1, kind: Event, metadata: {name: e}, involvedObject: {kind: Pod, name: p, namespace: default},"
            ' reason: Bad, type: Warning, message: "red \\e[31m text"}'
        )
        _, row = await server.out("get", "events")
        assert "\033" not in row and "red \ufffd[31m text" in row
