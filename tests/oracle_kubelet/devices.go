package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/info/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// The exported constructor always uses /var/lib/kubelet; this one takes the socket's path.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(klog.Logger, string, []cadvisor.Node, topologymanager.Store) (*devicemanager.ManagerImpl, error)

// DeviceCase is a machine with devices, of which some are held, and pods that come one after another.
type DeviceCase struct {
	Setting
	Resources map[string]Resource `json:"resources"`
	Held      []Held              `json:"held"`
	Pods      []Pod               `json:"pods"`
	// IsStarting: not all pods are known yet, and Running (pod, container) ran when the kubelet started.
	IsStarting bool        `json:"isStarting"`
	Running    [][2]string `json:"running"`
}

// Resource is one plugin. Preferred is its answer whatever the question, null where the plugin has no such call; the word in
// Fails is the call that fails (allocate, preferred).
type Resource struct {
	Devices   []Device `json:"devices"`
	Preferred []string `json:"preferred"`
	Fails     string   `json:"fails"`
}

// Device with nodes null has no topology at all.
type Device struct {
	ID      string  `json:"id"`
	Healthy bool    `json:"healthy"`
	Nodes   []int64 `json:"nodes"`
}

// Held is an allocation from before: of a pod that still runs.
type Held struct {
	Pod       string             `json:"pod"`
	Container string             `json:"container"`
	Resource  string             `json:"resource"`
	IDs       map[int64][]string `json:"ids"`
}

// PodAnswer is what became of a pod. Hints are those before its admission, by container and, as "", of the pod.
type PodAnswer struct {
	Admission
	Hints  map[string]Hints                     `json:"hints"`
	Grants map[string]map[string]map[string]int `json:"grants"`
	Asked  []Question                           `json:"asked"`
}

// Question is a GetPreferredAllocation.
type Question struct {
	Available   []string `json:"available"`
	MustInclude []string `json:"mustInclude"`
	Size        int32    `json:"size"`
}

// DeviceAnswer has an answer for each pod, in order.
type DeviceAnswer struct {
	Name  string      `json:"name"`
	Error string      `json:"error"`
	Pods  []PodAnswer `json:"pods"`
}

func answerDevices(line []byte) any {
	var asked DeviceCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return DeviceAnswer{Error: "cannot read the case: " + err.Error()}
	}
	answer, err := asked.run()
	if err != nil {
		return DeviceAnswer{Name: asked.Name, Error: err.Error()}
	}
	return answer
}

func (c DeviceCase) run() (DeviceAnswer, error) {
	answer := DeviceAnswer{Name: c.Name, Pods: []PodAnswer{}}
	topology, err := c.manager()
	if err != nil {
		return answer, err
	}
	directory, err := os.MkdirTemp("", "oracle-kubelet-")
	if err != nil {
		return answer, err
	}
	defer os.RemoveAll(directory)
	if err := c.writeCheckpoint(directory); err != nil {
		return answer, err
	}
	manager, err := newManagerImpl(klog.Background(), filepath.Join(directory, "kubelet.sock"), c.topology(), topology)
	if err != nil {
		return answer, err
	}
	topology.AddHintProvider(klog.Background(), manager)
	active := c.holders()
	activePods := func() []*v1.Pod { return active }
	containers, running := c.running()
	if err := manager.Start(klog.Background(), activePods, ready{!c.IsStarting}, containers, running); err != nil {
		return answer, err
	}
	defer manager.Stop(klog.Background())
	asked := &questions{}
	for name, resource := range c.Resources {
		plugin := &fakePlugin{name: name, resource: resource, asked: asked}
		if err := manager.PluginConnected(context.Background(), name, plugin); err != nil {
			return answer, err
		}
		manager.PluginListAndWatchReceiver(klog.Background(), name, resource.list())
	}
	for _, pod := range c.Pods {
		object := pod.object()
		active = append(active, object)
		admitted := admitPod(topology, manager, object, asked)
		answer.Pods = append(answer.Pods, admitted)
		if !admitted.Admitted {
			active = active[:len(active)-1]
		}
	}
	return answer, nil
}

func admitPod(topology topologymanager.Manager, manager *devicemanager.ManagerImpl, pod *v1.Pod, asked *questions) PodAnswer {
	answer := PodAnswer{Hints: map[string]Hints{}, Grants: map[string]map[string]map[string]int{}}
	containers := append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...)
	answer.Hints[""] = written(manager.GetPodTopologyHints(pod))
	for _, container := range containers {
		answer.Hints[container.Name] = written(manager.GetTopologyHints(pod, &container))
	}
	answer.Admission = admit(topology, pod)
	for _, container := range containers {
		byResource := map[string]map[string]int{}
		for name, devices := range manager.GetDevices(string(pod.UID), container.Name) {
			byResource[name] = map[string]int{}
			for _, device := range devices {
				byResource[name][whereabouts(device)]++
			}
		}
		answer.Grants[container.Name] = byResource
	}
	answer.Asked = asked.taken()
	return answer
}

// whereabouts is the NUMA nodes of a device as text: "0,1", or "" without topology.
func whereabouts(device *pluginapi.Device) string {
	var ids []int64
	for _, node := range device.GetTopology().GetNodes() {
		if node.ID >= 0 {
			ids = append(ids, node.ID)
		}
	}
	slices.Sort(ids)
	text := ""
	for at, id := range ids {
		if at > 0 {
			text += ","
		}
		text += strconv.FormatInt(id, 10)
	}
	return text
}

func (c DeviceCase) holders() []*v1.Pod {
	var pods []*v1.Pod
	for _, held := range c.Held {
		pods = append(pods, Pod{UID: held.Pod}.object())
	}
	return pods
}

func (c DeviceCase) writeCheckpoint(directory string) error {
	var entries []checkpoint.PodDevicesEntry
	for _, held := range c.Held {
		ids := checkpoint.NewDevicesPerNUMA()
		for node, some := range held.IDs {
			ids[node] = some
		}
		entries = append(entries, checkpoint.PodDevicesEntry{
			PodUID: held.Pod, ContainerName: held.Container, ResourceName: held.Resource, DeviceIDs: ids, AllocResp: []byte{},
		})
	}
	manager, err := checkpointmanager.NewCheckpointManager(directory)
	if err != nil {
		return err
	}
	return manager.CreateCheckpoint("kubelet_internal_checkpoint", checkpoint.New(entries, map[string][]string{}))
}

func (r Resource) list() *pluginapi.ListAndWatchResponse {
	response := &pluginapi.ListAndWatchResponse{}
	for _, device := range r.Devices {
		made := &pluginapi.Device{ID: device.ID, Health: pluginapi.Unhealthy}
		if device.Healthy {
			made.Health = pluginapi.Healthy
		}
		if device.Nodes != nil {
			made.Topology = &pluginapi.TopologyInfo{}
			for _, node := range device.Nodes {
				made.Topology.Nodes = append(made.Topology.Nodes, &pluginapi.NUMANode{ID: node})
			}
		}
		response.Devices = append(response.Devices, made)
	}
	return response
}

func (c DeviceCase) running() (containermap.ContainerMap, sets.Set[string]) {
	containers, ids := containermap.NewContainerMap(), sets.New[string]()
	for _, one := range c.Running {
		id := one[0] + "/" + one[1]
		containers.Add(one[0], one[1], id)
		ids.Insert(id)
	}
	return containers, ids
}

type ready struct{ isReady bool }

func (ready) AddSource(string) {}
func (r ready) AllReady() bool { return r.isReady }

// questions collects what plugins were asked.
type questions struct {
	lock sync.Mutex
	all  []Question
}

func (q *questions) add(question Question) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.all = append(q.all, question)
}

func (q *questions) taken() []Question {
	q.lock.Lock()
	defer q.lock.Unlock()
	all := q.all
	q.all = nil
	if all == nil {
		all = []Question{}
	}
	return all
}

// fakePlugin is a plugin and its client in one, without a socket.
type fakePlugin struct {
	name     string
	resource Resource
	asked    *questions
}

func (f *fakePlugin) API() pluginapi.DevicePluginClient { return f }
func (f *fakePlugin) Resource() string                  { return f.name }
func (f *fakePlugin) SocketPath() string                { return "/" + f.name }

func (f *fakePlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: f.resource.Preferred != nil}, nil
}

func (f *fakePlugin) ListAndWatch(context.Context, *pluginapi.Empty, ...grpc.CallOption) (pluginapi.DevicePlugin_ListAndWatchClient, error) {
	return nil, errors.New("not asked for")
}

func (f *fakePlugin) GetPreferredAllocation(_ context.Context, in *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	request := in.ContainerRequests[0]
	available := append([]string{}, request.AvailableDeviceIDs...)
	include := append([]string{}, request.MustIncludeDeviceIDs...)
	slices.Sort(available)
	slices.Sort(include)
	f.asked.add(Question{available, include, request.AllocationSize})
	if f.resource.Fails == "preferred" {
		return nil, errors.New("no answer")
	}
	return &pluginapi.PreferredAllocationResponse{
		ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: f.resource.Preferred}},
	}, nil
}

func (f *fakePlugin) Allocate(_ context.Context, in *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	if f.resource.Fails == "allocate" {
		return nil, errors.New("no devices today")
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

func (f *fakePlugin) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest, ...grpc.CallOption) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}
