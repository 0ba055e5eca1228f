package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// schema tells, for each message, its fields by number as "NAME TYPE FLAGS"; see dray/apiserver/http/protobuf/schema.py.
type schema struct {
	Kinds    map[string]string            `json:"kinds"`
	Messages map[string]map[string]string `json:"messages"`
}

// Types that write themselves as JSON: their form is known by their name.
var written = map[string]bool{
	"Time": true, "MicroTime": true, "Quantity": true, "IntOrString": true, "RawExtension": true, "FieldsV1": true, "JSON": true,
}

// Types that are, as JSON, the value of that field of theirs which is there.
var unions = map[string]bool{
	"JSONSchemaPropsOrArray": true, "JSONSchemaPropsOrBool": true, "JSONSchemaPropsOrStringArray": true,
}

var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[interface{ Unmarshal([]byte) error }]()
	scalars     = map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "bool", reflect.Int32: "int32", reflect.Int64: "int64",
		reflect.Float64: "double",
	}
)

func kindOf(name string) gvk.GroupVersionKind {
	at := strings.LastIndex(name, "/")
	return gvk.FromAPIVersionAndKind(name[:at], name[at+1:])
}

func schemaOf(kinds []string) *schema {
	all := &schema{map[string]string{}, map[string]map[string]string{}}
	for _, name := range kinds {
		object, err := scheme.Scheme.New(kindOf(name))
		if err != nil {
			fail(err)
		}
		all.Kinds[name] = all.message(reflect.TypeOf(object).Elem())
	}
	return all
}

func (all *schema) message(kind reflect.Type) string {
	path := strings.Split(kind.PkgPath(), "/")
	name := strings.Join(path[len(path)-2:], ".") + "." + kind.Name()
	if _, done := all.Messages[name]; done {
		return name
	}
	all.Messages[name] = map[string]string{}
	if kind.Kind() == reflect.Slice {
		all.Messages[name]["1"] = "= " + all.one(kind.Elem()) + " ["
		return name
	}
	for i := range kind.NumField() {
		all.field(name, kind.Field(i))
	}
	return name
}

func (all *schema) field(message string, field reflect.StructField) {
	tag := strings.Split(field.Tag.Get("protobuf"), ",")
	if field.Name == "TypeMeta" {
		return
	}
	if len(tag) < 2 {
		fail(fmt.Errorf("%s.%s has no number", message, field.Name))
	}
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case unions[message[strings.LastIndex(message, ".")+1:]]:
		name = "="
	case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
		name = "."
	case name == "":
		fail(fmt.Errorf("%s.%s has no name in JSON", message, field.Name))
	}
	said, flags := all.reference(field.Type)
	if strings.Contains(options, "omitempty") {
		flags += "?"
	}
	if strings.Contains(options, "omitzero") {
		flags += "0"
	}
	all.Messages[message][tag[1]] = strings.TrimSpace(name + " " + said + " " + flags)
}

func (all *schema) reference(kind reflect.Type) (string, string) {
	switch {
	case kind.Kind() == reflect.Pointer:
		return all.one(kind.Elem()), "*"
	case kind.Kind() == reflect.Map && kind.Key().Kind() == reflect.String:
		return all.one(kind.Elem()), "{"
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() != reflect.Uint8 && !isMessage(kind):
		return all.one(kind.Elem()), "["
	}
	return all.one(kind), ""
}

func isMessage(kind reflect.Type) bool {
	return reflect.PointerTo(kind).Implements(unmarshaler)
}

func (all *schema) one(kind reflect.Type) string {
	if said, is := scalars[kind.Kind()]; is {
		return said
	}
	if kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Uint8 {
		return "bytes"
	}
	if reflect.PointerTo(kind).Implements(marshaler) && !unions[kind.Name()] {
		if !written[kind.Name()] {
			fail(fmt.Errorf("%s writes itself as JSON in a way unknown here", kind))
		}
		return kind.Name()
	}
	if !isMessage(kind) {
		fail(fmt.Errorf("%s is no message", kind))
	}
	return all.message(kind)
}
