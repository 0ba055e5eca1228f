package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

const listedWithin = 60 * time.Second

// LoadCase is a plugin that registers over the socket in Directory, and pods that are admitted one after another.
type LoadCase struct {
	Setting
	Directory string `json:"directory"`
	Resource  string `json:"resource"`
	Devices   int64  `json:"devices"`
	Pods      int    `json:"pods"`
	Each      int64  `json:"each"`
}

// LoadAnswer has the time of each admission, and the most memory that the process ever had resident.
type LoadAnswer struct {
	Name   string  `json:"name"`
	Error  string  `json:"error"`
	Micros []int64 `json:"micros"`
	PeakKB int64   `json:"peakKiB"`
}

func answerLoad(line []byte) any {
	var asked LoadCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return LoadAnswer{Error: "cannot read the load: " + err.Error()}
	}
	micros, err := asked.run()
	answer := LoadAnswer{Name: asked.Name, Micros: micros, PeakKB: peakKiB()}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (l LoadCase) run() ([]int64, error) {
	topology, err := l.manager()
	if err != nil {
		return nil, err
	}
	devices, err := newManagerImpl(klog.Background(), filepath.Join(l.Directory, "kubelet.sock"), l.topology(), topology)
	if err != nil {
		return nil, err
	}
	topology.AddHintProvider(klog.Background(), devices)
	var active []*v1.Pod
	activePods := func() []*v1.Pod { return active }
	if err := devices.Start(klog.Background(), activePods, ready{true}, containermap.NewContainerMap(), nil); err != nil {
		return nil, err
	}
	defer devices.Stop(klog.Background())
	if err := l.waitListed(devices); err != nil {
		return nil, err
	}
	handlers := []lifecycle.PodAdmitHandler{topology, l.predicates(devices)}
	pods := l.pods()
	var micros []int64
	for at, pod := range pods {
		started := time.Now()
		others := append([]*v1.Pod{}, pods[:at]...)
		active = pods[:at+1]
		for _, handler := range handlers {
			result := handler.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation})
			if !result.Admit {
				return nil, fmt.Errorf("pod %s was not admitted: %s", pod.Name, result.Message)
			}
		}
		micros = append(micros, time.Since(started).Microseconds())
	}
	return micros, nil
}

func (l LoadCase) waitListed(devices *devicemanager.ManagerImpl) error {
	for end := time.Now().Add(listedWithin); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		_, allocatable, _ := devices.GetCapacity()
		if count := allocatable[v1.ResourceName(l.Resource)]; count.Value() == l.Devices {
			return nil
		}
	}
	return errors.New("the plugin did not list its devices")
}

// predicates counts what the node has left, as the kubelet does behind the topology manager.
func (l LoadCase) predicates(devices *devicemanager.ManagerImpl) lifecycle.PodAdmitHandler {
	node := &v1.Node{}
	node.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse("64"),
		v1.ResourceMemory:           resource.MustParse("256Gi"),
		v1.ResourcePods:             resource.MustParse("100000"),
		v1.ResourceName(l.Resource): *resource.NewQuantity(l.Devices, resource.DecimalSI),
	}
	node.Status.Capacity = node.Status.Allocatable
	get := func(context.Context, bool) (*v1.Node, error) { return node, nil }
	return lifecycle.NewPredicateAdmitHandler(get, lifecycle.NewAdmissionFailureHandlerStub(), devices.UpdatePluginResources)
}

func (l LoadCase) pods() []*v1.Pod {
	var pods []*v1.Pod
	limits := map[string]int64{l.Resource: l.Each}
	for number := range l.Pods {
		uid := fmt.Sprintf("8c2f0d3e-0b7c-4d5e-9f5a-%012x", number)
		pods = append(pods, Pod{UID: uid, Containers: []Container{{Name: "main", Limits: limits}}}.object())
	}
	return pods
}

func peakKiB() int64 {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if rest, isPeak := strings.CutPrefix(lines.Text(), "VmHWM:"); isPeak {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib
		}
	}
	return 0
}

// MergeTimes has the fastest of some merges of the first container's hints.
type MergeTimes struct {
	Name   string `json:"name"`
	Error  string `json:"error"`
	Merged Hint   `json:"merged"`
	Nanos  int64  `json:"nanos"`
}

const mergeFor = 200 * time.Millisecond

// answerMergeTime takes a MergeCase, and merges at least once and for as long as mergeFor.
func answerMergeTime(line []byte) any {
	var asked MergeCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return MergeTimes{Error: "cannot read the case: " + err.Error()}
	}
	manager, err := asked.manager()
	if err != nil {
		return MergeTimes{Name: asked.Name, Error: err.Error()}
	}
	var hints []map[string][]topologymanager.TopologyHint
	for _, provider := range asked.Providers {
		hints = append(hints, provider.Containers[asked.Pod.Containers[0].Name].real())
	}
	answer := MergeTimes{Name: asked.Name}
	for end := time.Now().Add(mergeFor); answer.Nanos == 0 || time.Now().Before(end); {
		started := time.Now()
		merged, _ := manager.GetPolicy().Merge(klog.Background(), hints)
		if spent := time.Since(started).Nanoseconds(); answer.Nanos == 0 || spent < answer.Nanos {
			answer.Nanos = spent
		}
		answer.Merged = Hint(merged)
	}
	return answer
}
