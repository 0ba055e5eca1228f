"""`dray explain`, `allocate` and `simulate` on a server: whose decisions, what is read, and what goes wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dray.cli.main import main
from tests.cli.gpu_cluster import CLAIM, CLUSTER
from tests.cli.small_api import SmallApi, dray, kubeconfig, serving

NODES = "".join(
    f"---\n{{apiVersion: v1, kind: Node, metadata: {{name: node-{number}}}}}\n" for number in (1, 2)
)
H100, A100 = CLAIM.replace("MODEL", "H100"), CLAIM.replace("MODEL", "A100")


def gpus(claim: str = H100, **fields: Any) -> SmallApi:
    api = SmallApi(**fields)
    api.add(f"{CLUSTER}\n{NODES}")
    api.add(claim)
    return api


async def explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], api: SmallApi, *words: str, namespace: str = ""
) -> tuple[int, str, str]:
    """Code, stdout and stderr of `dray explain` at this server."""
    async with serving(api):
        code = await dray("explain", *words, "--kubeconfig", kubeconfig(tmp_path, api.server.url, namespace))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


async def test_a_claim_on_a_server_is_decided_as_its_scheduler_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = gpus()
    code, out, err = await explained(tmp_path, capsys, api, "train")
    assert (code, err) == (0, "")
    head, _, *table = out.splitlines()
    assert (
        head == "Claim default/train does not fit on any of 2 nodes (profile k8s-1.36, incubating allocator)"
    )
    assert table[1] == "node-1   default/train   gpu       1       3         -1         -1      -1       0"
    assert {one.method for one in api.server.seen} == {"GET"}
    slices = [one.target for one in api.server.seen if "resourceslices" in one.target]
    assert slices == [
        "/apis/resource.k8s.io/v1/resourceslices?limit=500",
        "/apis/resource.k8s.io/v1/resourceslices?limit=500&continue=1",
    ]


@pytest.mark.parametrize(
    ("minor", "profile", "note"),
    [
        ("36", "k8s-1.36", ""),
        ("37+", "k8s-1.37", ""),
        (
            "34",
            "k8s-1.36",
            "the server is Kubernetes 1.34; decided as a scheduler of 1.36, the nearest that is known",
        ),
        (
            "39",
            "k8s-1.37",
            "the server is Kubernetes 1.39; decided as a scheduler of 1.37, the nearest that is known",
        ),
        ("", "k8s-1.36", "the server does not say which Kubernetes it is; decided as a scheduler of 1.36"),
    ],
)
async def test_the_profile_follows_the_servers_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], minor: str, profile: str, note: str
) -> None:
    code, out, err = await explained(tmp_path, capsys, gpus(minor=minor), "-o", "json")
    got = json.loads(out)
    assert (code, got["profile"]) == (0, profile)
    assert got["notes"] == ([note] if note else [])
    assert err == (f"dray: note: {note}\n" if note else "")
    assert got["server"]["version"] == f"v1.{minor}.4"


async def test_another_profile_may_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = await explained(tmp_path, capsys, gpus(minor="34"), "--profile", "correct")
    assert (code, err) == (0, "") and "(profile correct, experimental allocator)" in out


async def test_it_says_where_correct_would_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In 1.36 a newer generation on another node goes unseen."""
    api = gpus(A100)
    api.add(
        "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: newer}, spec: {driver: gpu.example.com,"
        " nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: gone, operator: Exists}]}]},"
        " pool: {name: node-2, generation: 2, resourceSliceCount: 1}}}"
    )
    _, out, _ = await explained(tmp_path, capsys, api)
    assert out.splitlines()[:2] == [
        "Claim default/train fits on 2 of 2 nodes: node-1, node-2 (profile k8s-1.36, incubating allocator)",
        "Note: profile correct decides otherwise: fits on 1 of 2 nodes: node-1 (because of own_slices_suffice)",
    ]


async def test_names_are_looked_for_in_the_contexts_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = gpus()
    api.add(A100, "ml")
    for words, namespace, head in (
        (["train"], "ml", "Claim ml/train fits on 2 of 2 nodes"),
        (["train", "-n", "default"], "ml", "Claim default/train does not fit"),
    ):
        _, out, _ = await explained(tmp_path, capsys, api, *words, namespace=namespace)
        assert out.startswith(head)
    code, _, err = await explained(tmp_path, capsys, api, "pod/nobody")
    assert (code, err) == (1, "dray: no Pod default/nobody in the cluster\n")


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
async def test_servers_that_have_only_beta_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    api = gpus(version=version)
    if version == "v1beta1":
        for one in api.objects["resourceslices"]:
            devices = one["spec"]["devices"]
            one["spec"]["devices"] = [{"name": each.pop("name"), "basic": each} for each in devices]
        for one in api.objects["resourceclaims"]:
            for request in one["spec"]["devices"]["requests"]:
                request |= request.pop("exactly")
                request |= {"allocationMode": "ExactCount", "count": 1}
    code, out, err = await explained(tmp_path, capsys, api)
    assert (code, err) == (0, "")
    assert "node-1   default/train   gpu       1       3         -1         -1      -1       0" in out
    seen = [one.target for one in api.server.seen if "resourceslices" in one.target]
    assert seen[0].startswith(f"/apis/resource.k8s.io/{version}/") and "continue=1" in seen[1]


@pytest.mark.parametrize("rules", ["v1", "v1beta2"])
async def test_taint_rules_count_where_they_are_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: str
) -> None:
    api = gpus(A100, rules=rules)
    api.add(
        "{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {name: r}, spec: {deviceSelector:"
        " {pool: node-2}, taint: {key: k, effect: NoSchedule}}}"
    )
    _, out, err = await explained(tmp_path, capsys, api)
    assert (out.partition(" (")[0], err) == ("Claim default/train fits on 1 of 2 nodes: node-1", "")
    api.missing = {"devicetaintrules"}
    _, out, err = await explained(tmp_path, capsys, api)
    assert (out.partition(" (")[0], err) == ("Claim default/train fits on 2 of 2 nodes: node-1, node-2", "")


async def test_what_may_not_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = await explained(tmp_path, capsys, gpus(denied={"resourceslices"}))
    assert (code, out) == (1, "")
    assert err == (
        "dray: may not list resourceslices.resource.k8s.io cluster-wide; ask for a role with the verb list on it: "
        'resourceslices is forbidden: User "tenant" cannot list resource\n'
    )
    code, out, err = await explained(tmp_path, capsys, gpus(denied={"pods", "devicetaintrules"}))
    assert code == 0 and out.startswith("Claim default/train does not fit")
    assert [line.partition(",")[0] for line in err.splitlines()] == [
        "dray: note: may not list pods cluster-wide; only those of namespace default were read",
        "dray: note: may not list devicetaintrules.resource.k8s.io",
    ]


async def test_an_object_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("v1", "v1beta2"):
        api = gpus(A100, version=version)
        api.objects["resourceslices"][1]["spec"]["driver"] = 7
        code, out, err = await explained(tmp_path, capsys, api)
        assert code == 0 and out.startswith("Claim default/train fits on 1 of 2 nodes: node-1")
        assert err.startswith("dray: note: ResourceSlice ") and "cannot be read and is left out" in err


async def test_a_server_without_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for api in (SmallApi(missing={"resource.k8s.io"}), SmallApi(version="v1alpha3")):
        code, _, err = await explained(tmp_path, capsys, api)
        assert code == 2 and err.startswith("dray: the server serves none of resource.k8s.io/v1, v1beta2")


async def test_a_server_that_is_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(SmallApi()) as api:
        url = api.server.url
    assert await dray("explain", "--kubeconfig", kubeconfig(tmp_path, url)) == 3
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1) and "cannot connect" in shown.err


def test_no_cluster_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root's `dray up` is not below HOME
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for words in (["explain"], ["explain", "pod/job"], ["allocate"], ["simulate", "--claims", "1"]):
        assert main(words) == 2
        assert capsys.readouterr().err == (
            f"dray: no cluster: no `dray up` runs here and {tmp_path}/.kube/config does not exist; start one with "
            "`dray up`, or give --kubeconfig FILE or KUBECONFIG, or give the cluster's objects with -f FILE\n"
        )
    path = Path(kubeconfig(tmp_path, "http://127.0.0.1:9"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert main(["explain", "--context", "there"]) == 2
    assert 'there is no context "there"' in capsys.readouterr().err
    path.write_text(path.read_text().replace('"user": {}', '"user": {"auth-provider": {"name": "login"}}'))
    assert main(["explain"]) == 2
    assert "auth-provider: is not supported" in (err := capsys.readouterr().err) and "-f FILE" in err


async def test_allocate_and_simulate_ask_a_server_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(gpus()) as api:
        api.add(A100.replace("name: train", "name: small"))
        where = ["--kubeconfig", kubeconfig(tmp_path, api.server.url)]
        assert await dray("allocate", "small", *where, "-o", "json") == 0
        assert json.loads(capsys.readouterr().out)["node"] == "node-1"
        assert await dray("allocate", "small", "train", *where) == 1
        assert "(profile k8s-1.36, incubating allocator)" in capsys.readouterr().out
        assert await dray("allocate", *where) == 1
        assert capsys.readouterr().out.startswith("Does not fit on any of 2 nodes")
        assert await dray("allocate", "old", *where) == 2
        assert "claim default/old has its devices already in the cluster" in capsys.readouterr().err
        assert await dray("simulate", "small", "--claims", "5", *where) == 0
        assert capsys.readouterr().out.startswith("2 of 5 more fit, on 2 of 2 nodes")
        assert {one.method for one in api.server.seen} == {"GET"}


async def test_files_lie_over_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What if this were applied: only the files' claims are asked for, in the context's namespace."""
    path = tmp_path / "claim.yaml"
    path.write_text(A100.replace("name: train", "name: new"))
    async with serving(gpus()) as api:
        where = ["-f", str(path), "--kubeconfig", kubeconfig(tmp_path, api.server.url, "ml")]
        assert await dray("explain", *where) == 0
        assert capsys.readouterr().out.startswith("Claim ml/new fits on 2 of 2 nodes: node-1, node-2")
        assert await dray("allocate", *where) == 0
        assert "ml/new   gpu       gpu.example.com/node-1/gpu-0" in capsys.readouterr().out
        assert await dray("simulate", *where, "--claims", "3") == 0
        assert capsys.readouterr().out.startswith("2 of 3 more fit")
        path.write_text(A100)
        assert await dray("explain", *where, "-n", "default") == 0
        assert capsys.readouterr().out.startswith("Claim default/train fits on 2 of 2 nodes")


async def test_a_terminal_sees_what_is_going_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    _, _, err = await explained(tmp_path, capsys, gpus())
    assert "\r\033[Kreading resourceslices.resource.k8s.io…" in err
    assert "explaining claim default/train (1 of 1) on 2 nodes…" in err and err.endswith("\r\033[K")
