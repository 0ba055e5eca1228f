// The scheduler oracle: a whole kube-scheduler with its default plugins, asked in JSON lines. One line in, one line out.
//
//	{"nodes": [...], "pods": [...], "claims": [...], "classes": [...], "slices": [...], "rules": [...],
//	 "namespaces": [...], "volumes": [...], "volumeClaims": [...], "storageClasses": [...],
//	 "asked": [pod, ...], "reserve": "node"}
//
// "pods" are those that have a node; those that are asked for are not in the cluster. For each it says what the steps
// before a node is chosen say. With "reserve" the last one gets devices on that node, which are told.
// The arguments are feature gates to set, as GATE=true.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta2"
	storage "k8s.io/api/storage/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features"
)

type question struct {
	Nodes          []*v1.Node                   `json:"nodes"`
	Pods           []*v1.Pod                    `json:"pods"`
	Claims         []*resourceapi.ResourceClaim `json:"claims"`
	Classes        []*resourceapi.DeviceClass   `json:"classes"`
	Slices         []*resourceapi.ResourceSlice `json:"slices"`
	Rules          []*v1beta2.DeviceTaintRule   `json:"rules"`
	Namespaces     []*v1.Namespace              `json:"namespaces"`
	Volumes        []*v1.PersistentVolume       `json:"volumes"`
	VolumeClaims   []*v1.PersistentVolumeClaim  `json:"volumeClaims"`
	StorageClasses []*storage.StorageClass      `json:"storageClasses"`
	Asked          []*v1.Pod                    `json:"asked"`
	Reserve        string                       `json:"reserve"`
}

type verdict struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// podAnswer has the first step's word that is against the pod, or else each node's: "Success" is one that does.
type podAnswer struct {
	PreEnqueue *verdict           `json:"preEnqueue"`
	PreFilter  *verdict           `json:"preFilter"`
	Nodes      map[string]verdict `json:"nodes"`
}

type answer struct {
	Panic string      `json:"panic"`
	Pods  []podAnswer `json:"pods"`
	// Reserved has the allocations of claims by their names; Devices are all devices that are in use more than before.
	Reserve  *verdict                                 `json:"reserve"`
	Reserved map[string]*resourceapi.AllocationResult `json:"reserved"`
	Devices  []string                                 `json:"devices"`
}

func main() {
	for _, gate := range os.Args[1:] {
		if err := utilfeature.DefaultMutableFeatureGate.Set(gate); err != nil {
			fail(err)
		}
	}
	klog.SetLogger(logr.Discard())
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(reply(line)); err != nil {
				fail(err)
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func reply(line []byte) (result answer) {
	defer func() {
		if reason := recover(); reason != nil {
			result = answer{Panic: fmt.Sprintf("%v\n%s", reason, debug.Stack())}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		fail(err)
	}
	return decided(asked)
}
