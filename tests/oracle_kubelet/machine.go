package main

import (
	"encoding/json"
	"errors"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Setting is the part that both kinds of cases share: the machine, and what the topology manager is told.
type Setting struct {
	Name      string            `json:"name"`
	Nodes     []int             `json:"nodes"`
	Distances map[int][]uint64  `json:"distances"`
	Policy    string            `json:"policy"`
	Scope     string            `json:"scope"`
	Options   map[string]string `json:"options"`
}

func (s Setting) topology() []cadvisor.Node {
	var nodes []cadvisor.Node
	for _, id := range s.Nodes {
		nodes = append(nodes, cadvisor.Node{Id: id, Distances: s.Distances[id]})
	}
	return nodes
}

func (s Setting) manager() (topologymanager.Manager, error) {
	return topologymanager.NewManager(s.topology(), s.Policy, s.Scope, s.Options)
}

// Pod is a pod with what it asks for; a sidecar is an init container that is restarted always.
type Pod struct {
	UID        string      `json:"uid"`
	Init       []Container `json:"init"`
	Containers []Container `json:"containers"`
}

// Container asks for Limits, by resource.
type Container struct {
	Name    string           `json:"name"`
	Sidecar bool             `json:"sidecar"`
	Limits  map[string]int64 `json:"limits"`
}

func (p Pod) object() *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.UID = p.UID, types.UID(p.UID)
	for _, container := range p.Init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container.object())
	}
	for _, container := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, container.object())
	}
	return pod
}

func (c Container) object() v1.Container {
	container := v1.Container{Name: c.Name}
	limits := v1.ResourceList{}
	for name, count := range c.Limits {
		limits[v1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	container.Resources = v1.ResourceRequirements{Limits: limits, Requests: limits}
	if c.Sidecar {
		always := v1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
	}
	return container
}

// Hint is written [mask or null, preferred].
type Hint topologymanager.TopologyHint

func (h Hint) MarshalJSON() ([]byte, error) {
	if h.NUMANodeAffinity == nil {
		return json.Marshal([]any{nil, h.Preferred})
	}
	var mask uint64
	for _, bit := range h.NUMANodeAffinity.GetBits() {
		mask |= 1 << bit
	}
	return json.Marshal([]any{mask, h.Preferred})
}

func (h *Hint) UnmarshalJSON(data []byte) error {
	var parts []any
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return errors.New("a hint has two parts")
	}
	h.Preferred = parts[1].(bool)
	if parts[0] == nil {
		return nil
	}
	var bits []int
	mask := uint64(parts[0].(float64))
	for bit := range 64 {
		if mask&(1<<bit) != 0 {
			bits = append(bits, bit)
		}
	}
	made, err := bitmask.NewBitMask(bits...)
	h.NUMANodeAffinity = made
	return err
}

// Hints is what one provider says, by resource.
type Hints map[string][]Hint

func (h Hints) real() map[string][]topologymanager.TopologyHint {
	if h == nil {
		return nil
	}
	all := map[string][]topologymanager.TopologyHint{}
	for name, hints := range h {
		if hints == nil {
			all[name] = nil
			continue
		}
		all[name] = []topologymanager.TopologyHint{}
		for _, hint := range hints {
			all[name] = append(all[name], topologymanager.TopologyHint(hint))
		}
	}
	return all
}

func written(all map[string][]topologymanager.TopologyHint) Hints {
	out := Hints{}
	for name, hints := range all {
		if hints == nil {
			out[name] = nil
			continue
		}
		out[name] = []Hint{}
		for _, hint := range hints {
			out[name] = append(out[name], Hint(hint))
		}
	}
	return out
}

// Admission is the answer to one pod.
type Admission struct {
	Admitted bool            `json:"admitted"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message"`
	Affinity map[string]Hint `json:"affinity"`
}

func admit(manager topologymanager.Manager, pod *v1.Pod) Admission {
	result := manager.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
	answer := Admission{result.Admit, result.Reason, result.Message, map[string]Hint{}}
	for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		answer.Affinity[container.Name] = Hint(manager.GetAffinity(string(pod.UID), container.Name))
	}
	return answer
}
