// The fit oracle: kube-scheduler's own plugins, asked in JSON lines. One line in, one line out.
//
//	{"pod": {...}, "nodes": [{"node": {...}, "pods": [...]}],
//	 "namespaces": [...]}                                             verdicts, reasons and scores on each node
//	{"pod": {...}, "old": {"node": {...}}, "new": {"node": {...}}}    which plugins the change wakes a refused pod for
//
// The arguments are feature gates to set, as GATE=true.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

type place struct {
	Node *v1.Node  `json:"node"`
	Pods []*v1.Pod `json:"pods"`
}

type object struct {
	Node *v1.Node `json:"node"`
	Pod  *v1.Pod  `json:"pod"`
}

type question struct {
	Pod        *v1.Pod         `json:"pod"`
	Nodes      []place         `json:"nodes"`
	Namespaces []*v1.Namespace `json:"namespaces"`
	Old        *object         `json:"old"`
	New        *object         `json:"new"`
}

type verdict struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

type answer struct {
	Panic     string               `json:"panic"`
	PreFilter map[string]verdict   `json:"preFilter"`
	Only      map[string][]string  `json:"only"`
	Filter    []map[string]verdict `json:"filter"`
	Raw       map[string][]int64   `json:"raw"`
	Scores    map[string][]int64   `json:"scores"`
	Events    []string             `json:"events"`
	Wakes     map[string]bool      `json:"wakes"`
}

func main() {
	for _, gate := range os.Args[1:] {
		if err := utilfeature.DefaultMutableFeatureGate.Set(gate); err != nil {
			fail(err)
		}
	}
	klog.SetLogger(logr.Discard())
	metrics.Register()
	plugins := made(context.Background())
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(reply(plugins, line)); err != nil {
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

func reply(plugins []fwk.Plugin, line []byte) (result answer) {
	defer func() {
		if reason := recover(); reason != nil {
			result = answer{Panic: fmt.Sprint(reason)}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		fail(err)
	}
	if asked.Old != nil || asked.New != nil {
		return wakes(plugins, asked)
	}
	return fits(plugins, asked)
}
