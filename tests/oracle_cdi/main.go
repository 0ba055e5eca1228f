// The CDI oracle: the reference implementation, asked in JSON lines. One line in, one line out.
//
//	{"ask": "registry", "dirs": [...], "oci": {...}, "devices": [...]}   what is there, and what injection makes
//	{"ask": "normal", "oci": {...}}                                      the OCI spec as Go types have it
//	{"ask": "validate", "text": "..."}                                   one spec file
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

type question struct {
	Ask     string          `json:"ask"`
	Text    string          `json:"text"`
	Dirs    []string        `json:"dirs"`
	OCI     json.RawMessage `json:"oci"`
	Devices []string        `json:"devices"`
}

type answer struct {
	Error      string              `json:"error"`
	Panic      bool                `json:"panic"`
	Minimum    string              `json:"minimum"`
	Spec       *specs.Spec         `json:"spec"`
	Known      []string            `json:"known"`
	Faults     map[string][]string `json:"faults"`
	Unresolved []string            `json:"unresolved"`
	OCI        *oci.Spec           `json:"oci"`
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(reply(line)); err != nil {
				fail(err)
			}
			if err := out.Flush(); err != nil {
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
			result = answer{Error: fmt.Sprint(reason), Panic: true}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		fail(err)
	}
	switch asked.Ask {
	case "validate":
		return validate(asked.Text)
	case "normal":
		spec, err := container(asked.OCI)
		return answer{Error: text(err), OCI: spec}
	default:
		return registry(asked)
	}
}

func container(raw json.RawMessage) (*oci.Spec, error) {
	spec := &oci.Spec{}
	return spec, json.Unmarshal(raw, spec)
}

func validate(data string) answer {
	dir, err := os.MkdirTemp("", "oracle-cdi-")
	if err != nil {
		fail(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "spec.yaml")
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		fail(err)
	}
	spec, err := cdi.ReadSpec(path, 0)
	if err != nil {
		return answer{Error: err.Error()}
	}
	minimum, err := specs.MinimumRequiredVersion(spec.Spec)
	return answer{Error: text(err), Minimum: minimum, Spec: spec.Spec}
}

func registry(asked question) answer {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(asked.Dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		fail(err)
	}
	spec, err := container(asked.OCI)
	if err != nil {
		fail(err)
	}
	result := answer{Known: cache.ListDevices(), Faults: map[string][]string{}}
	for path, errs := range cache.GetErrors() {
		for _, one := range errs {
			result.Faults[path] = append(result.Faults[path], one.Error())
		}
	}
	result.Unresolved, err = cache.InjectDevices(spec, asked.Devices...)
	result.Error = text(err)
	if err == nil {
		result.OCI = spec
	}
	return result
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
