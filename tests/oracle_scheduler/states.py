"""Random clusters with pods that wait for a node: what pods and nodes say is made as for the fit oracle, devices and claims
as for the allocator's, and here they are put together. The same seed gives the same cluster.
"""

from __future__ import annotations

import json
from typing import Any

from tests.allocation.dice import TIERS, Dice
from tests.allocation.generate_claims import CLASSES, claims, classes
from tests.allocation.generate_slices import slices
from tests.oracle_fit.cases import NAMESPACES, Maker
from tests.oracle_scheduler.held import allocation, held_claims, with_bindings
from tests.oracle_scheduler.storage import ZONE, storage

Json = dict[str, Any]

SERVED = ("example.com/gpu", "example.com/nic")
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class StateMaker:
    """Makes one cluster. Most are calm ones, where a pod often fits as far as other things than devices go."""

    def __init__(self, seed: int, *, has_storage: bool) -> None:
        self.has_storage = has_storage
        self.make = Maker(seed)
        self.make.is_calm = self.make.random.random() < 0.75
        self.is_about_devices = self.make.is_calm and self.make.random.random() < 0.6
        self.dice = Dice(seed, "incubating")
        self.dice.features = sorted(TIERS["incubating"])
        # A class that lost its name to another one may lose its implicit name, too: that depends on which came first.
        self.has_rivals = self.dice.chance(0.3)
        self.nodes = [self.node(index) for index in range(self.dice.pick((2, 2, 3, 3, 3, 3, 4, 4, 12)))]
        self.slices = self.supply()
        self.claims = held_claims(self.dice, self.slices)

    def state(self) -> Json:
        """`asked` are the pods that wait, in the order in which they come."""
        make, dice = self.make, self.dice
        pods = [
            make.pod(f"p{index}-{one}", node=node["metadata"]["name"])
            for index, node in enumerate(self.nodes)
            for one in range(make.pick(0, 0, 1, 2))
        ]
        asked = [self.pod(f"new-{number}") for number in range(dice.pick((2, 3, 4)))]
        found: Json = {}
        if self.has_storage and dice.chance(0.3):
            found = storage(dice, NAMESPACES, [*pods, *asked])
        return found | {
            "nodes": self.nodes,
            "pods": pods,
            "claims": self.claims,
            "classes": self.classes(),
            "slices": self.slices,
            "rules": [self.rule(number) for number in range(dice.pick((0, 0, 1, 2)))],
            "namespaces": [{"metadata": {"name": name, "labels": make.labels()}} for name in NAMESPACES[:2]],
            "asked": asked,
        }

    def node(self, index: int) -> Json:
        """Served resources are on some nodes only, and none of them on others: there devices serve them."""
        found, dice = self.make.node(index), self.dice
        found["metadata"]["labels"] |= {
            "zone": dice.pick(("a", "b")),
            "kind": dice.pick(("gpu", "gpu", "cpu")),
        }
        if dice.chance(0.6):
            found["metadata"]["labels"][ZONE] = dice.pick(("a", "b"))
        allocatable = found["status"]["allocatable"]
        for name in SERVED:
            allocatable.pop(name, None)
            if dice.chance(0.4):
                allocatable[name] = dice.pick(("0", "1", "4"))
        if self.is_about_devices:
            found["spec"] = {}
        found["status"]["images"] = [{"names": ["example.com/image"], "sizeBytes": 1 << 30}]
        return found

    def supply(self) -> list[Json]:
        """Pools for all nodes, and some of a single node's own. Their selectors can be read, as an API server sees to it."""
        texts = [json.dumps(slices(self.dice))]
        for node in self.nodes:
            if self.dice.chance(0.5):
                name, text = node["metadata"]["name"], json.dumps(slices(self.dice))
                texts.append(text.replace('"node-1"', f'"{name}"').replace('"pool-', f'"{name}-pool-'))
        return [one for text in texts for one in json.loads(text.replace('"Near"', '"In"'))]

    def classes(self) -> list[Json]:
        """All that claims may name, now and then one less; some serve an extended resource."""
        dice, found = self.dice, classes(self.dice, [{name: name for name in CLASSES}])
        if dice.chance(0.1):
            found.remove(dice.pick(found))
        left = list(SERVED)
        for one in found:
            if left and dice.chance(0.4):
                one["spec"]["extendedResourceName"] = name = dice.pick(left)
                if not self.has_rivals:
                    left.remove(name)
            one["metadata"]["creationTimestamp"] = f"2026-01-0{dice.number(1, 3)}T00:00:00Z"
        return found

    def rule(self, number: int) -> Json:
        dice = self.dice
        selector: Json = {}
        if dice.chance(0.7):
            selector["driver"] = dice.pick(("driver-a", "driver-b"))
        if dice.chance(0.4):
            selector["device"] = f"device-{dice.number(1, 3)}"
        if dice.chance(0.4):
            selector["pool"] = "pool-1"
        taint = {"key": "hot", "value": "yes", "effect": dice.pick(("NoSchedule", "NoExecute", "None"))}
        spec: Json = {"taint": taint | {"timeAdded": "2026-01-01T00:00:00Z"}}
        if dice.chance(0.9):
            spec["deviceSelector"] = selector
        return {"metadata": {"name": f"rule-{number}"}, "spec": spec}

    def pod(self, uid: str) -> Json:
        """One that waits: with claims of its own or of others, with extended resources that classes serve, or both."""
        found, dice = self.make.pod(uid), self.dice
        if self.make.is_calm:
            found["spec"]["nodeName"] = ""
        # Wishes change no verdict; some cannot be read, which fails a try only where there is something to choose.
        (found["spec"]["affinity"] or {}).get("nodeAffinity", {}).pop(PREFERRED, None)
        if self.is_about_devices:
            found["spec"] |= {"nodeSelector": None, "affinity": None, "schedulingGates": None}
        if dice.chance(0.3):
            self.ask_for_served(found)
        if dice.chance(0.75):
            self.add_claims(found)
        if dice.chance(0.03):
            self.claims.append(self.leftover(found))
        return found

    def ask_for_served(self, pod: Json) -> None:
        dice = self.dice
        for one in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            if dice.chance(0.7):
                implicit = () if self.has_rivals else (f"{IMPLICIT}class-a", f"{IMPLICIT}class-any")
                name = dice.pick((*SERVED, *SERVED, *implicit))
                one["resources"]["requests"][name] = dice.pick(("1", "1", "2", "0"))

    def add_claims(self, pod: Json) -> None:
        """Each is named by the pod or made from a template; a few are not as the pod needs them."""
        dice, meta = self.dice, pod["metadata"]
        others = [one["metadata"] for one in self.claims if one["metadata"]["namespace"] == meta["namespace"]]
        entries: list[Json] = []
        statuses: list[Json] = []
        for number, claim in enumerate(claims(dice)):
            name, entry = f"{meta['name']}-claim-{number}", f"entry-{number}"
            claim["metadata"] = {"name": name, "namespace": meta["namespace"], "uid": f"uid-{name}"}
            if dice.chance(0.4):
                entries.append({"name": entry, "resourceClaimTemplateName": "template"})
                self.make_from_template(pod, claim, statuses, entry)
            else:
                entries.append({"name": entry, "resourceClaimName": name})
            self.age(pod, claim)
            if not dice.chance(0.03):
                self.claims.append(claim)
        if others and dice.chance(0.2):
            entries.append({"name": "other", "resourceClaimName": dice.pick(others)["name"]})
        if dice.chance(0.01):
            entries.append({"name": "nothing"})
        pod["spec"]["resourceClaims"] = entries
        pod["status"] = {"resourceClaimStatuses": statuses}

    def make_from_template(self, pod: Json, claim: Json, statuses: list[Json], entry: str) -> None:
        dice, uid = self.dice, pod["metadata"]["uid"]
        if dice.chance(0.05):
            uid = "somebody-else"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid}
        claim["metadata"]["ownerReferences"] = [owner | {"controller": not dice.chance(0.03)}]
        if dice.chance(0.05):
            statuses.append({"name": entry})
        elif not dice.chance(0.03):
            statuses.append({"name": entry, "resourceClaimName": claim["metadata"]["name"]})

    def age(self, pod: Json, claim: Json) -> None:
        """Most are new. Some are allocated, reserved or on their way out."""
        dice = self.dice
        if dice.chance(0.03):
            claim["metadata"] |= {
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["example.com/x"],
            }
        if not dice.chance(0.3):
            return
        status: Json = {"allocation": allocation(dice, self.slices, self.node_names())}
        users = [pod["metadata"]] if dice.chance(0.3) else []
        if dice.chance(0.3):
            count = 256 if dice.chance(0.2) else dice.number(1, 3)
            users += [{"name": f"user-{one}", "uid": f"user-{one}"} for one in range(count - len(users))]
        if users:
            status["reservedFor"] = [
                {"resource": "pods", "name": one["name"], "uid": one["uid"]} for one in users
            ]
        claim["status"] = with_bindings(dice, status)

    def node_names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.nodes]

    def leftover(self, pod: Json) -> Json:
        """The claim for extended resources that a try before this one made."""
        meta = pod["metadata"]
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        name = f"{meta['name']}-extended-resources-x"
        exactly = {"deviceClassName": "class-a", "allocationMode": "ExactCount", "count": 1}
        return {
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "uid": f"uid-{name}",
                "annotations": {ANNOTATION: "true"},
                "ownerReferences": [owner],
            },
            "spec": {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}},
        }


def state(seed: int, *, has_storage: bool = True) -> Json:
    """One cluster, with pods that wait; some have volumes, in some of the clusters."""
    return StateMaker(seed, has_storage=has_storage).state()
