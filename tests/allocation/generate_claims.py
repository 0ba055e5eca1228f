"""The demand side of a random allocator case: device classes and claims."""

from __future__ import annotations

from tests.allocation.dice import CAPACITY, LISTS, Dice, Thing
from tests.allocation.generate_slices import ROOT

CLASSES = ("class-a", "class-b", "class-any", "class-model", "class-odd")
A = 'device.attributes["driver-a"]'
SELECTORS = (
    'device.driver == "driver-a"',
    'device.driver in ["driver-a", "driver-b"]',
    f'{A}.model == "A"',
    f'has({A}.model) && {A}.model == "B"',
    f'{A}.?model.orValue("B") == "B"',
    f"{A}.index > 1",
    f"{A}.?index.orValue(0) <= 3",
    f"{A}.?index.orValue(0) % 2 == 1",
    f"{A}.ecc",
    f"has({A}.ecc) && !{A}.ecc",
    f'{A}.version.isGreaterThan(semver("1.0.0"))',
    f'cel.bind(d, {A}, d.?version.orValue(semver("0.0.1")).major() == 1)',
    '"driver-a" in device.attributes',
    'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("") == "pci-0"',
    'device.attributes["resource.kubernetes.io"].pcieRoot.endsWith("1")',
    'device.attributes.exists(d, d == "driver-b")',
    f'{A}.exists(n, n == "numa")',
    'has(device.capacity["driver-a"].memory)',
    'device.capacity["driver-a"].memory.compareTo(quantity("8Gi")) >= 0',
    'device.capacity["driver-a"].?memory.orValue(quantity("0")).isGreaterThan(quantity("5Gi"))',
    "true",
    'device.driver.matches("^driver-[ab]$")',
)
MULTI_SELECTORS = ("device.allowMultipleAllocations", "device.allowMultipleAllocations == false")
LIST_SELECTORS = (
    f"has({A}.nodes) && {A}.nodes.exists(n, n == 1)",
    f'has({A}.roots) && {A}.roots.includes("r1")',
    f'{A}.?model.orValue("").includes("A")',
    f"has({A}.nodes) && size({A}.nodes) > 1",
)
BAD_SELECTORS = (
    "device.drivers == 1",
    "nothing",
    "device.driver",
    'device.driver == "driver-a" &&',
    f"{A}.missing == 1",
    f'{A}.model == 1 || {A}.missing == "x"',
    'device.attributes["driver-a"].model.matches("(")',
    "1 / 0 == 1",
    f'{A}.index.isGreaterThan(semver("1.0.0"))',
)


def classes(dice: Dice, asked: list[Thing]) -> list[Thing]:
    """Those that the claims name."""
    named = str(asked)
    made: list[Thing] = [
        _class(dice, "class-a", ['device.driver == "driver-a"']),
        _class(dice, "class-b", ['device.driver == "driver-b"']),
        _class(dice, "class-any", []),
        _class(dice, "class-model", [f'has({A}.model) && {A}.model == "{dice.pick(("A", "B"))}"', "true"]),
        _class(dice, "class-odd", [_expression(dice) for _ in range(dice.number(1, 2))]),
    ]
    return [entry for entry in made if f"'{entry['metadata']['name']}'" in named]


def _class(dice: Dice, name: str, expressions: list[str]) -> Thing:
    spec: Thing = {}
    if expressions:
        spec["selectors"] = [{"cel": {"expression": text}} for text in expressions]
    if dice.themed("config", 0.6, 0.03):
        spec["config"] = [_opaque(dice) for _ in range(dice.number(1, 2))]
    return {"metadata": {"name": name}, "spec": spec}


def _opaque(dice: Dice) -> Thing:
    return {"opaque": {"driver": dice.pick(("driver-a", "driver-b")), "parameters": {"n": dice.number(1, 9)}}}


def claims(dice: Dice) -> list[Thing]:
    count = 0 if dice.chance(0.01) else dice.pick((1, 1, 1, 2, 2, 3))
    return [_claim(dice, number, 5 // max(count, 1)) for number in range(count)]


def _claim(dice: Dice, number: int, most: int) -> Thing:
    requests = [
        _request(dice, f"req-{index}", most) for index in range(dice.number(1, dice.number(1, min(3, most))))
    ]
    if dice.chance(0.01):
        requests = []
    devices: Thing = {"requests": requests}
    references = _references(requests)
    if dice.themed("constraints", 0.9, 0.12) or dice.themed("lists", 0.8):
        devices["constraints"] = [_constraint(dice, references) for _ in range(dice.pick((1, 1, 2)))]
    if dice.themed("config", 0.8, 0.03):
        devices["config"] = [_config(dice, references) for _ in range(dice.number(1, 3))]
    metadata: Thing = {"name": f"claim-{number}"}
    if dice.chance(0.3):
        metadata["namespace"] = "default"
    return {"metadata": metadata, "spec": {"devices": devices}}


def _references(requests: list[Thing]) -> list[str]:
    names = []
    for request in requests:
        names.append(request["name"])
        names += [f"{request['name']}/{entry['name']}" for entry in request.get("firstAvailable", ())]
    return names


def _request(dice: Dice, name: str, most: int) -> Thing:
    if dice.themed("priorities", 0.7, 0.05):
        entries = [
            _exactly(dice, most) | {"name": f"sub-{number}"} for number in range(dice.pick((1, 2, 2, 3)))
        ]
        return {"name": name, "firstAvailable": entries}
    exactly = _exactly(dice, most)
    if dice.themed("admin", 0.5, 0.02):
        exactly["adminAccess"] = dice.chance(0.9)
    return {"name": name, "exactly": exactly}


def _exactly(dice: Dice, most: int) -> Thing:
    made: Thing = {"deviceClassName": dice.pick(("class-a",) * 5 + ("class-any",) * 4 + CLASSES)}
    if dice.themed("all", 0.6, 0.08):
        made["allocationMode"] = "All"
    else:
        made |= {"allocationMode": "ExactCount", "count": dice.pick((1, 1, 1, 1, 2, 2, 3)) if most > 1 else 1}
    if dice.themed("selectors", 0.7, 0.15):
        made["selectors"] = [{"cel": {"expression": _expression(dice)}} for _ in range(dice.number(1, 2))]
    if dice.themed("taints", 0.6, 0.03):
        made["tolerations"] = [_toleration(dice) for _ in range(dice.number(1, 2))]
    if dice.themed("capacity", 0.7, 0.02):
        made["capacity"] = {"requests": _amounts(dice)}
    return made | _mistake(dice)


def _mistake(dice: Dice) -> Thing:
    if not dice.themed("errors", 0.25, 0.015):
        return {}
    return dice.pick(
        (
            {"deviceClassName": "class-unknown"},
            {"deviceClassName": ""},
            {"selectors": [{}]},
            {"selectors": [{"cel": {"expression": dice.pick(BAD_SELECTORS)}}]},
            {"selectors": [{"cel": {"expression": dice.pick(BAD_SELECTORS)}}]},
            {"selectors": [{"cel": {"expression": dice.pick(BAD_SELECTORS)}}]},
            {"allocationMode": "Several"},
            {"allocationMode": "ExactCount", "count": dice.pick((0, 17, 33, 500))},
        )
    )


def _expression(dice: Dice) -> str:
    """A selector that the features allow, mostly; with the wrong features it does not compile."""
    choices: tuple[str, ...] = SELECTORS
    if CAPACITY in dice.features and dice.chance(0.2):
        choices = MULTI_SELECTORS
    elif LISTS in dice.features and "lists" in dice.themes and dice.chance(0.4):
        choices = LIST_SELECTORS
    elif dice.chance(0.01):
        choices = MULTI_SELECTORS + LIST_SELECTORS
    text = dice.pick(choices)
    if dice.themed("selectors", 0.3):
        text = f"({text}) {dice.pick(('&&', '||'))} ({dice.pick(choices)})"
    return text


def _toleration(dice: Dice) -> Thing:
    made: Thing = {"operator": dice.pick(("Exists", "Equal", "Equal"))}
    if dice.chance(0.9):
        made["key"] = dice.pick(("hot", "old"))
    if made["operator"] == "Equal" and dice.chance(0.7):
        made["value"] = dice.pick(("yes", "no"))
    if dice.chance(0.5):
        made["effect"] = dice.pick(("NoSchedule", "NoExecute"))
    if dice.chance(0.05):
        made["operator"] = dice.pick(("", "Near"))
    return made


def _amounts(dice: Dice) -> Thing:
    amounts: Thing = {"memory": dice.pick(("1Gi", "1536Mi", "2Gi", "3Gi", "5Gi", "6Gi", "0"))}
    if dice.chance(0.3):
        amounts["cores"] = dice.pick(("1", "2", "1500m", "5"))
    if dice.chance(0.03):
        amounts["driver-a/memory"] = "1Gi"
    return amounts


def _constraint(dice: Dice, references: list[str]) -> Thing:
    names = ["driver-a/model", "driver-a/numa", "driver-a/ecc", "driver-a/version", "driver-a/index", ROOT]
    if "lists" in dice.themes:
        names += ["driver-a/nodes", "driver-a/roots", "driver-a/flags", "driver-a/apis", "driver-a/numa"]
    constraint: Thing = {
        dice.pick(("matchAttribute", "matchAttribute", "distinctAttribute")): dice.pick(names)
    }
    if dice.chance(0.4):
        constraint["requests"] = dice.some(references, 1)
    if dice.themed("errors", 0.05):
        constraint = {"requests": references[:1]}
    elif dice.chance(0.03):
        constraint |= {"matchAttribute": dice.pick(names), "distinctAttribute": dice.pick(names)}
    return constraint


def _config(dice: Dice, references: list[str]) -> Thing:
    config = _opaque(dice)
    if references and dice.chance(0.6):
        config["requests"] = dice.some(references, 1)
    return config
