"""Storage of a random cluster: volumes that some nodes reach, claims that are bound to them or not, and pods that use both."""

from __future__ import annotations

from typing import Any

from tests.allocation.dice import Dice

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NAMES = ("data", "logs", "own-scratch")
NOW = "2026-01-01T00:00:00Z"


def storage(dice: Dice, namespaces: tuple[str, ...], pods: list[Json]) -> Json:
    """Some claims for each namespace. Pods get volumes, those that wait and those that run."""
    claims = [claim for space in namespaces for name in NAMES if (claim := _claim(dice, space, name))]
    for pod in pods:
        if dice.chance(0.7):
            pod["spec"]["volumes"] = [_use(dice, number) for number in range(dice.number(1, 2))]
            claims += _own(dice, pod)
    return {
        "volumes": [one for number in range(4) if (one := _volume(dice, number))],
        "volumeClaims": claims,
        "storageClasses": [
            {"metadata": {"name": "at-once"}, "volumeBindingMode": "Immediate", "provisioner": "x"}
        ],
    }


def _volume(dice: Dice, number: int) -> Json | None:
    """Now and then it is gone."""
    if dice.chance(0.1):
        return None
    labels = {}
    if dice.chance(0.5):
        labels[dice.pick((ZONE, OLD_ZONE))] = dice.pick(("a", "b", "a__b", "a__"))
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/x"},
    }
    if dice.chance(0.5):
        values = dice.some(("a", "b", "c"), 1)
        term: Json = {"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}
        if dice.chance(0.2):
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term] if dice.chance(0.95) else []}}
    return {"metadata": {"name": f"pv-{number}", "labels": labels}, "spec": spec}


def _claim(dice: Dice, namespace: str, name: str) -> Json | None:
    if dice.chance(0.05):
        return None
    meta: Json = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    spec: Json = {"accessModes": [dice.pick(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))]}
    if dice.chance(0.9):
        spec["volumeName"] = f"pv-{dice.number(0, 3)}"
        if dice.chance(0.95):
            meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    elif dice.chance(0.5):
        spec["storageClassName"] = dice.pick(("at-once", "nobody-has-it"))
    if dice.chance(0.03):
        meta |= {"deletionTimestamp": NOW, "finalizers": ["kubernetes.io/pvc-protection"]}
    phase = "Lost" if dice.chance(0.03) else "Bound"
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def _use(dice: Dice, number: int) -> Json:
    sources: list[Json] = [
        *([{"persistentVolumeClaim": {"claimName": dice.pick(NAMES[:2])}}] * 4),
        {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"gcePersistentDisk": {"pdName": dice.pick(("x", "y")), "readOnly": dice.chance(0.5)}},
        {"awsElasticBlockStore": {"volumeID": dice.pick(("x", "y")), "readOnly": dice.chance(0.5)}},
        {
            "iscsi": {
                "iqn": dice.pick(("x", "y")),
                "targetPortal": "p",
                "lun": 0,
                "readOnly": dice.chance(0.5),
            }
        },
        {"rbd": _ceph(dice)},
        {"emptyDir": {}},
    ]
    return {"name": f"volume-{number}"} | dice.pick(sources)


def _ceph(dice: Dice) -> Json:
    monitors = dice.some(("m1", "m2", "m3"), 1)
    return {"monitors": monitors, "image": dice.pick(("x", "y")), "pool": "rbd", "readOnly": dice.chance(0.5)}


def _own(dice: Dice, pod: Json) -> list[Json]:
    """The claims that were made for a pod's own volumes, mostly."""
    found, meta = [], pod["metadata"]
    for volume in pod["spec"]["volumes"]:
        if "ephemeral" in volume and (
            claim := _claim(dice, meta["namespace"], f"{meta['name']}-{volume['name']}")
        ):
            uid = meta["uid"] if dice.chance(0.9) else "somebody-else"
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": uid, "controller": True}
            claim["metadata"]["ownerReferences"] = [owner]
            found.append(claim)
    return found
