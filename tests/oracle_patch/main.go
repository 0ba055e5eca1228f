// The patch oracle: Kubernetes' own patching, asked in JSON lines. One line in, one line out.
//
//	{"ask": "patch", "kind": "v1/Pod", "type": "application/json-patch+json", "current": "...", "patch": "..."}
//	{"ask": "shapes"}       how each field of each kind is merged, from the tags of the Go types
//
// It follows the handler of the API server up to the patched document; the Go types see nothing of it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

const maxOperations = 10000

type question struct {
	Ask     string `json:"ask"`
	Kind    string `json:"kind"`
	Type    string `json:"type"`
	Current string `json:"current"`
	Patch   string `json:"patch"`
}

type answer struct {
	Status int    `json:"status"`
	Error  string `json:"error"`
	Panic  bool   `json:"panic"`
	Result any    `json:"result"`
}

type refusal struct {
	status int
	error
}

func main() {
	jsonpatch.AccumulatedCopySizeLimit = 3 * 1024 * 1024
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
			result = answer{Status: 500, Error: fmt.Sprint(reason), Panic: true}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		fail(err)
	}
	if asked.Ask == "shapes" {
		return answer{Status: 200, Result: shapes()}
	}
	patched, err := patch(asked)
	if err == nil {
		return answer{Status: 200, Result: patched}
	}
	var known refusal
	if errors.As(err, &known) {
		return answer{Status: known.status, Error: known.Error()}
	}
	return answer{Status: 500, Error: err.Error()}
}

func patch(asked question) (any, error) {
	current, change := []byte(asked.Current), []byte(asked.Patch)
	switch asked.Type {
	case "application/json-patch+json":
		return operations(current, change)
	case "application/merge-patch+json":
		var object map[string]any
		if _, err := kjson.UnmarshalStrict(change, &object); err != nil {
			return nil, refusal{400, err}
		}
		merged, err := jsonpatch.MergePatch(current, change)
		if err != nil {
			return nil, refusal{400, err}
		}
		return json.RawMessage(merged), nil
	default:
		return strategic(asked.Kind, current, change)
	}
}

func operations(current, change []byte) (any, error) {
	var strict []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		From  string `json:"from"`
		Value any    `json:"value"`
	}
	if _, err := kjson.UnmarshalStrict(change, &strict); err != nil {
		return nil, refusal{400, err}
	}
	decoded, err := jsonpatch.DecodePatch(change)
	if err != nil {
		return nil, refusal{400, err}
	}
	if len(decoded) > maxOperations {
		return nil, refusal{413, errors.New("too many operations")}
	}
	patched, err := decoded.Apply(current)
	if err != nil {
		return nil, refusal{422, err}
	}
	return json.RawMessage(patched), nil
}

func strategic(kind string, current, change []byte) (any, error) {
	example, ok := kinds[kind]
	if !ok {
		return nil, refusal{415, errors.New("no such kind")}
	}
	var original, patched map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(current, &original); err != nil {
		fail(err)
	}
	if _, err := kjson.UnmarshalStrict(change, &patched); err != nil {
		return nil, refusal{400, err}
	}
	result, err := strategicpatch.StrategicMergeMapPatch(trimmed(original).(map[string]any), patched, example)
	switch err {
	case nil:
		return result, nil
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return nil, refusal{400, err}
	case mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys:
		return nil, refusal{422, err}
	}
	return nil, err
}

// trimmed gives each list its exact capacity, as the API server's conversion does: appending then never writes into it.
func trimmed(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		for key, one := range typed {
			typed[key] = trimmed(one)
		}
	case []any:
		exact := make([]any, len(typed))
		for i, one := range typed {
			exact[i] = trimmed(one)
		}
		return exact
	}
	return value
}
