"""Random CDI specs and OCI specs from a seed: mostly right, with a fault here and there, in texts as people write them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

KINDS = ["example.com/gpu", "example.com/net.fast", "vendor/class-1"]
BAD_KINDS = ["example.com", "/gpu", "example.com/", "1x/gpu", "a_/gpu", "a/b/c", "exämple/gpu", ""]
NAMES = ["gpu0", "gpu1", "0", "7a", "a:b", "all"]
BAD_NAMES = ["", "-a", "a-", "a b", "ä", "a=b", "a/b"]
VERSIONS = ["1.1.0"] * 6 + ["0.3.0", "0.5.0", "0.6.0", "v0.7.0", "1.0.0", "0.8.0"]
BAD_VERSIONS = ["0.1.0", "0.2.0", "1.2.0", "", "vv1.1.0", "1.1"]
HOOKS = ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
NODES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/none-such", "/dev", "/etc/hostname", "/dev/fd"]
ODD_NUMBERS = [
    "0660",
    "0x1f",
    "08",
    "1e3",
    "1.5",
    "-1",
    "4294967296",
    "1_0",
    '"5"',
    "+7",
    "0b11",
    "0o17",
    "~",
]
DESTINATIONS = ["/a", "/a/b", "/a//b/../c", "/", "//x/y", "/proc/x", "rel/x", "/dev/x"]


class Raw(str):
    """A word that stands in the text as it is."""

    __slots__ = ()


def as_text(value: Any) -> str:
    """Flow-style YAML: JSON, but for raw words."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",\n ".join(f"{json.dumps(key)}: {as_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f").replace("\u2028", "\\u2028")


class Generator:
    """`fault_rate` is how often a value is wrong or odd; `fractions`: whether numbers have them at times."""

    def __init__(self, seed: int, fault_rate: float = 0.03, *, fractions: bool = True) -> None:
        self.random = Random(seed)
        self.fault_rate = fault_rate
        self.odd_numbers = ODD_NUMBERS if fractions else [one for one in ODD_NUMBERS if one != "1.5"]

    def chance(self, rate: float) -> bool:
        return self.random.random() < rate

    def odd(self, good: Any, *bad: Any) -> Any:
        """The good value, or at times one of the others."""
        return self.random.choice(bad) if bad and self.chance(self.fault_rate) else good

    def some(self, make: Any, most: int = 2) -> list[Any]:
        return [make() for _ in range(self.random.randint(0, most))]

    def maybe(self, owner: dict[str, Any], key: str, make: Any, rate: float = 0.3) -> None:
        if self.chance(rate):
            owner[key] = self.odd(make(), Raw("null"), Raw("~"), Raw("{}"), Raw("[]"), Raw("word"), Raw("3"))

    def spec(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "cdiVersion": self.odd(self.random.choice(VERSIONS), *BAD_VERSIONS),
            "kind": self.odd(self.random.choice(KINDS), *BAD_KINDS),
            "devices": [self.device() for _ in range(self.random.choice([1, 1, 2, 3]))],
        }
        names = [device["name"] for device in made["devices"]]
        if len(set(map(str, names))) < len(names) and not self.chance(0.1):
            made["devices"] = made["devices"][:1]
        self.maybe(made, "containerEdits", self.edits)
        self.maybe(made, "annotations", self.annotations, 0.1)
        if self.chance(self.fault_rate):
            del made[self.random.choice(list(made))]
        if self.chance(self.fault_rate):
            made[self.random.choice(["device", "Kind", "x"])] = 1
        return made

    def device(self) -> dict[str, Any]:
        number = Raw(self.random.choice(["0", "17", "0x10", "1e3", "true", "2001-01-01"]))
        made = {
            "name": self.odd(self.random.choice(NAMES), number, *BAD_NAMES),
            "containerEdits": self.edits(),
        }
        if not made["containerEdits"] and not self.chance(0.1):
            made["containerEdits"] = {"env": ["FILLED=1"]}
        self.maybe(made, "annotations", self.annotations, 0.1)
        return made

    def annotations(self) -> dict[str, Any]:
        return {"example.com/note": self.odd("text", Raw("5"), Raw("~"), Raw("[x]")), "bad key!": "x"}

    def edits(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self.maybe(made, "env", lambda: self.some(self.env))
        self.maybe(made, "deviceNodes", lambda: self.some(self.node), 0.5)
        self.maybe(made, "netDevices", lambda: self.some(self.net), 0.1)
        self.maybe(made, "hooks", lambda: self.some(self.hook), 0.2)
        self.maybe(made, "mounts", lambda: self.some(self.mount))
        self.maybe(made, "intelRdt", self.rdt, 0.1)
        self.maybe(made, "additionalGids", lambda: self.some(self.number), 0.15)
        return made

    def env(self) -> Any:
        name = self.random.choice(["A", "B", "PATH"])
        return self.odd(
            f"{name}={self.random.randint(0, 9)}",
            "=x",
            "A",
            "",
            Raw("~"),
            Raw("5"),
            "A=b=c",
            "A=\x7f\u2028\U0001f600é",
            "A=\x1b\tx\n",
        )

    def number(self) -> Any:
        return self.odd(self.random.choice([0, 5, 44, 1000]), *map(Raw, self.odd_numbers))

    def node(self) -> Any:
        made = {"path": self.odd(self.random.choice(NODES[:3] + NODES), "", "dev/x")}
        self.maybe(made, "hostPath", lambda: self.random.choice(NODES))
        self.maybe(made, "type", lambda: self.odd(self.random.choice("bccup"), "x", "cc", ""))
        for key in ("major", "minor", "fileMode", "uid", "gid"):
            self.maybe(made, key, self.number)
        self.maybe(
            made,
            "permissions",
            lambda: self.odd(self.random.choice(["r", "rw", "mrw", "none", ""]), "x", "rr", "None"),
        )
        return self.odd(made, Raw("~"), "x")

    def net(self) -> Any:
        number = self.random.randint(0, 5)
        return self.odd(
            {"hostInterfaceName": f"eth{number}", "name": f"net{self.odd(number, 0)}"},
            {"name": "x"},
            Raw("~"),
        )

    def hook(self) -> Any:
        made = {
            "hookName": self.odd(self.random.choice(HOOKS), "prestop", ""),
            "path": self.odd("/bin/hook", ""),
        }
        self.maybe(made, "args", lambda: ["hook", "-x"])
        self.maybe(made, "env", lambda: [self.env()])
        self.maybe(made, "timeout", self.number)
        return made

    def mount(self) -> Any:
        made: dict[str, Any] = {
            "hostPath": self.odd("/lib", ""),
            "containerPath": self.odd(self.random.choice(DESTINATIONS), ""),
        }
        options = self.random.choice(
            [["ro", "bind"], ["rbind"], ["rbind", "bind"], ["idmap", "bind"], ["ro"]]
        )
        self.maybe(made, "options", lambda: options, 0.7)
        self.maybe(made, "type", lambda: self.random.choice(["bind", "tmpfs"]), 0.2)
        return made

    def rdt(self) -> Any:
        made: dict[str, Any] = {}
        self.maybe(made, "closID", lambda: self.odd("guaranteed", "/", ".", "a/b", "a\nb", "x" * 4096))
        self.maybe(made, "schemata", lambda: ["L3:0=f"])
        self.maybe(
            made, "enableMonitoring", lambda: self.odd(True, False, Raw("yes"), Raw("Off"), "y", Raw("1"))
        )
        self.maybe(made, "l3CacheSchema", lambda: "L3:0=ff")
        return made

    def container(self) -> dict[str, Any]:
        """An OCI spec, with more or less in it."""
        made: dict[str, Any] = {"ociVersion": "1.2.0", "root": {"path": "rootfs"}}
        if self.chance(0.7):
            user = {
                "uid": self.random.choice([0, 1000]),
                "gid": self.random.choice([0, 100]),
                "additionalGids": [5],
            }
            made["process"] = {"user": user, "cwd": "/", "env": ["PATH=/bin", "A=base", "A=again"]}
        if self.chance(0.7):
            made["mounts"] = [
                {"destination": place, "source": "s", "type": "bind"}
                for place in self.random.sample(DESTINATIONS, 3)
            ]
        if self.chance(0.7):
            made["linux"] = {
                "devices": [{"path": "/dev/null", "type": "c", "major": 9, "minor": 9}],
                "resources": {"devices": [{"allow": False, "access": "rwm"}]},
                "namespaces": [{"type": "user"}] if self.chance(0.4) else [{"type": "mount"}],
            }
        return made
