package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/schedulinggates"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// made gives the plugins in the order in which kube-scheduler runs their filters. Resources that device classes serve are not its business.
func made(ctx context.Context) []fwk.Plugin {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableDRAExtendedResource = false
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil)
	if err != nil {
		fail(err)
	}
	both := []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
	fit := &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{Type: config.LeastAllocated, Resources: both}}
	balanced := &config.NodeResourcesBalancedAllocationArgs{Resources: both}
	type maker = func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)
	plugins := []fwk.Plugin{}
	for _, one := range []struct {
		make maker
		args runtime.Object
	}{
		{schedulinggates.New, nil},
		{nodeunschedulable.New, nil},
		{nodename.New, nil},
		{tainttoleration.New, nil},
		{nodeaffinity.New, &config.NodeAffinityArgs{}},
		{nodeports.New, nil},
		{noderesources.NewFit, fit},
		{noderesources.NewBalancedAllocation, balanced},
	} {
		plugin, err := one.make(ctx, one.args, handle, features)
		if err != nil {
			fail(err)
		}
		plugins = append(plugins, plugin)
	}
	return plugins
}

// looking gives the plugins that look at all nodes when they begin. Without nodes they can still tell whom a change wakes.
func looking(ctx context.Context, snapshot fwk.SharedLister, namespaces []*v1.Namespace) []fwk.Plugin {
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, one := range namespaces {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(one); err != nil {
			panic(err)
		}
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		panic(err)
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	near, err := interpodaffinity.New(ctx, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}, handle, features)
	if err != nil {
		panic(err)
	}
	even, err := podtopologyspread.New(ctx, &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}, handle, features)
	if err != nil {
		panic(err)
	}
	return []fwk.Plugin{near, even}
}

func fits(plugins []fwk.Plugin, asked question) answer {
	ctx := context.Background()
	objects, pods := []*v1.Node{}, []*v1.Pod{}
	for _, one := range asked.Nodes {
		objects = append(objects, one.Node)
		pods = append(pods, one.Pods...)
	}
	snapshot := cache.NewSnapshot(pods, objects)
	nodes := []fwk.NodeInfo{}
	for _, one := range objects {
		info, err := snapshot.NodeInfos().Get(one.Name)
		if err != nil {
			panic(err)
		}
		nodes = append(nodes, info)
	}
	result := answer{PreFilter: map[string]verdict{}, Only: map[string][]string{}, Raw: map[string][]int64{}, Scores: map[string][]int64{}}
	for range nodes {
		result.Filter = append(result.Filter, map[string]verdict{})
	}
	for _, plugin := range looking(ctx, snapshot, asked.Namespaces) {
		filtered(ctx, plugin.(fwk.FilterPlugin), framework.NewCycleState(), asked.Pod, nodes, &result)
	}
	for _, plugin := range plugins {
		state := framework.NewCycleState()
		if filter, ok := plugin.(fwk.FilterPlugin); ok {
			filtered(ctx, filter, state, asked.Pod, nodes, &result)
		}
		if score, ok := plugin.(fwk.ScorePlugin); ok {
			scored(ctx, score, framework.NewCycleState(), asked.Pod, nodes, &result)
		}
	}
	return result
}

func filtered(ctx context.Context, plugin fwk.FilterPlugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, result *answer) {
	if pre, ok := plugin.(fwk.PreFilterPlugin); ok {
		only, status := pre.PreFilter(ctx, state, pod, nodes)
		if status.IsSkip() {
			return
		}
		if only != nil && !only.AllNodes() {
			result.Only[plugin.Name()] = only.NodeNames.UnsortedList()
		}
		if !status.IsSuccess() {
			result.PreFilter[plugin.Name()] = verdict{status.Code().String(), status.Reasons()}
			return
		}
	}
	for index, node := range nodes {
		if status := plugin.Filter(ctx, state, pod, node); !status.IsSuccess() {
			result.Filter[index][plugin.Name()] = verdict{status.Code().String(), status.Reasons()}
		}
	}
}

func scored(ctx context.Context, plugin fwk.ScorePlugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, result *answer) {
	if pre, ok := plugin.(fwk.PreScorePlugin); ok {
		if status := pre.PreScore(ctx, state, pod, nodes); !status.IsSuccess() {
			return
		}
	}
	list := fwk.NodeScoreList{}
	for _, node := range nodes {
		score, status := plugin.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			panic(status.Message())
		}
		list = append(list, fwk.NodeScore{Name: node.Node().Name, Score: score})
		result.Raw[plugin.Name()] = append(result.Raw[plugin.Name()], score)
	}
	if extensions := plugin.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
			panic(status.Message())
		}
	}
	for _, one := range list {
		result.Scores[plugin.Name()] = append(result.Scores[plugin.Name()], one.Score)
	}
}

func wakes(plugins []fwk.Plugin, asked question) answer {
	events, before, after := happened(asked)
	result := answer{Wakes: map[string]bool{}}
	for _, event := range events {
		result.Events = append(result.Events, event.Label())
	}
	for _, plugin := range append(looking(context.Background(), cache.NewEmptySnapshot(), nil), plugins...) {
		extensions, ok := plugin.(fwk.EnqueueExtensions)
		if !ok {
			continue
		}
		registered, err := extensions.EventsToRegister(context.Background())
		if err != nil {
			panic(err)
		}
		result.Wakes[plugin.Name()] = false
		for _, event := range events {
			for _, one := range registered {
				if framework.MatchClusterEvents(one.Event, event) && hinted(one, asked.Pod, before, after) {
					result.Wakes[plugin.Name()] = true
				}
			}
		}
	}
	return result
}

func hinted(one fwk.ClusterEventWithHint, pod *v1.Pod, before, after interface{}) bool {
	if one.QueueingHintFn == nil {
		return true
	}
	hint, err := one.QueueingHintFn(klog.Background(), pod, before, after)
	return err != nil || hint == fwk.Queue
}

// happened gives the events that kube-scheduler makes of a change, as its event handlers do.
func happened(asked question) (events []fwk.ClusterEvent, before, after interface{}) {
	old, changed := object{}, object{}
	if asked.Old != nil {
		old = *asked.Old
	}
	if asked.New != nil {
		changed = *asked.New
	}
	switch {
	case old.Node != nil && changed.Node != nil:
		return framework.NodeSchedulingPropertiesChange(changed.Node, old.Node), old.Node, changed.Node
	case changed.Node != nil:
		return []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Add}}, nil, changed.Node
	case old.Node != nil:
		return []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Delete}}, old.Node, nil
	case old.Pod != nil && changed.Pod != nil:
		return framework.PodSchedulingPropertiesChange(changed.Pod, old.Pod), old.Pod, changed.Pod
	case changed.Pod != nil:
		return []fwk.ClusterEvent{framework.EventAssignedPodAdd}, nil, changed.Pod
	default:
		return []fwk.ClusterEvent{framework.EventAssignedPodDelete}, old.Pod, nil
	}
}
