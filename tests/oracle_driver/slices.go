package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

const (
	quiet   = 500 * time.Millisecond
	longest = 30 * time.Second
)

type slicesQuestion struct {
	Kubeconfig string       `json:"kubeconfig"`
	Pools      []wantedPool `json:"pools"`
}

type wantedPool struct {
	Driver string        `json:"driver"`
	Node   string        `json:"node"`
	UID    string        `json:"uid"`
	Slices []wantedSlice `json:"slices"`
}

type wantedSlice struct {
	Devices        []resourceapi.Device     `json:"devices"`
	SharedCounters []resourceapi.CounterSet `json:"sharedCounters"`
}

type published struct {
	Creates int64    `json:"creates"`
	Updates int64    `json:"updates"`
	Deletes int64    `json:"deletes"`
	Errors  []string `json:"errors"`
}

type slicesAnswer struct {
	Pools []published `json:"pools"`
}

// publish runs a controller for each pool, all at once: each waits for a second when it starts.
func publish(asked slicesQuestion) slicesAnswer {
	answer := slicesAnswer{make([]published, len(asked.Pools))}
	var all sync.WaitGroup
	for i, pool := range asked.Pools {
		all.Go(func() { answer.Pools[i] = publishOne(asked.Kubeconfig, pool) })
	}
	all.Wait()
	return answer
}

func publishOne(kubeconfig string, pool wantedPool) published {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		fail(err)
	}
	config.QPS = -1
	watched := &calls{last: time.Now()}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watching{watched, next} })
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	controller, err := resourceslice.StartController(ctx, options(config, pool, watched))
	if err != nil {
		fail(err)
	}
	for !watched.areOver() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	watched.tell(ctx.Err(), "not quiet in time")
	controller.Stop()
	done := controller.GetStats()
	watched.lock.Lock()
	defer watched.lock.Unlock()
	return published{done.NumCreates, done.NumUpdates, done.NumDeletes, append([]string{}, watched.errors...)}
}

func options(config *rest.Config, pool wantedPool, watched *calls) resourceslice.Options {
	wanted := resourceslice.Pool{}
	for _, one := range pool.Slices {
		wanted.Slices = append(wanted.Slices, resourceslice.Slice{Devices: one.Devices, SharedCounters: one.SharedCounters})
	}
	return resourceslice.Options{
		DriverName:   pool.Driver,
		KubeClient:   kubernetes.NewForConfigOrDie(config),
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: pool.Node, UID: types.UID(pool.UID)},
		Resources:    &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{pool.Node: wanted}},
		SyncDelay:    ptr.To(20 * time.Millisecond),
		ErrorHandler: func(_ context.Context, err error, what string) { watched.tell(err, what) },
	}
}

// calls knows when a controller is done: no request of it is under way, watches aside, and the last was a while ago.
type calls struct {
	lock   sync.Mutex
	open   int
	last   time.Time
	errors []string
}

func (c *calls) count(difference int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.open += difference
	c.last = time.Now()
}

func (c *calls) areOver() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.open == 0 && time.Since(c.last) > quiet
}

func (c *calls) tell(err error, what string) {
	if err == nil {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.errors = append(c.errors, what+": "+err.Error())
}

type watching struct {
	calls *calls
	next  http.RoundTripper
}

func (w watching) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.Contains(request.URL.RawQuery, "watch=true") {
		w.calls.count(1)
		defer w.calls.count(-1)
	}
	return w.next.RoundTrip(request)
}
