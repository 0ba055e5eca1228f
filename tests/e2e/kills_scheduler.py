"""Decides as a scheduler would which pods and claims a node has, so that a test knows who may hold what."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from dray.testing.kubernetes.control_plane import ControlPlane
from tests.e2e.claim_driver import DRIVER, POOL, REQUEST, ClaimDriver
from tests.e2e.killed_node import GPU, GPUS, POD_ENV, ROOT_ENV
from tests.processes.kubelet_program import NODE

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLAIM_DEVICES = ("d0", "d1", "d2")
LONG_LIFE = "trap 'exit 0' TERM; sleep 1000 & wait"
OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod that shall be there. `claim` is "" for none; `is_short`: it ends by itself."""

    name: str
    uid: str
    gpus: int
    claim: str
    is_short: bool


@dataclass
class Scheduler:
    """Devices are free again when the API server says that their pods are over or gone, and not before."""

    plane: ControlPlane
    driver: ClaimDriver
    root: Path
    image: Path
    dice: random.Random
    wanted: dict[str, Wanted] = field(default_factory=dict)
    claims: dict[str, Json] = field(default_factory=dict)
    """Objects by name; each has one device."""
    leaving: dict[str, Wanted] = field(default_factory=dict)
    """Deleted, and maybe still there."""
    number: int = 0

    def phases(self) -> dict[str, str]:
        """Of all pods that the server has. What ended gives back its claim."""
        items = self.plane.request("GET", PODS)["items"]
        found = {item["metadata"]["name"]: item["status"]["phase"] for item in items}
        self.leaving = {name: pod for name, pod in self.leaving.items() if name in found}
        users = {
            pod.claim
            for pod in (*self.wanted.values(), *self.leaving.values())
            if found.get(pod.name) not in OVER
        }
        for name in self.claims.keys() - users:
            self.plane.request("DELETE", f"{CLAIMS}/{name}")
            del self.claims[name]
        return found

    def change(self) -> None:
        """Take some pods away, at least one where there are many, and add some that fit."""
        phases = self.phases()
        for name in [name for name in self.wanted if self.dice.random() < 0.5]:
            self.drop(name)
        for _ in range(self.dice.randint(1, 2)):
            held = [*self.wanted.values(), *self.leaving.values()]
            free = GPUS - sum(pod.gpus for pod in held if phases.get(pod.name) not in OVER)
            gpus = self.dice.choice([count for count in (0, 1, 1, 2) if count <= free])
            self.want(gpus, self._some_claim(), is_short=self.dice.random() < 0.2)

    def _some_claim(self) -> str:
        """None, one that another pod has too, or a new one."""
        kind = self.dice.choice(("none", "shared", "own", "own"))
        shared = sorted({pod.claim for pod in self.wanted.values() if pod.claim} & self.claims.keys())
        if kind == "shared" and shared:
            return self.dice.choice(shared)
        taken = {self.driver.devices[one["metadata"]["uid"]] for one in self.claims.values()}
        free = [device for device in CLAIM_DEVICES if device not in taken]
        return self.make_claim(free[0]) if kind != "none" and free else ""

    def make_claim(self, device: str) -> str:
        """Make a claim that is allocated this device; its name."""
        self.number += 1
        name = f"claim-{self.number}"
        asked = {"requests": [{"name": REQUEST, "exactly": {"deviceClassName": "any"}}]}
        document = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": asked},
        }
        made = self.plane.request("POST", CLAIMS, document)
        self.driver.devices[made["metadata"]["uid"]] = device
        result = {"request": REQUEST, "driver": DRIVER, "pool": POOL, "device": device}
        made["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": []}
        self.claims[name] = self.plane.request("PUT", f"{CLAIMS}/{name}/status", made)
        return name

    def want(self, gpus: int, claim: str, *, is_short: bool = False) -> Wanted:
        """Make a pod, reserve its claim for it, and only then bind it."""
        self.number += 1
        name = f"pod-{self.number}"
        made = self.plane.request("POST", PODS, self._pod(name, gpus, claim, is_short))
        uid = made["metadata"]["uid"]
        if claim:
            status = self.claims[claim]["status"]
            status.setdefault("reservedFor", []).append({"resource": "pods", "name": name, "uid": uid})
            self.claims[claim] = self.plane.request("PUT", f"{CLAIMS}/{claim}/status", self.claims[claim])
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": NODE},
        }
        self.plane.request("POST", f"{PODS}/{name}/binding", binding)
        self.wanted[name] = Wanted(name, uid, gpus, claim, is_short)
        return self.wanted[name]

    def _pod(self, name: str, gpus: int, claim: str, is_short: bool) -> Json:
        uses = {"limits": {GPU: str(gpus)}} if gpus else {}
        if claim:
            uses["claims"] = [{"name": "mine"}]  # type: ignore[assignment]
        main = {
            "name": "main",
            "image": f"dir:{self.image}",
            "command": ["sh", "-c", "true" if is_short else LONG_LIFE],
            "env": [{"name": POD_ENV, "value": name}, {"name": ROOT_ENV, "value": str(self.root)}],
            "resources": uses,
        }
        spec: Json = {
            "containers": [main],
            "restartPolicy": "Never" if is_short else "Always",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
        }
        if claim:
            spec["resourceClaims"] = [{"name": "mine", "resourceClaimName": claim}]
        if self.dice.random() < 0.2:
            spec["initContainers"] = [main | {"name": "first", "command": ["true"]}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def drop(self, name: str) -> None:
        """Delete a pod; the kubelet has to end it before it is gone."""
        try:
            self.plane.request("DELETE", f"{PODS}/{name}")
        except HTTPError as error:
            if error.code != 404:
                raise
        self.leaving[name] = self.wanted.pop(name)

    def uid_of_claim(self, name: str) -> str:
        uid: str = self.claims[name]["metadata"]["uid"]
        return uid
