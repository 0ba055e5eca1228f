package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"
)

// workload is one line in: pods that are placed one after the other, as the scheduler does it. For each pod an allocator is
// made from a copy of the allocated state and asked for `tried` nodes (0: all) from where the last pod stopped, one after the
// other on one core; the pod gets the first node that fits, and its devices count as allocated for the next.
type workload struct {
	Name                     string                                                     `json:"name"`
	Features                 []string                                                   `json:"features"`
	Nodes                    []*v1.Node                                                 `json:"nodes"`
	Classes                  []*resourceapi.DeviceClass                                 `json:"classes"`
	Slices                   []*resourceapi.ResourceSlice                               `json:"slices"`
	Pods                     [][]*resourceapi.ResourceClaim                             `json:"pods"`
	Tried                    int                                                        `json:"tried"`
	AllocatedDevices         []string                                                   `json:"allocatedDevices"`
	AllocatedSharedDeviceIDs []string                                                   `json:"allocatedSharedDeviceIDs"`
	AllocatedCapacity        map[string]map[resourceapi.QualifiedName]resource.Quantity `json:"allocatedCapacity"`
}

// placement is the answer for one pod. AllocateMicros has one entry for each node tried, in order.
type placement struct {
	First          int                            `json:"first"`
	Feasible       []string                       `json:"feasible"`
	Node           string                         `json:"node"`
	Results        []resourceapi.AllocationResult `json:"results"`
	Error          string                         `json:"error"`
	NewMicros      float64                        `json:"newMicros"`
	AllocateMicros []float64                      `json:"allocateMicros"`
}

type benchAnswer struct {
	Name   string      `json:"name"`
	Error  string      `json:"error"`
	Pods   []placement `json:"pods"`
	Micros float64     `json:"micros"`
}

func answerBench(line []byte, tier string, limit time.Duration) benchAnswer {
	var input workload
	if err := json.Unmarshal(line, &input); err != nil {
		return benchAnswer{Name: input.Name, Error: "cannot read the workload: " + err.Error()}
	}
	answer := benchAnswer{Name: input.Name}
	features, err := allocatorFeatures(input.Features)
	if err == nil {
		enableTier(tier)
		err = runWorkload(&input, features, limit, &answer)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	for _, pod := range answer.Pods {
		answer.Micros += pod.NewMicros
		for _, micros := range pod.AllocateMicros {
			answer.Micros += micros
		}
	}
	return answer
}

func runWorkload(input *workload, features structured.Features, limit time.Duration, answer *benchAnswer) error {
	state, err := allocatedState(input.AllocatedDevices, input.AllocatedSharedDeviceIDs, input.AllocatedCapacity)
	if err != nil {
		return err
	}
	if len(input.Nodes) == 0 {
		return errors.New("no nodes")
	}
	tried := input.Tried
	if tried == 0 || tried > len(input.Nodes) {
		tried = len(input.Nodes)
	}
	cache := selectorCache(features)
	first := 0
	for _, claims := range input.Pods {
		pod := placement{First: first, Feasible: []string{}}
		start := time.Now()
		copied := structured.AllocatedState{
			AllocatedDevices:         state.AllocatedDevices.Clone(),
			AllocatedSharedDeviceIDs: state.AllocatedSharedDeviceIDs.Clone(),
			AggregatedCapacity:       state.AggregatedCapacity.Clone(),
		}
		allocator, err := structured.NewAllocator(
			context.Background(), features, copied, classLister(input.Classes), input.Slices, cache)
		pod.NewMicros = float64(time.Since(start).Nanoseconds()) / 1e3
		if err != nil {
			return err
		}
		for offset := range tried {
			node := input.Nodes[(first+offset)%len(input.Nodes)]
			if !pod.try(allocator, node, claims, limit) {
				break
			}
		}
		first = (first + tried) % len(input.Nodes)
		remember(&state, pod.Results)
		answer.Pods = append(answer.Pods, pod)
	}
	return nil
}

// try asks for one node; false ends the pod, as a fatal error does.
func (p *placement) try(
	allocator structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim, limit time.Duration,
) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	results, err := allocator.Allocate(ctx, node, claims)
	p.AllocateMicros = append(p.AllocateMicros, float64(time.Since(start).Nanoseconds())/1e3)
	if err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode) {
		p.Error = fmt.Sprintf("node %s: %v", node.Name, err)
		return false
	}
	if err != nil || results == nil {
		return true
	}
	p.Feasible = append(p.Feasible, node.Name)
	if p.Node == "" {
		p.Node, p.Results = node.Name, results
	}
	return true
}

// remember adds what the scheduler would gather from the allocated claims: nothing for admin access.
func remember(state *structured.AllocatedState, results []resourceapi.AllocationResult) {
	for _, result := range results {
		for _, device := range result.Devices.Results {
			if device.AdminAccess != nil && *device.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(device.Driver, device.Pool, device.Device)
			if device.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, device.ShareID))
			if device.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
			}
		}
	}
}
