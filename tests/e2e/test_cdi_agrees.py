"""Random CDI specs: our reading, our registry and our injection against the reference implementation.

The differences that stay are in docs/reference/cdi.md; each is told apart here, so that no other passes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from dray.cdi.host import host_stat
from dray.cdi.inject import inject
from dray.cdi.registry import Registry, read_registry
from dray.cdi.spec import Fault, Spec, read_spec, to_document
from dray.cdi.validate import file_faults, load_spec
from dray.cdi.versions import at_minimum_version, enforced_version, minimum_version
from dray.cdi.write import encode_spec
from dray.errors import Error, HardwareError, InvalidError
from tests.campaign import seeds
from tests.cdi.generate import Generator, as_text
from tests.oracle_cdi.program import CdiOracle

FIRST_SEED = 5_000_000


def test_specs_agree_with_the_reference() -> None:
    outcomes, wrong = Counter[str](), []
    with CdiOracle() as oracle:
        for seed in seeds(300, 20_000, first=FIRST_SEED):
            text = as_text(Generator(seed).spec())
            cause = _compare_spec(oracle, text)
            outcomes[cause] += 1
            if cause.startswith("wrong"):
                wrong.append(f"seed {seed}: {cause}\n{text}")
    print(dict(outcomes))
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:3])
    assert outcomes["both take it"] > 0.2 * outcomes.total() < 4 * outcomes["both refuse it"]


def _compare_spec(oracle: CdiOracle, text: str) -> str:
    theirs = oracle.ask({"ask": "validate", "text": text})
    read = read_spec(text, "spec.yaml")
    faults = file_faults(read)
    if not theirs["error"] and not faults:
        if enforced_version(read.spec) != theirs["minimum"]:
            return f"wrong: minimum {theirs['minimum']}"
        if _said(to_document(read.spec)) != _said(theirs["spec"]):
            return f"wrong: read as {theirs['spec']}"
        if refusal := _refusal_of_ours(oracle, read.spec):
            return f"wrong: it does not read what we write: {refusal}"
        same = minimum_version(read.spec) == theirs["minimum"]
        return "both take it" if same else "both take it, it needs a newer version"
    if theirs["error"] and faults:
        return "it breaks, we refuse" if theirs["panic"] else "both refuse it"
    if faults and all(map(_is_stricter, faults)):
        return "we refuse a fraction"
    return f"wrong: theirs {theirs['error']!r}, ours {[str(fault) for fault in faults]}"


def _said(value: Any) -> Any:
    """Without what is empty: the two differ in which of it they write."""
    if isinstance(value, dict):
        return {key: said for key, one in value.items() if (said := _said(one)) not in ({}, [], None)}
    return [_said(one) for one in value] if isinstance(value, list) else value


def _refusal_of_ours(oracle: CdiOracle, spec: Spec) -> str:
    """Both forms of a file that we write must come back as the same spec, at the lowest version."""
    lowest = at_minimum_version(spec)
    for ending in (".yaml", ".json"):
        text = encode_spec(lowest, ending).decode()
        answer = oracle.ask({"ask": "validate", "text": text})
        if answer["error"] or _said(answer["spec"]) != _said(to_document(lowest)):
            return f"{answer['error']} {text}"
        if read_spec(text, "spec").spec != lowest:
            return f"nor do we {text}"
    return ""


def _is_stricter(fault: Fault) -> bool:
    return fault.message == "must be a whole number, not '1.5'"


GOOD = 'cdiVersion: "0.7.0"\nkind: a.b/c\ndevices:\n- name: d\n  containerEdits: {env: [A=1]}\n'
TEXTS = [
    *("", "---\n", "null", "[]", "word", "# x\n", "{", GOOD, GOOD + "kind: a.b/c\n", GOOD + "x: 1\n"),
    *(
        GOOD + "---\n{{{\n",
        GOOD + "---\n" + GOOD,
        GOOD + "...\nfoo\n",
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
    ),
    *(
        GOOD + "<<: 3\n",
        GOOD + '"<<": {kind: x}\n',
        GOOD + "? [a]\n: 1\n",
        GOOD + "1: 1\n",
        "%YAML 1.1\n---\n" + GOOD,
    ),
    GOOD.replace("- name: d", "- &d\n  name: d") + "- <<: *d\n  name: e\n- {<<: [*d, {name: z}], name: f}\n",
    GOOD.replace("{env", "&e {env") + "- {name: e, containerEdits: *e}\n",
    *(GOOD + f"annotations: {text}\n" for text in ("", "{1: 2, true: ~}", "{a: [1]}", "[]", "x")),
    *(
        GOOD.replace("name: d", f"name: {text}")
        for text in ("", "0", "0x1F", "1e3", "true", "no", "2001-01-01")
    ),
    *(
        GOOD.replace("name: d", f"name: {text}")
        for text in ("!!str 5", "! 5", "*x", '"~"', "|\n    d", ">-\n    d")
    ),
    *(GOOD.replace("A=1", text) for text in ('"A=\\0"', '"A=\\ud83d"', "A=\x01", '"A=\\x41"', "A=😀", "~")),
    *(
        GOOD.replace("env: [A=1]", f"additionalGids: [{text}]")
        for text in [
            "-0",
            "1.0",
            "0b",
            "018",
            "0o8",
            "0O17",
            "0X1F",
            ".inf",
            "-0x1",
            "_1",
            "1__0_",
            "2001-01-01",
            "'1'",
            "1e400",
            "0",
            "~",
            "0660",
            "4294967296",
        ]
    ),
    '{\t"cdiVersion":\t"0.6.0",\n\t"kind": "a/c",\n\t"devices": [\n\t{"name": "d", "containerEdits": {"env": ["A=1"]}}]}',
]


def test_texts_agree_with_the_reference() -> None:
    wrong = []
    with CdiOracle() as oracle:
        for text in TEXTS:
            theirs = oracle.ask({"ask": "validate", "text": text})
            try:
                spec = _said(to_document(load_spec(text, "f").spec))
            except InvalidError:
                spec = None
            if spec != (None if theirs["error"] else _said(theirs["spec"])):
                wrong.append(f"{text!r}: {theirs['error']!r}, ours {spec}")
    assert wrong == []


def test_registries_and_injection_agree_with_the_reference(tmp_path: Path) -> None:
    outcomes, wrong = Counter[str](), []
    with CdiOracle() as oracle:
        for seed in seeds(300, 10_000, first=FIRST_SEED):
            generator = Generator(seed, fault_rate=0.004, fractions=False)
            directories = _write_directories(generator, tmp_path / str(seed))
            for cause in _compare_registry(oracle, generator, directories):
                outcomes[cause] += 1
                if cause.startswith("wrong"):
                    wrong.append(f"seed {seed}: {cause}")
    print(dict(outcomes))
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:3])
    assert min(outcomes[cause] for cause in ("injected", "unresolved", "nodes missing", "conflict")) > 10


def _write_directories(generator: Generator, root: Path) -> list[Path]:
    directories = [root / name for name in ("low", "high", "highest")][: generator.random.randint(1, 3)]
    for directory in directories:
        directory.mkdir(parents=True)
        for number in range(generator.random.randint(0, 3)):
            ending = generator.random.choice(["yaml", "json", "yaml", "txt"])
            (directory / f"{number}.{ending}").write_text(as_text(generator.spec()))
    return directories


def _compare_registry(oracle: CdiOracle, generator: Generator, directories: list[Path]) -> list[str]:
    ours = read_registry(directories)
    known = sorted((*ours.devices, *ours.conflicts))
    asked = generator.random.sample(known, min(len(known), generator.random.randint(1, 3)))
    if not asked or generator.chance(0.1):
        asked.append("example.com/gpu=none-such")
    container = generator.container()
    theirs = oracle.ask(
        {"ask": "registry", "dirs": [str(one) for one in directories], "oci": container, "devices": asked}
    )
    causes = ["conflict"] * len(ours.conflicts)
    if theirs["panic"]:
        return [*causes, "it breaks"]
    overridden = _lost_to_lower_conflicts(theirs, ours)
    causes += ["a conflict below hides it there"] * len(overridden)
    if set(ours.devices) - overridden != set(theirs["known"] or ()):
        causes.append(f"wrong devices: {sorted(ours.devices)} {theirs['known']}")
    unread = {
        path for path, faults in theirs["faults"].items() if any("failed to load" in one for one in faults)
    }
    if {str(broken.path) for broken in ours.broken} != unread:
        causes.append(f"wrong files: {[str(broken.path) for broken in ours.broken]} {theirs['faults']}")
    if not overridden & set(asked):
        causes.append(_compare_injection(oracle, ours, container, asked, theirs))
    return causes


def _lost_to_lower_conflicts(theirs: dict[str, Any], ours: Registry) -> set[str]:
    """Devices with one definition in the highest directory, which the reference drops for a conflict further down."""
    told = " ".join(one for faults in theirs["faults"].values() for one in faults)
    return {name for name in ours.devices if f'conflicting device "{name}"' in told}


def _compare_injection(
    oracle: CdiOracle, ours: Registry, container: dict[str, Any], asked: list[str], theirs: dict[str, Any]
) -> str:
    missing = [name for name in asked if name not in ours.devices]
    if missing or theirs["unresolved"]:
        return (
            "unresolved"
            if missing == theirs["unresolved"]
            else f"wrong unresolved: {missing} {theirs['unresolved']}"
        )
    try:
        edited = inject(container, ours, asked, host_stat)
    except HardwareError as error:
        return "nodes missing" if theirs["error"] else f"wrong: {error}"
    except Error as error:
        return f"wrong: {error}"
    if theirs["error"]:
        return f"wrong: theirs {theirs['error']}"
    normal = oracle.ask({"ask": "normal", "oci": edited})["oci"]
    expected = _without_repeated_rules(theirs["oci"], container)
    return "injected" if normal == expected else f"wrong: {normal}\n  expected {expected}"


def _without_repeated_rules(spec: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    resources = spec.get("linux", {}).get("resources", {})
    start = len(before.get("linux", {}).get("resources", {}).get("devices", []))
    rules: list[Any] = resources.get("devices", [])
    kept = rules[:start]
    for rule in rules[start:]:
        if rule not in kept[start:]:
            kept.append(rule)
    if rules:
        resources["devices"] = kept
    return spec


def test_the_reference_still_differs_where_the_page_says_so(tmp_path: Path) -> None:
    """docs/reference/cdi.md tells these; when one fails, the reference has changed and the page must too."""
    low, high, file = tmp_path / "low", tmp_path / "high", tmp_path / "file"
    file.touch()
    for directory in (low, high):
        directory.mkdir()
    hook = GOOD.replace("env: [A=1]", "hooks: [{hookName: poststop, path: /x}]")
    (high / "a.yaml").write_text(hook)
    with CdiOracle() as oracle:

        def ask(*directories: Path, devices: tuple[str, ...] = ()) -> dict[str, Any]:
            return oracle.ask(
                {"ask": "registry", "dirs": list(map(str, directories)), "oci": {}, "devices": devices}
            )

        assert (ask(high)["known"], ask(file, high)["known"]) == (["a.b/c=d"], None)
        assert list(read_registry([file, high]).devices) == ["a.b/c=d"]
        twice = ask(high, devices=("a.b/c=d", "a.b/c=d"))["oci"]
        assert len(twice["hooks"]["poststop"]) == 2
        ours = inject({}, read_registry([high]), ["a.b/c=d", "a.b/c=d"], host_stat)
        assert len(ours["hooks"]["poststop"]) == 1
        for name in "ab":
            (low / f"{name}.yaml").write_text(hook)
        assert ask(low, high)["known"] is None
        assert list(read_registry([low, high]).devices) == ["a.b/c=d"]
        for text in (
            GOOD + "- ~\n",
            GOOD + 'annotations: {"no key": x}\n',
            GOOD.replace("name: d", "name: !foo d"),
        ):
            assert not oracle.ask({"ask": "validate", "text": text})["error"]
        nothing = GOOD.replace("env: [A=1]", "mounts: [~]")
        assert oracle.ask({"ask": "validate", "text": nothing})["panic"]
        for text in ("%YAML 1.2\n---\n" + GOOD, GOOD.replace("A=1", '"A=\\/"')):
            assert oracle.ask({"ask": "validate", "text": text})["error"]
            load_spec(text, "f")
