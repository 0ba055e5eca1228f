package main

import (
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// MergeCase is one pod and what providers say about it.
type MergeCase struct {
	Setting
	Pod       Pod            `json:"pod"`
	Providers []ProviderCase `json:"providers"`
}

// ProviderCase has the hints by container and for the pod as a whole; Fails is the text of the error by container.
type ProviderCase struct {
	Containers map[string]Hints  `json:"containers"`
	Pod        Hints             `json:"pod"`
	Fails      map[string]string `json:"fails"`
}

// MergeAnswer has the first container's hints merged by the policy alone, and the admission through the scope.
type MergeAnswer struct {
	Name      string    `json:"name"`
	Error     string    `json:"error"`
	Merged    Hint      `json:"merged"`
	IsTaken   bool      `json:"isTaken"`
	Admission Admission `json:"admission"`
	Calls     []string  `json:"calls"`
}

func answerMerge(line []byte) any {
	var asked MergeCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return MergeAnswer{Error: "cannot read the case: " + err.Error()}
	}
	manager, err := asked.manager()
	if err != nil {
		return MergeAnswer{Name: asked.Name, Error: err.Error()}
	}
	answer := MergeAnswer{Name: asked.Name, Calls: []string{}}
	var hints []map[string][]topologymanager.TopologyHint
	first := asked.Pod.Containers[0].Name
	for _, provider := range asked.Providers {
		manager.AddHintProvider(klog.Background(), scripted{provider, &answer.Calls})
		hints = append(hints, provider.Containers[first].real())
	}
	merged, isTaken := manager.GetPolicy().Merge(klog.Background(), hints)
	answer.Merged, answer.IsTaken = Hint(merged), isTaken
	answer.Admission = admit(manager, asked.Pod.object())
	return answer
}

// scripted is a hint provider that says what the case says, and notes each Allocate.
type scripted struct {
	script ProviderCase
	calls  *[]string
}

func (s scripted) GetTopologyHints(_ *v1.Pod, container *v1.Container) map[string][]topologymanager.TopologyHint {
	return s.script.Containers[container.Name].real()
}

func (s scripted) GetPodTopologyHints(*v1.Pod) map[string][]topologymanager.TopologyHint {
	return s.script.Pod.real()
}

func (s scripted) AllocatePod(*v1.Pod) error { return nil }

func (s scripted) Allocate(_ *v1.Pod, container *v1.Container) error {
	*s.calls = append(*s.calls, container.Name)
	if text := s.script.Fails[container.Name]; text != "" {
		return errors.New(text)
	}
	return nil
}
