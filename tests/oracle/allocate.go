package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// allocationCase is one line in. Unknown members (a recorded answer, say) are ignored.
type allocationCase struct {
	Name                     string                                                     `json:"name"`
	Tier                     string                                                     `json:"tier"`
	Features                 []string                                                   `json:"features"`
	Node                     *v1.Node                                                   `json:"node"`
	Classes                  []*resourceapi.DeviceClass                                 `json:"classes"`
	Slices                   []*resourceapi.ResourceSlice                               `json:"slices"`
	Claims                   []*resourceapi.ResourceClaim                               `json:"claims"`
	AllocatedDevices         []string                                                   `json:"allocatedDevices"`
	AllocatedSharedDeviceIDs []string                                                   `json:"allocatedSharedDeviceIDs"`
	AllocatedCapacity        map[string]map[resourceapi.QualifiedName]resource.Quantity `json:"allocatedCapacity"`
}

// allocationAnswer is one line out. Results is null where nothing fits. OnNode marks an error that concerns one node only,
// Aborted one that came from our time limit. Steps is the allocator's own count of search steps (0: it keeps none).
type allocationAnswer struct {
	Name    string                         `json:"name"`
	Results []resourceapi.AllocationResult `json:"results"`
	Error   string                         `json:"error"`
	OnNode  bool                           `json:"onNode,omitempty"`
	Aborted bool                           `json:"aborted,omitempty"`
	Steps   int64                          `json:"steps,omitempty"`
	Micros  float64                        `json:"micros"`
}

func answerAllocation(line []byte, tier string, limit time.Duration) (answer allocationAnswer) {
	var input allocationCase
	if err := json.Unmarshal(line, &input); err != nil {
		return allocationAnswer{Name: input.Name, Error: "cannot read the case: " + err.Error()}
	}
	answer.Name = input.Name
	defer func() {
		if caught := recover(); caught != nil {
			answer.Results, answer.Error = nil, fmt.Sprintf("panic: %v", caught)
		}
	}()
	features, err := allocatorFeatures(input.Features)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	state, err := allocatedState(input.AllocatedDevices, input.AllocatedSharedDeviceIDs, input.AllocatedCapacity)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	if input.Tier != "" {
		tier = input.Tier
	}
	enableTier(tier)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	allocator, err := structured.NewAllocator(ctx, features, state, classLister(input.Classes), input.Slices, selectorCache(features))
	if err == nil {
		answer.Results, err = allocator.Allocate(ctx, input.Node, input.Claims)
		answer.Steps = searchSteps(allocator)
	}
	answer.Micros = float64(time.Since(start).Nanoseconds()) / 1e3
	if err != nil {
		answer.Results, answer.Error = nil, err.Error()
		answer.OnNode = errors.Is(err, structured.ErrFailedAllocationOnNode)
		answer.Aborted = ctx.Err() != nil
	}
	return answer
}

func enableTier(tier string) {
	if tier == "auto" {
		structured.EnableAllocators()
		return
	}
	structured.EnableAllocators(tier)
}

// allocatorFeatures reads the names that the allocator's own feature set prints.
func allocatorFeatures(names []string) (structured.Features, error) {
	var features structured.Features
	members := map[string]*bool{
		"DRAAdminAccess":          &features.AdminAccess,
		"DRAConsumableCapacity":   &features.ConsumableCapacity,
		"DRADeviceTaints":         &features.DeviceTaints,
		"DRAListTypeAttributes":   &features.ListTypeAttributes,
		"DRAPartitionableDevices": &features.PartitionableDevices,
		"DRAPrioritizedList":      &features.PrioritizedList,
		"DRADeviceBindingConditions+DRAResourceClaimDeviceStatus": &features.DeviceBindingAndStatus,
	}
	for _, name := range names {
		member, known := members[name]
		if !known {
			return features, fmt.Errorf("unknown feature %q", name)
		}
		*member = true
	}
	return features, nil
}

var selectorCaches = map[cel.Features]*cel.Cache{}

// selectorCache keeps compiled selectors across cases: making a compiler for another feature set takes milliseconds.
func selectorCache(features structured.Features) *cel.Cache {
	wanted := selectorFeatures(features.ConsumableCapacity, features.ListTypeAttributes)
	if _, made := selectorCaches[wanted]; !made {
		selectorCaches[wanted] = cel.NewCache(200, wanted)
	}
	return selectorCaches[wanted]
}

func allocatedState(
	devices, shared []string, capacity map[string]map[resourceapi.QualifiedName]resource.Quantity,
) (structured.AllocatedState, error) {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, text := range devices {
		id, err := deviceID(text)
		if err != nil {
			return state, err
		}
		state.AllocatedDevices.Insert(id)
	}
	for _, text := range shared {
		end := strings.LastIndex(text, "/")
		if end < 0 {
			return state, fmt.Errorf("no share ID in %q", text)
		}
		id, err := deviceID(text[:end])
		if err != nil {
			return state, err
		}
		share := types.UID(text[end+1:])
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &share))
	}
	for text, consumed := range capacity {
		id, err := deviceID(text)
		if err != nil {
			return state, err
		}
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, consumed))
	}
	return state, nil
}

// deviceID reads "driver/pool/device". A pool name may hold slashes of its own.
func deviceID(text string) (structured.DeviceID, error) {
	first, last := strings.Index(text, "/"), strings.LastIndex(text, "/")
	if first == last {
		return structured.DeviceID{}, fmt.Errorf("%q is not driver/pool/device", text)
	}
	return structured.MakeDeviceID(text[:first], text[first+1:last], text[last+1:]), nil
}

type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

// Get fails with the words that the recorded cases hold.
func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "not found")
}

// searchSteps reads a counter of a type that cannot be named outside its module.
func searchSteps(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}
