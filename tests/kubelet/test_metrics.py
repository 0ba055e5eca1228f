from __future__ import annotations

import pytest

from dray.kubelet.metrics import MOST_NAMES, KubeletMetrics
from dray.runtime.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def kubelet(metrics: Metrics) -> KubeletMetrics:
    return KubeletMetrics(metrics)


def lines(metrics: Metrics) -> list[str]:
    return metrics.render().decode().splitlines()


NAMES = {
    "kubelet_device_plugin_registration_total": "counter",
    "kubelet_device_plugin_alloc_duration_seconds": "histogram",
    "kubelet_pod_resources_endpoint_requests_total": "counter",
    "kubelet_pod_resources_endpoint_requests_list": "counter",
    "kubelet_pod_resources_endpoint_requests_get_allocatable": "counter",
    "kubelet_pod_resources_endpoint_requests_get": "counter",
    "kubelet_pod_resources_endpoint_errors_list": "counter",
    "kubelet_pod_resources_endpoint_errors_get_allocatable": "counter",
    "kubelet_pod_resources_endpoint_errors_get": "counter",
    "kubelet_topology_manager_admission_requests_total": "counter",
    "kubelet_topology_manager_admission_errors_total": "counter",
    "kubelet_topology_manager_admission_duration_ms": "histogram",
    "kubelet_container_aligned_compute_resources_count": "counter",
    "kubelet_container_aligned_compute_resources_failure_count": "counter",
    "kubelet_admission_rejections_total": "counter",
    "plugin_manager_total_plugins": "gauge",
    "dray_device_plugin_devices": "gauge",
}


def test_the_names_are_the_kubelet_s(metrics: Metrics, kubelet: KubeletMetrics) -> None:
    kubelet.follow_devices(dict)
    kubelet.follow_plugins(lambda: ((), ()))
    told = dict(line.split()[2:4] for line in lines(metrics) if line.startswith("# TYPE"))
    assert told == NAMES


def test_devices_by_health(metrics: Metrics, kubelet: KubeletMetrics) -> None:
    kubelet.follow_devices(lambda: {"b.com/y": (0, 1), "a.com/x": (2, 0)})
    told = [line for line in lines(metrics) if line.startswith("dray_device")]
    assert told == [
        'dray_device_plugin_devices{resource_name="a.com/x",health="Healthy"} 2',
        'dray_device_plugin_devices{resource_name="a.com/x",health="Unhealthy"} 0',
        'dray_device_plugin_devices{resource_name="b.com/y",health="Healthy"} 0',
        'dray_device_plugin_devices{resource_name="b.com/y",health="Unhealthy"} 1',
    ]


def test_watched_sockets_by_state(metrics: Metrics, kubelet: KubeletMetrics) -> None:
    kubelet.follow_plugins(lambda: (["/r/b", "/r/a"], ["/r/a"]))
    told = [line for line in lines(metrics) if line.startswith("plugin_manager")]
    assert told == [
        'plugin_manager_total_plugins{socket_path="/r/a",state="actual_state_of_world"} 1',
        'plugin_manager_total_plugins{socket_path="/r/a",state="desired_state_of_world"} 1',
        'plugin_manager_total_plugins{socket_path="/r/b",state="desired_state_of_world"} 1',
    ]


def test_plain_counters_count(metrics: Metrics, kubelet: KubeletMetrics) -> None:
    kubelet.pod_resources.calls["list"].inc("v1")
    kubelet.pod_resources.calls["list"].inc("v1")
    assert 'kubelet_pod_resources_endpoint_requests_list{server_api_version="v1"} 2' in lines(metrics)


def test_alignment_begins_at_zero(metrics: Metrics, kubelet: KubeletMetrics) -> None:
    line = 'kubelet_container_aligned_compute_resources_failure_count{scope="pod",boundary="numa_node"} 0'
    assert line in lines(metrics)


def test_an_allocation_is_measured_in_the_kubelet_s_buckets(
    metrics: Metrics, kubelet: KubeletMetrics
) -> None:
    with pytest.raises(ValueError, match="failed"), kubelet.allocating("a.com/x"):
        raise ValueError("failed")
    told = [line for line in lines(metrics) if "alloc_duration_seconds_bucket" in line]
    assert [line.partition('le="')[2].partition('"')[0] for line in told] == [
        *("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf")
    ]
    assert 'kubelet_device_plugin_alloc_duration_seconds_count{resource_name="a.com/x"} 1.0' in lines(metrics)


def test_names_from_outside_do_not_grow_without_bound(metrics: Metrics, kubelet: KubeletMetrics) -> None:
    for number in range(MOST_NAMES + 5):
        kubelet.registration(f"a.com/{number}")
    kubelet.registration("a.com/7")
    told = [line for line in lines(metrics) if line.startswith("kubelet_device_plugin_registration_total{")]
    assert len(told) == MOST_NAMES + 1
    assert 'kubelet_device_plugin_registration_total{resource_name="other"} 5.0' in told
    assert 'kubelet_device_plugin_registration_total{resource_name="a.com/7"} 2.0' in told
