from __future__ import annotations

import pytest

from dray.cdi.spec import (
    Edits,
    HookEdit,
    MountEdit,
    NetDeviceEdit,
    NodeEdit,
    RdtEdit,
    Spec,
    SpecDevice,
    read_spec,
)
from dray.cdi.validate import advice, check_spec, faults, file_advice, file_faults, load_spec
from dray.errors import InvalidError
from tests.campaign import seeds
from tests.cdi.generate import Generator, as_text

ENV = Edits(env=("A=1",))


def spec(edits: Edits, kind: str = "example.com/gpu") -> Spec:
    return Spec("1.1.0", kind, (SpecDevice("d", edits),))


def found(edits: Edits) -> list[str]:
    prefix = "devices[0].containerEdits."
    return [str(fault).removeprefix(prefix) for fault in faults(spec(edits))]


GOOD = [
    Edits(env=("A=", "A=b=c")),
    Edits(device_nodes=tuple(NodeEdit("/dev/x", type=kind) for kind in ("", "b", "c", "u", "p"))),
    Edits(
        device_nodes=tuple(NodeEdit("/dev/x", permissions=text) for text in ("", "r", "mrw", "none", "rr"))
    ),
    Edits(hooks=(HookEdit("poststop", "/bin/x", env=("A=1",)),)),
    Edits(mounts=(MountEdit("/a", "/b"),)),
    Edits(intel_rdt=RdtEdit()),
    Edits(intel_rdt=RdtEdit("/")),
    Edits(additional_gids=(0,)),
    Edits(net_devices=(NetDeviceEdit("a", "b"), NetDeviceEdit("b", "a"))),
]


@pytest.mark.parametrize("edits", GOOD)
def test_good_ones(edits: Edits) -> None:
    assert found(edits) == []
    check_spec(spec(edits))


BAD = [
    (Edits(env=("A", "=1", "")), ["env[0]: must be NAME=VALUE, not 'A'", "env[1]:", "env[2]:"]),
    (Edits(device_nodes=(NodeEdit(""),)), ["deviceNodes[0].path: must not be empty"]),
    (Edits(device_nodes=(NodeEdit("x", type="d"),)), ["deviceNodes[0].type: must be b (block)"]),
    (Edits(device_nodes=(NodeEdit("x", permissions="rx"),)), ["deviceNodes[0].permissions: must be some of"]),
    (
        Edits(hooks=(HookEdit("x", "", env=("A",)),)),
        ["hooks[0].hookName:", "hooks[0].path:", "hooks[0].env[0]:"],
    ),
    (Edits(mounts=(MountEdit("", ""),)), ["mounts[0].hostPath:", "mounts[0].containerPath:"]),
    (Edits(intel_rdt=RdtEdit("..")), ["intelRdt.closID: must be / or a file's name, not '..'"]),
    (Edits(intel_rdt=RdtEdit("a/b")), ["intelRdt.closID:"]),
    (Edits(intel_rdt=RdtEdit("a\n")), ["intelRdt.closID:"]),
    (Edits(intel_rdt=RdtEdit("ä" * 2048)), ["intelRdt.closID:"]),
    (
        Edits(net_devices=(NetDeviceEdit("", ""),)),
        ["netDevices[0].hostInterfaceName:", "netDevices[0].name:"],
    ),
    (
        Edits(net_devices=(NetDeviceEdit("a", "x"), NetDeviceEdit("a", "x"))),
        ["netDevices[1].hostInterfaceName: 'a' is there twice", "netDevices[1].name: 'x' is there twice"],
    ),
]


@pytest.mark.parametrize(("edits", "expected"), BAD)
def test_bad_ones(edits: Edits, expected: list[str]) -> None:
    told = found(edits)
    assert len(told) == len(expected)
    assert all(one.startswith(start) for one, start in zip(told, expected, strict=True))
    beside = Spec("1.1.0", "a/b", (SpecDevice("d", ENV),), edits)
    assert len(list(faults(beside))) == len(expected)


def test_every_fault_at_once() -> None:
    text = """\
cdiVersion: 0.3.0
kind: nonsense
devices:
- name: 0
  containerEdits:
    env: [B]
    deviceNode: []
- name: 0
  containerEdits: {}
containerEdits:
  mounts: x
"""
    with pytest.raises(InvalidError) as refused:
        load_spec(text, "f")
    assert [str(cause) for cause in refused.value.causes] == [
        "f:1: cdiVersion: must be 0.5.0 or newer: the name of a device starts with a digit",
        "f:2: kind: must be a vendor and a class, such as example.com/gpu, not 'nonsense'",
        "f:6: devices[0].containerEdits.env[0]: must be NAME=VALUE, not 'B'",
        'f:7: devices[0].containerEdits.deviceNode: unknown field: did you mean "deviceNodes"?',
        "f:8: devices[1].name: '0' is there twice",
        "f:9: devices[1].containerEdits: must not be empty: the device would change nothing",
        "f:11: containerEdits.mounts: must be a list",
    ]
    assert str(refused.value).endswith("(and 6 more)")


def test_what_follows_from_a_wrong_form_is_not_told_again() -> None:
    text = "cdiVersion: 1.0.0\nkind: a/b\ndevices:\n- name: [x]\n  containerEdits: {env: A=1}\n"
    assert [str(fault) for fault in file_faults(read_spec(text, "f"))] == [
        "f:4: devices[0].name: must be a string",
        "f:5: devices[0].containerEdits.env: must be a list",
    ]


def test_what_is_missing_is_told_where_it_should_be() -> None:
    assert [str(fault) for fault in file_faults(read_spec("{\n}", "f"))] == [
        "f: cdiVersion: '' is not a version of CDI: known are 0.3.0, 0.4.0, 0.5.0, 0.6.0, 0.7.0, 0.8.0, 1.0.0, 1.1.0",
        "f: kind: must be a vendor and a class, such as example.com/gpu, not ''",
        "f: devices: there must be one at least",
    ]


def test_a_spec_of_our_own_with_faults() -> None:
    with pytest.raises(
        InvalidError, match=r"CDI spec of 'a/b': devices\[0\].containerEdits: must not be empty"
    ):
        check_spec(spec(Edits(), "a/b"))


ADVICE = [
    (spec(ENV, "a_b/gpu"), "kind: the vendor 'a_b' should be a DNS name of at most 253 characters"),
    (spec(ENV, f"a/{'b' * 64}"), "kind: the class should have at most 63 characters"),
    (Spec("1.1.0", "a/b", (SpecDevice("d", ENV),), annotations={"a b": ""}), "annotations[a b]: name part "),
    (
        Spec("1.1.0", "a/b", (SpecDevice("d", ENV, {"a": "x" * 300_000}),)),
        "devices[0].annotations: may not be more than 262144 bytes",
    ),
    (spec(Edits(hooks=(HookEdit("prestart", "x"),))), "hooks[0].path: should be an absolute path, not 'x'"),
    (spec(Edits(hooks=(HookEdit("prestart", "/x", timeout=0),))), "hooks[0].timeout: should be more than 0"),
    (spec(Edits(mounts=(MountEdit("tmpfs", "x"),))), "mounts[0].containerPath: should be an absolute path"),
    (spec(Edits(net_devices=(NetDeviceEdit("eth0", "a" * 16),))), "netDevices[0].name: "),
    (spec(Edits(device_nodes=(NodeEdit("/x", "y"),))), "deviceNodes[0].hostPath: should be an absolute path"),
    (
        spec(Edits(device_nodes=(NodeEdit("/x", minor=-1),))),
        "deviceNodes[0].minor: should not be negative: -1",
    ),
    (
        spec(Edits(device_nodes=(NodeEdit("/x", file_mode=660),))),
        "deviceNodes[0].fileMode: 660 is 0o1224: for 0o660 write 432",
    ),
    (spec(Edits(device_nodes=(NodeEdit("/x", file_mode=0o20666),))), "deviceNodes[0].fileMode: should have"),
]


@pytest.mark.parametrize(("made", "expected"), ADVICE)
def test_advice(made: Spec, expected: str) -> None:
    assert list(faults(made)) == []
    told = [str(one).removeprefix("devices[0].containerEdits.") for one in advice(made)]
    assert [one.startswith(expected) for one in told] == [True], told


def test_good_ones_have_no_advice() -> None:
    assert list(advice(spec(Edits(device_nodes=(NodeEdit("/x", "/y", file_mode=0o660),))))) == []


def test_a_second_document_is_told() -> None:
    read = load_spec(
        "cdiVersion: 1.0.0\nkind: a/b\ndevices: [{name: d, containerEdits: {env: [A=1]}}]\n---\nx\n", "f"
    )
    assert [str(note) for note in file_advice(read)] == [
        "f:4: another document starts here: runtimes read only the first of a file"
    ]


def test_broken_texts_are_refused_and_nothing_else_happens() -> None:
    """Bytes changed, cut out and doubled: a spec or an InvalidError that starts with the file."""
    refused = 0
    for seed in seeds(400, 20_000):
        generator = Generator(seed)
        random, data = generator.random, bytearray(as_text(generator.spec()).encode())
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(data))
            data[at : at + random.choice([0, 1, 1, 20])] = random.choice(
                [b"", b"[", b"&a ", b"*a", b"\xff", b"- ", b"{", b"~", b"\n"]
            )
            data = data or bytearray(b"x")
        try:
            load_spec(bytes(data), "f")
        except InvalidError as error:
            refused += 1
            assert str(error).startswith("f:") and "\n" not in str(error)
    assert refused > 100
