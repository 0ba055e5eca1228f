"""Reasons and words as `kubectl describe pod` shows them on a node with a kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from dray.client.event_series import MESSAGE_MAX
from dray.errors import InvalidError, NotFoundError, UnavailableError
from dray.kubelet.pods import events
from dray.kubelet.pods.events import PodEvent
from dray.kubelet.rejection import Rejection
from tests.kubelet.pods.pods import pod

POD = pod("a", inits=("i",))
A = POD.spec.containers[0]
BROKEN = InvalidError("it broke")
ABOUT_A, ABOUT_I = "spec.containers{a}", "spec.initContainers{i}"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            events.rejected(POD, Rejection("UnexpectedAdmissionError", "Allocate failed due to x")),
            ("", "Warning", "UnexpectedAdmissionError", "Allocate failed due to x"),
        ),
        (
            events.not_prepared(POD, UnavailableError("prepare dynamic resources: no driver")),
            (
                "",
                "Warning",
                "FailedPrepareDynamicResources",
                "Failed to prepare dynamic resources: prepare dynamic resources: no driver",
            ),
        ),
        (
            events.not_unprepared(POD, BROKEN),
            (
                "",
                "Warning",
                "FailedUnprepareDynamicResources",
                "Failed to unprepare dynamic resources: it broke",
            ),
        ),
        (
            events.sandbox_changed(POD),
            ("", "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created."),
        ),
        (
            events.no_sandbox(POD, BROKEN),
            ("", "Warning", "FailedCreatePodSandBox", "Failed to create pod sandbox: it broke"),
        ),
        (
            events.not_mounted(POD, NotFoundError('volume v: configmap "c" not found')),
            (
                "",
                "Warning",
                "FailedMount",
                'Unable to attach or mount volumes: volume v: configmap "c" not found',
            ),
        ),
        (events.not_killed(POD, BROKEN), ("", "Warning", "FailedKillPod", "error killing pod: it broke")),
        (
            events.pulled(POD, A),
            (
                ABOUT_A,
                "Normal",
                "Pulled",
                'Container image "i" already present on machine and can be accessed by the pod',
            ),
        ),
        (
            events.not_pulled(POD, A, BROKEN),
            (ABOUT_A, "Warning", "Failed", 'Failed to pull image "i": it broke'),
        ),
        (events.created(POD, "a"), (ABOUT_A, "Normal", "Created", "Container created")),
        (events.started(POD, "i"), (ABOUT_I, "Normal", "Started", "Container started")),
        (events.failed(POD, "a", BROKEN), (ABOUT_A, "Warning", "Failed", "Error: it broke")),
        (
            events.failed(POD, "a", InvalidError("container f00d of f00d"), container_id="f00d"),
            (ABOUT_A, "Warning", "Failed", "Error: container a of a"),
        ),
        (events.killing(POD, "a"), (ABOUT_A, "Normal", "Killing", "Stopping container a")),
        (
            events.back_off(POD, "a"),
            (ABOUT_A, "Warning", "BackOff", "Back-off restarting failed container a in pod p_ns(u1)"),
        ),
    ],
)
def test_words_are_the_kubelets(event: PodEvent, expected: tuple[str, ...]) -> None:
    about = event.about
    assert (about.field_path, event.kind, event.reason, event.message) == expected
    assert (about.kind, about.api_version, about.namespace, about.name, about.uid) == (
        "Pod",
        "v1",
        "ns",
        "p",
        "u1",
    )


def test_a_long_message_is_cut() -> None:
    event = events.failed(POD, "a", InvalidError("x" * 5000))
    assert len(event.message) == MESSAGE_MAX
    assert event.message.endswith("x...")


PROBE = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize(
    ("main", "more", "expected"),
    [
        ({}, {}, None),
        ({"livenessProbe": {}, "lifecycle": {}}, {}, None),
        ({"lifecycle": {"stopSignal": "SIGUSR1"}}, {}, None),
        (
            {"livenessProbe": PROBE, "readinessProbe": PROBE, "startupProbe": PROBE},
            {},
            "livenessProbe, readinessProbe, startupProbe of container a",
        ),
        (
            {"lifecycle": {"preStop": PROBE, "postStart": PROBE}},
            {},
            "lifecycle.postStart, lifecycle.preStop of container a",
        ),
        (
            {
                "terminationMessagePath": "/dev/other",
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}],
                "volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "HostToContainer"}],
            },
            {"runtimeClassName": "kata"},
            (
                "runtimeClassName; terminationMessagePath, terminationMessagePolicy, volumeDevices, mountPropagation"
                " of container a"
            ),
        ),
        (
            {
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "None"}],
            },
            {},
            None,
        ),
        (
            {"readinessProbe": PROBE},
            {"ephemeralContainers": [{"name": "debug", "image": "i"}]},
            "readinessProbe of container a; ephemeral container debug",
        ),
        (
            {},
            {
                "initContainers": [
                    {"name": "s", "image": "i", "restartPolicy": "Always", "startupProbe": PROBE}
                ]
            },
            "startupProbe of container s",
        ),
    ],
)
def test_what_this_node_does_not_do_is_told(
    main: dict[str, Any], more: dict[str, Any], expected: str | None
) -> None:
    asked = pod(containers=[{"name": "a", "image": "i", **main}], **more)
    event = events.not_carried_out(asked)
    if expected is None:
        assert event is None
    else:
        assert event is not None
        assert (event.kind, event.reason) == ("Warning", "NotSupported")
        assert event.message == f"This node does not carry out: {expected}"
