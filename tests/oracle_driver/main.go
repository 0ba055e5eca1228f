// What a DRA driver's surroundings make of it, asked in JSON lines. One line in, one line out.
//
//	{"ask": "slices", "kubeconfig": "...", "pools": [{"driver", "node", "uid", "slices"}]}
//	    what the ResourceSlice controller of Kubernetes does for each pool
//	{"ask": "metadata", "root": "...", "driver": "...", "claim": {...}, "request": "..."}
//	    what Kubernetes and KubeVirt read from a container's metadata files
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	kubevirtlog "kubevirt.io/client-go/log"
)

func main() {
	klog.SetLogger(logr.Discard())
	kubevirtlog.Log.SetIOWriter(io.Discard)
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

func reply(line []byte) any {
	var kind struct {
		Ask string `json:"ask"`
	}
	read(line, &kind)
	switch kind.Ask {
	case "slices":
		var asked slicesQuestion
		read(line, &asked)
		return publish(asked)
	case "metadata":
		var asked metadataQuestion
		read(line, &asked)
		return look(asked)
	}
	fail(fmt.Errorf("slices or metadata, not %q", kind.Ask))
	return nil
}

func read(line []byte, into any) {
	if err := json.Unmarshal(line, into); err != nil {
		fail(err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
