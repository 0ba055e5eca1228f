package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func objects(asked question) []runtime.Object {
	found := []runtime.Object{}
	add(&found, asked.Nodes)
	add(&found, asked.Pods)
	add(&found, asked.Claims)
	add(&found, asked.Classes)
	add(&found, asked.Slices)
	add(&found, asked.Rules)
	add(&found, asked.Namespaces)
	add(&found, asked.Volumes)
	add(&found, asked.VolumeClaims)
	add(&found, asked.StorageClasses)
	return found
}

func add[T runtime.Object](found *[]runtime.Object, some []T) {
	for _, one := range some {
		*found = append(*found, one)
	}
}

// started gives the profile of a scheduler that has seen the whole cluster. It takes no pods from its queue.
func started(ctx context.Context, asked question) framework.Framework {
	client := fake.NewClientset(objects(asked)...)
	factory := scheduler.NewInformerFactory(client, 0)
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	sched, err := scheduler.New(ctx, client, factory, nil, recorder)
	if err != nil {
		panic(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	time.Sleep(2 * time.Millisecond) // Enough as a rule; the next line looks at once and then after 100 ms.
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		panic(err)
	}
	profile := sched.Profiles[v1.DefaultSchedulerName]
	snapshot := profile.SnapshotSharedLister().(*cache.Snapshot)
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		panic(err)
	}
	seen, err := snapshot.NodeInfos().List()
	if err != nil || len(seen) != len(asked.Nodes) {
		panic(fmt.Sprintf("%d of %d nodes: %v", len(seen), len(asked.Nodes), err))
	}
	return profile
}

func decided(asked question) answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	profile := started(ctx, asked)
	result := answer{Pods: []podAnswer{}}
	for _, pod := range asked.Asked {
		result.Pods = append(result.Pods, about(ctx, profile, pod))
	}
	if asked.Reserve != "" {
		reserved(ctx, profile, asked, &result)
	}
	return result
}

func about(ctx context.Context, profile framework.Framework, pod *v1.Pod) podAnswer {
	for _, plugin := range profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			said := told(status)
			said.Plugin = plugin.Name()
			return podAnswer{PreEnqueue: &said}
		}
	}
	state := framework.NewCycleState()
	only, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		said := told(status)
		return podAnswer{PreFilter: &said}
	}
	nodes, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		panic(err)
	}
	result := podAnswer{Nodes: map[string]verdict{}}
	for _, node := range nodes {
		name := node.Node().Name
		if !only.AllNodes() && !only.NodeNames.Has(name) {
			continue
		}
		result.Nodes[name] = told(profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node))
	}
	return result
}

// reserved puts the last pod on the node as far as devices and volumes go, and tells what it got.
func reserved(ctx context.Context, profile framework.Framework, asked question, result *answer) {
	pod, claims := asked.Asked[len(asked.Asked)-1], profile.SharedDRAManager().ResourceClaims()
	node, err := profile.SnapshotSharedLister().NodeInfos().Get(asked.Reserve)
	if err != nil {
		panic(err)
	}
	state := framework.NewCycleState()
	_, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if status.IsSuccess() {
		status = profile.RunFilterPlugins(ctx, state, pod, node)
	}
	before := inUse(claims)
	if status.IsSuccess() {
		status = profile.RunReservePluginsReserve(ctx, state, pod, asked.Reserve)
	}
	said := told(status)
	result.Reserve = &said
	result.Reserved = map[string]*resourceapi.AllocationResult{}
	for _, claim := range asked.Claims {
		if pending := claims.GetPendingAllocation(claim.UID); pending != nil {
			result.Reserved[claim.Namespace+"/"+claim.Name] = pending
		}
	}
	for device, count := range inUse(claims) {
		for range count - before[device] {
			result.Devices = append(result.Devices, device)
		}
	}
	sort.Strings(result.Devices)
}

// inUse counts the shares of each device; a whole one is one share.
func inUse(claims fwk.ResourceClaimTracker) map[string]int {
	state, err := claims.GatherAllocatedState()
	if err != nil {
		panic(err)
	}
	found := map[string]int{}
	for device := range state.AllocatedDevices {
		found[device.String()]++
	}
	for share := range state.AllocatedSharedDeviceIDs {
		found[share.Driver.String()+"/"+share.Pool.String()+"/"+share.Device.String()]++
	}
	return found
}

func told(status *fwk.Status) verdict {
	if status == nil {
		return verdict{Code: fwk.Success.String()}
	}
	return verdict{status.Plugin(), status.Code().String(), status.Reasons()}
}
