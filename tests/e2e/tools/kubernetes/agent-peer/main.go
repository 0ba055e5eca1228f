// The peer of `dray bench agent`: a device plugin in Go, on the library of Kubernetes' sample-device-plugin.
//
// The sample itself has two devices and no health; this one serves as many as it is told and watches their nodes.
//
//	agent-peer serve SPEC                      serve until SIGTERM, registered at <directory>/kubelet.sock
//	agent-peer load SOCKET IDS CALLS CLIENTS   call Allocate; print the seconds of the whole, then of each call
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		check(serve(os.Args[2]))
		return
	}
	if len(os.Args) == 6 && os.Args[1] == "load" {
		check(load(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
		return
	}
	check(fmt.Errorf("usage: agent-peer serve SPEC | agent-peer load SOCKET IDS CALLS CLIENTS"))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Spec says what to serve.
type Spec struct {
	Directory string     `json:"directory"`
	Resources []Resource `json:"resources"`
}

// Resource is one plugin.
type Resource struct {
	Name    string   `json:"name"`
	Devices []Device `json:"devices"`
}

// Device is one id and the node it stands for; several ids may share a node.
type Device struct {
	ID   string `json:"id"`
	Path string `json:"path"`
}

func readSpec(path string) (Spec, error) {
	var spec Spec
	data, err := os.ReadFile(path)
	if err != nil {
		return spec, err
	}
	return spec, json.Unmarshal(data, &spec)
}
