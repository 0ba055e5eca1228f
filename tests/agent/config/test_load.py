from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.agent.config import AgentConfig, Role, load_agent_config, served
from dray.api.codec import dump_yaml
from dray.api.field_errors import FieldError, Reason
from dray.drivers.sim import sim_drivers
from dray.errors import InvalidError
from dray.runtime.clock import FakeClock
from tests.campaign import campaign

FILE = """
permittedHostDevices:
  pciHostDevices:
  - pciVendorSelector: 10DE:1EB8
    resourceName: nvidia.com/TU104GL
network: {defaultNetworkInterface: masquerade}
dray:
  nodeLabels: {gpu: t4}
  sim: {devices: [{name: gpu, count: 8}]}
"""

OBJECT = """
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt}
spec:
  workloads: {}
  configuration:
    fieldOfTomorrow: 1
    permittedHostDevices:
      pciHostDevices:
      - pciVendorSelector: 10DE:1EB8
        resourceName: nvidia.com/TU104GL
        externalResourceProvider: true
"""


def _refused(text: str | bytes, source: str = "agent.yaml") -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        load_agent_config(text, source)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(source)
    return caught.value


def _faults(text: str) -> list[str]:
    return [cause.field for cause in _refused(text).causes]


def test_a_file() -> None:
    config = load_agent_config(FILE, "agent.yaml")
    assert config.source == "agent.yaml"
    assert config.role is Role.REPLACE
    assert config.additions.node_labels == {"gpu": "t4"}
    assert [entry.ids[-1] for entry in config.additions.sim.devices] == ["gpu-7"]
    assert config.additions.domain == "dray.internal"
    assert config.configuration.permitted_host_devices is not None
    assert config.notes == ()


def test_a_kubevirt_object() -> None:
    config = load_agent_config(OBJECT, "kubevirt.yaml")
    assert config.role is Role.BESIDE_KUBEVIRT
    assert [rule.resource for rule in served(config).pci] == ["nvidia.com/TU104GL"]


def test_json_is_the_same_as_yaml() -> None:
    document = {"virtualMachineInstancesPerNode": 5, "dray": {"role": "beside-kubevirt"}}
    as_json, as_yaml = json.dumps(document, indent=1), dump_yaml(document)
    assert load_agent_config(as_json, "x") == load_agent_config(as_yaml.encode(), "x")


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("{}", Role.REPLACE),
        ("dray: {role: replace}", Role.REPLACE),
        ("dray: {role: beside-kubevirt}", Role.BESIDE_KUBEVIRT),
        ("dray: null", Role.REPLACE),
        ("{apiVersion: kubevirt.io/v1, kind: KubeVirt}", Role.BESIDE_KUBEVIRT),
        ("{apiVersion: kubevirt.io/v1, kind: KubeVirt, dray: {role: replace}}", Role.REPLACE),
        ("{apiVersion: kubevirt.io/v1alpha3, kind: KubeVirt, spec: null}", Role.BESIDE_KUBEVIRT),
    ],
)
def test_role(text: str, role: Role) -> None:
    assert load_agent_config(text, "x").role is role


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; write {}"),
        ("# nothing\n", "is empty"),
        ("[]", "agent.yaml:1: must be a map"),
        ("just words", "agent.yaml:1: must be a map"),
        ("a: b\n---\nc: d\n", "agent.yaml:3: a second document"),
        ("a: [\n", "agent.yaml:2:1: "),
        ("a: b\n\tc: d", "agent.yaml:2:1: "),
        ("a: 1\na: 2", "agent.yaml:2:1: the key 'a' is there twice"),
        ('{"a": 1,}', "agent.yaml:1:"),
        (b"\xff\xfe\xff", "agent.yaml"),
    ],
)
def test_what_is_no_configuration_at_all(text: str | bytes, message: str) -> None:
    assert message in str(_refused(text))


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("permitedHostDevices: {}", "permitedHostDevices", 'did you mean "permittedHostDevices"?'),
        ("Dray: {}", "Dray", 'did you mean "dray"?'),
        ("role: replace", "role", 'did you mean "dray.role"?'),
        ("pciHostDevices: []", "pciHostDevices", 'did you mean "permittedHostDevices.pciHostDevices"?'),
        ("featuregates: []", "featuregates", 'did you mean "developerConfiguration.featureGates"?'),
        ("zebra: 1", "zebra", "KubeVirt's configuration has none of this name"),
        ("dray: {rolle: x}", "dray.rolle", 'did you mean "role"?'),
        ("dray: {zebra: x}", "dray.zebra", "known are domain, doors, dra, generic, nodeLabels"),
        ("dray: {select: [{pciAdress: x, pciAddress: '0000:05:00.0', resourceName: a.b/c}]}", "dray.select[0].pciAdress", 'did you mean "pciAddress"?'),
        ("dray: 5", "dray", "must be a map"),
        ("{kind: KubeVirt, apiVersion: kubevirt.io/v1, speck: {}}", "speck", 'did you mean "spec"?'),
        ("{kind: Pod, apiVersion: kubevirt.io/v1}", "kind", "must be \"KubeVirt\", not 'Pod'"),
        ("{kind: KubeVirt, apiVersion: v1}", "apiVersion", 'must be "kubevirt.io/v1"'),
        ("{kind: KubeVirt}", "apiVersion", "not None"),
        ("{kind: KubeVirt, apiVersion: kubevirt.io/v1, spec: []}", "spec", "must be a map"),
        ("{kind: KubeVirt, apiVersion: kubevirt.io/v1, spec: {configuration: 1}}", "spec.configuration", "must be a map"),
        ("virtualMachineInstancesPerNode: many", "virtualMachineInstancesPerNode", "expected `int"),
        ("permittedHostDevices: {usb: [{resourceName: a.b/c, selectors: [{vendor: 1050, product: '1'}]}]}", "permittedHostDevices.usb[0].selectors[0].vendor", "put it in quotes"),
        ("dray: {nodeLabels: {a.b/c: 1}}", "dray.nodeLabels[a.b/c]", "put it in quotes"),
        ("dray: {sim: {device: []}}", "dray.sim.device", 'did you mean "devices"?'),
        ("dray: {sim: {devices: [{name: gpu, size: 1}]}}", "dray.sim.devices[0].size", "there is no setting of this name here"),
        ("dray: {sim: {devices: [{name: gpu, preStart: {action: reset, second: 1}}]}}", "dray.sim.devices[0].preStart.second", 'did you mean "seconds"?'),
        ("dray: {sim: {devices: [{name: gpu, preStart: reset}]}}", "dray.sim.devices[0].preStart", "expected `object | null`"),
        ("dray: {sim: {devices: [{name: gpu, attributes: {speed: 1.5}}]}}", "dray.sim.devices[0].attributes[speed]", "expected"),
        ("dray: {sim: {devices: [{name: gpu}], faults: [{device: gpu-1}]}}", "dray.sim.faults[0].device", "the ids are gpu-0 to gpu-0"),
        ("dray: {sim: {devices: [{name: gpu}], faults: [{device: gpu-0, afterSeconds: soon}]}}", "dray.sim.faults[0].afterSeconds", "expected `float"),
        ("dray: {sim: {devices: [{name: gpu}], faults: [{device: gpu-0, afterSeconds: 1e300}]}}", "dray.sim.faults[0].afterSeconds", "must be between 0 and 1000000000 seconds"),
        ("dray: {sim: 8}", "dray.sim", "expected `object`"),
        ("dray: {doors: {pci: DRA}}", "dray.doors[pci]", 'supported values: "plugin", "dra", "both"'),
        ("dray: {doors: {a.com/gpu: true}}", "dray.doors[a.com/gpu]", "put it in quotes"),
        ("dray: {doors: {'a b': dra}}", "dray.doors[a b]", "a kind like 'pci', or a resource like 'example.com/gpu'"),
        ("dray: {doors: dra}", "dray.doors", "expected `object`"),
        ("dray: {dra: {createclasses: false}}", "dray.dra.createclasses", 'did you mean "createClasses"?'),
        ("dray: {dra: {metadata: 1}}", "dray.dra.metadata", "expected `bool`"),
        ("dray: {role: besides}", "dray.role", '"replace", "beside-kubevirt"'),
    ],
)  # fmt: skip
def test_one_fault(text: str, field: str, message: str) -> None:
    error = _refused(text)
    assert [cause.field for cause in error.causes] == [field]
    assert error.field == field
    assert message in str(error)


def test_unknown_fields_of_kubevirt_below_the_top_are_left_alone() -> None:
    load_agent_config("developerConfiguration: {useEmulation: true}\nnetwork: {x: 1}", "x")


SIM_BAD = """\
dray:
  domain: example.com
  sim:
    devices:
    - name: gpu
      shape: tpu
    - name: nic
      count: 0
      preStart:
        action: explode
        secnds: 3
    faults:
    - device: gpu-0
      forSeconds: 1
      everySeconds: 1
"""


def test_faults_of_simulated_devices_have_their_lines() -> None:
    error = _refused(SIM_BAD)
    for place in (
        "agent.yaml:5: dray.sim.devices[0].shape: Unsupported value",
        "agent.yaml:7: dray.sim.devices[1].count: Invalid value",
        "agent.yaml:10: dray.sim.devices[1].preStart.action: Unsupported value",
        "agent.yaml:10: dray.sim.devices[1].preStart.secnds: unknown field",
        "agent.yaml:13: dray.sim.faults[0].everySeconds: Invalid value",
    ):
        assert place in str(error)
    assert len(error.causes) == 5


BAD = """\
permittedHostDevices:
  pciHostDevices:
  - pciVendorSelector: 10DE
    resourceName: nvidia.com/TU104GL
  - 5
  - pciVendorSelector: 10DE:0001
    resourceName: [gpu]
  usb: none
virtualMachineInstancesPerNode: 0
dray:
  role: both
  generic:
  - name: fuse
    path: dev/fuse
    count: x
  unknown: 1
"""


def test_all_faults_at_once_each_with_its_line() -> None:
    error = _refused(BAD)
    assert sorted(cause.field for cause in error.causes) == [
        "dray.generic[0].count",
        "dray.generic[0].path",
        "dray.role",
        "dray.unknown",
        "permittedHostDevices.pciHostDevices[0].pciVendorSelector",
        "permittedHostDevices.pciHostDevices[1]",
        "permittedHostDevices.pciHostDevices[2].resourceName",
        "permittedHostDevices.usb",
        "virtualMachineInstancesPerNode",
    ]
    text = str(error)
    assert "agent.yaml:3: permittedHostDevices.pciHostDevices[0].pciVendorSelector: Invalid value" in text
    assert "agent.yaml:6: permittedHostDevices.pciHostDevices[2].resourceName: expected `str`" in text
    assert "agent.yaml:13: dray.generic[0].path" in text
    assert "agent.yaml:11: dray.role: Unsupported value" in text


def test_faults_of_an_object_have_the_path_in_the_object() -> None:
    assert _faults(OBJECT.replace("10DE:1EB8", "T4")) == [
        "spec.configuration.permittedHostDevices.pciHostDevices[0].pciVendorSelector"
    ]


def test_deprecated_things_are_noted() -> None:
    text = """
    mediatedDevicesConfiguration: {nodeMediatedDeviceTypes: [{mediatedDevicesTypes: [a]}]}
    developerConfiguration: {featureGates: [DisableMDEVConfiguration]}
    """
    notes = load_agent_config(text, "x").notes
    assert [note.split(" is ")[0] for note in notes] == [
        "mediatedDevicesTypes",
        "the gate DisableMDEVConfiguration",
    ]


VOCABULARY = """apiVersion kind spec configuration dray permittedHostDevices pciHostDevices mediatedDevices usb selectors
    pciVendorSelector mdevNameSelector resourceName externalResourceProvider vendor product role unit domain generic
    select vgpuProfiles sim nodeLabels name path glob count preOpen pciAddress usbPort usbSerial address profile
    mediatedDevicesConfiguration mediatedDeviceTypes mediatedDevicesTypes nodeMediatedDeviceTypes nodeSelector enabled
    virtualMachineInstancesPerNode developerConfiguration featureGates hypervisors confidentialCompute tdx
    attestation qgsSocketPath devices shape shares attributes preStart action reset faults device gpu-0 gpu KubeVirt kubevirt.io/v1 replace beside-kubevirt 10de:1eb8 0000:05:00.0 1-2.3 a.b/c
    /dev/fuse /dev/tty* 46f4 [0] a.b ] kvm"""
WORDS = st.sampled_from(VOCABULARY.split())
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)
NAMES = st.sampled_from(["a.com/x", "a.com/y", "b.com/x", "devices.kubevirt.io/kvm"]) | LEAVES
PCI = st.fixed_dictionaries(
    {},
    optional={
        "pciVendorSelector": st.sampled_from(["10de:1eb8", "10DE:1EB8", "8086:0001"]) | LEAVES,
        "resourceName": NAMES,
        "externalResourceProvider": st.booleans() | LEAVES,
    },
)
USB = st.fixed_dictionaries(
    {"selectors": st.lists(st.fixed_dictionaries({"vendor": WORDS, "product": LEAVES}), max_size=2) | VALUES},
    optional={"resourceName": NAMES, "externalResourceProvider": st.booleans()},
)
SIM = st.fixed_dictionaries(
    {},
    optional={
        "devices": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["gpu", "nic"]) | LEAVES},
                optional={
                    "count": st.integers(0, 3) | LEAVES,
                    "shares": st.integers(0, 3) | LEAVES,
                    "numaNodes": st.integers(0, 4),
                    "pcieRoots": st.integers(0, 4) | LEAVES,
                    "resourceName": NAMES,
                    "attributes": VALUES,
                    "preStart": st.fixed_dictionaries({"action": WORDS, "seconds": LEAVES}) | VALUES,
                },
            ),
            max_size=3,
        ),
        "faults": st.lists(
            st.fixed_dictionaries(
                {"device": st.sampled_from(["gpu-0", "nic-1"])},
                optional={"afterSeconds": LEAVES, "forSeconds": LEAVES, "whileFile": WORDS, "gone": LEAVES},
            ),
            max_size=2,
        ),
    },
)
ADDED = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["replace", "beside-kubevirt"]) | LEAVES,
        "generic": st.lists(st.fixed_dictionaries({"name": WORDS, "path": WORDS}), max_size=3) | VALUES,
        "select": st.lists(
            st.fixed_dictionaries({"resourceName": NAMES}, optional={"pciAddress": WORDS, "usbPort": WORDS}),
            max_size=3,
        ),
        "vgpuProfiles": VALUES,
        "sim": SIM | VALUES,
        "nodeLabels": VALUES,
        "unit": LEAVES,
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "permittedHostDevices": st.fixed_dictionaries(
            {},
            optional={"pciHostDevices": st.lists(PCI | VALUES, max_size=4), "usb": st.lists(USB, max_size=3)},
        ),
        "mediatedDevicesConfiguration": VALUES,
        "developerConfiguration": VALUES,
        "hypervisors": VALUES,
        "dray": ADDED | VALUES,
    },
)


def _load(text: str) -> AgentConfig | None:
    try:
        return load_agent_config(text, "f")
    except InvalidError as error:
        assert "\n" not in str(error)
        assert all(isinstance(cause, FieldError) for cause in error.causes)
        return None


@settings(max_examples=campaign(150, 20_000))
@given(VALUES | DOCUMENTS, st.booleans())
def test_random_documents(document: Any, wrapped: bool) -> None:
    """Never anything but InvalidError; what loads can be served, gives no resource to two kinds, and loads again."""
    if wrapped:
        document = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "spec": {"configuration": document}}
    text = json.dumps(document)
    config = _load(text)
    if config is None:
        return
    result = served(config)
    kinds = (result.generic, result.sockets, result.pci, result.mdevs, result.usb)
    resources = [name for rules in kinds for name in {rule.resource for rule in rules}]
    resources += {entry.resource_name for entry in result.sim.devices}
    assert len(resources) == len(set(resources))
    assert result == served(load_agent_config(text, "f"))
    sim_drivers(result.sim, FakeClock())  # takes what was let through
    selectors = [rule.selector for rule in result.pci if rule.selector]
    assert len(selectors) == len(set(selectors))


@settings(max_examples=campaign(150, 20_000))
@given(st.text(max_size=60) | st.lists(WORDS | st.sampled_from([": ", "\n", "  ", "- ", "{", "}", "[", "]", "&a ", "*a"]), max_size=20).map("".join))  # fmt: skip
def test_random_texts(text: str) -> None:
    _load(text)


@settings(max_examples=campaign(50, 5_000))
@given(st.data())
def test_breaking_one_value_names_that_value(data: st.DataObject) -> None:
    """A good file with one value replaced by a value of another type: one fault, at that place."""
    entries = [{"pciVendorSelector": f"10de:000{at}", "resourceName": f"a.com/x{at}"} for at in range(4)]
    at = data.draw(st.integers(0, 3))
    field = data.draw(st.sampled_from(sorted(entries[at])))
    entries[at][field] = data.draw(st.sampled_from([5, 1.5, True, [], {}]))  # type: ignore[assignment]
    error = _refused(json.dumps({"permittedHostDevices": {"pciHostDevices": entries}}))
    assert [(cause.field, cause.reason) for cause in error.causes] == [
        (f"permittedHostDevices.pciHostDevices[{at}].{field}", Reason.TYPE_INVALID)
    ]
