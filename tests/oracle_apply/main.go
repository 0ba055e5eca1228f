// The apply oracle: Kubernetes' own field manager, asked in JSON lines. One line in, one line out.
//
//	{"ask": "schema", "kinds": [["v1", "Pod"], ...]}                                   the types these kinds need
//	{"ask": "steps", "kind": ["v1", "Pod"], "deduced": false, "steps": [{...}, ...]}   the object after each step
//
// A step is {"do": "apply"|"update", "manager", "force", "subresource", "reset": [[field, ...], ...], "object": {...}}.
// The object is a plain document all the way: what the API server's conversion to Go structs and back would add is not
// part of the question, but for two things: nulls are dropped after an apply, because structs cannot hold them, and the
// parts that the empty struct of the kind writes are always there. Updates must have them. A step that fails leaves the object as it was. The first success gives
// it a uid. What the step stamped with the time of now gets the time of the step: second n of the year 2020.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type step struct {
	Do          string         `json:"do"`
	Manager     string         `json:"manager"`
	Force       bool           `json:"force"`
	Subresource string         `json:"subresource"`
	Reset       [][]string     `json:"reset"`
	Object      map[string]any `json:"object"`
}

type question struct {
	Ask     string      `json:"ask"`
	Kinds   [][2]string `json:"kinds"`
	Kind    [2]string   `json:"kind"`
	Deduced bool        `json:"deduced"`
	Steps   []step      `json:"steps"`
}

type outcome struct {
	Object map[string]any       `json:"object,omitempty"`
	Code   int32                `json:"code,omitempty"`
	Error  string               `json:"error,omitempty"`
	Causes []metav1.StatusCause `json:"causes,omitempty"`
}

type answer struct {
	Steps []outcome      `json:"steps,omitempty"`
	Kinds map[string]any `json:"kinds,omitempty"`
	Types map[string]any `json:"types,omitempty"`
	Empty map[string]any `json:"empty,omitempty"`
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
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

func reply(line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		fail(err)
	}
	if asked.Ask == "schema" {
		return schemaOf(asked.Kinds)
	}
	for index := range asked.Steps {
		asked.Steps[index].Object = integers(asked.Steps[index].Object).(map[string]any)
	}
	return answer{Steps: taken(asked)}
}

// integers makes whole numbers int64, as the API server's own decoder does.
func integers(value any) any {
	switch held := value.(type) {
	case map[string]any:
		for key, one := range held {
			held[key] = integers(one)
		}
	case []any:
		for index, one := range held {
			held[index] = integers(one)
		}
	case float64:
		if held == float64(int64(held)) {
			return int64(held)
		}
	}
	return value
}

func kindOf(pair [2]string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(pair[0], pair[1])
}

func converter(deduced bool) managedfields.TypeConverter {
	if deduced {
		return managedfields.NewDeducedTypeConverter()
	}
	return typed
}

var typed = applyconfigurations.NewTypeConverter(scheme.Scheme)

func taken(asked question) []outcome {
	empty, err := plain{kindOf(asked.Kind), asked.Deduced}.New(kindOf(asked.Kind))
	if err != nil {
		fail(err)
	}
	live := empty.(*unstructured.Unstructured)
	var outcomes []outcome
	for index, one := range asked.Steps {
		result, err := take(live.DeepCopy(), one, asked)
		if err != nil {
			outcomes = append(outcomes, refusal(err))
			continue
		}
		stamp(result, time.Date(2020, 1, 1, 0, 0, index, 0, time.UTC))
		if live.GetUID() == "" {
			result.SetUID("1")
		} else if kept, err := fieldmanager.IgnoreManagedFieldsTimestampsTransformer(
			context.Background(), result, live); err != nil {
			fail(err)
		} else {
			result = kept.(*unstructured.Unstructured)
		}
		live = result
		outcomes = append(outcomes, outcome{Object: shown(live)})
	}
	return outcomes
}

// shown writes each fieldsV1 as text, since the order within it would not survive otherwise.
func shown(object *unstructured.Unstructured) map[string]any {
	made := object.DeepCopy().Object
	entries, _, _ := unstructured.NestedSlice(made, "metadata", "managedFields")
	for index, entry := range object.GetManagedFields() {
		var set fieldpath.Set
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			fail(err)
		}
		text, err := set.ToJSON()
		if err != nil {
			fail(err)
		}
		entries[index].(map[string]any)["fieldsV1"] = string(text)
	}
	if len(entries) > 0 {
		_ = unstructured.SetNestedSlice(made, entries, "metadata", "managedFields")
	}
	return made
}

func stamp(object *unstructured.Unstructured, now time.Time) {
	entries := object.GetManagedFields()
	for index := range entries {
		if entries[index].Time != nil && entries[index].Time.Year() > 2020 {
			entries[index].Time = &metav1.Time{Time: now}
		}
	}
	if len(entries) > 0 {
		object.SetManagedFields(entries)
	}
}

func take(live *unstructured.Unstructured, one step, asked question) (*unstructured.Unstructured, error) {
	kind := kindOf(asked.Kind)
	reset := fieldpath.NewSet()
	for _, fields := range one.Reset {
		path := fieldpath.Path{}
		for _, field := range fields {
			path = append(path, fieldpath.FieldNameElement(field))
		}
		reset.Insert(path)
	}
	filters := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(kind.GroupVersion().String()): reset,
	})
	only := plain{kind, asked.Deduced}
	build := managedfields.NewDefaultFieldManager
	if asked.Deduced {
		build = managedfields.NewDefaultCRDFieldManager
	}
	manager, err := build(
		converter(asked.Deduced), only, only, only, kind, kind.GroupVersion(), one.Subresource, filters)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: one.Object}
	var result runtime.Object
	if one.Do == "apply" {
		result, err = manager.Apply(live, object, one.Manager, one.Force)
	} else {
		result = manager.UpdateNoErrors(live, object, one.Manager)
	}
	if err != nil {
		return nil, err
	}
	made := result.(*unstructured.Unstructured)
	if one.Do == "apply" {
		dropNulls(made.Object)
		empty, err := only.New(kind)
		if err != nil {
			return nil, err
		}
		fill(made.Object, empty.(*unstructured.Unstructured).Object)
	}
	return made, nil
}

// fill adds what a struct always writes.
func fill(object, empty map[string]any) {
	for key, value := range empty {
		inner, isMap := value.(map[string]any)
		if found, ok := object[key].(map[string]any); ok && isMap {
			fill(found, inner)
		} else if object[key] == nil {
			object[key] = value
		}
	}
}

func dropNulls(value any) {
	switch held := value.(type) {
	case map[string]any:
		for key, one := range held {
			if one == nil {
				delete(held, key)
			} else {
				dropNulls(one)
			}
		}
	case []any:
		for _, one := range held {
			dropNulls(one)
		}
	}
}

func refusal(err error) outcome {
	status, ok := err.(errors.APIStatus)
	if !ok {
		return outcome{Code: 500, Error: err.Error()}
	}
	said := status.Status()
	var causes []metav1.StatusCause
	if said.Details != nil {
		causes = said.Details.Causes
	}
	return outcome{Code: said.Code, Error: said.Message, Causes: causes}
}

// plain knows one kind in one version, and every object is a document.
type plain struct {
	kind    schema.GroupVersionKind
	deduced bool
}

func (plain) Convert(in, out, context any) error { return fmt.Errorf("not asked for") }

func (p plain) ConvertToVersion(in runtime.Object, wanted runtime.GroupVersioner) (runtime.Object, error) {
	if version, ok := wanted.(schema.GroupVersion); ok && version != p.kind.GroupVersion() {
		return nil, runtime.NewNotRegisteredErrForTarget("oracle", nil, wanted)
	}
	return in, nil
}

func (plain) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (plain) Default(runtime.Object) {}

func (p plain) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	if !p.deduced {
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &made.Object); err != nil {
			return nil, err
		}
		integers(made.Object)
	}
	made.SetGroupVersionKind(kind)
	return made, nil
}
