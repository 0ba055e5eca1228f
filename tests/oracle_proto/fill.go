package main

import (
	"fmt"
	"math/rand"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

var documents = []string{
	`{}`, `{"a": [1, -2.5, true, null, "é\n"], "b": {"c": 9007199254740993}}`, `"text"`, `17`, `null`, `[]`,
}

var quantities = []string{"0", "1", "500m", "1.5Gi", "12e6", "-3", "100n", "9223372036854775807", "0.5", "1024Mi", "1e3", "2.50"}

var floats = []float64{0, 1, -1.5, 0.1, 1e20, 1e21, 3e-7, 9007199254740993, -123456789}

// ownFuncs fill what Kubernetes' own fuzzers leave out or leave plain.
func ownFuncs(serializer.CodecFactory) []any {
	return []any{
		func(value *resource.Quantity, c randfill.Continue) {
			*value = resource.MustParse(quantities[c.Intn(len(quantities))])
		},
		func(value *runtime.RawExtension, c randfill.Continue) {
			*value = runtime.RawExtension{}
			if c.Bool() {
				value.Raw = []byte(documents[c.Intn(len(documents))])
			}
		},
		func(value *meta.FieldsV1, c randfill.Continue) {
			*value = meta.FieldsV1{}
			if c.Bool() {
				value.Raw = []byte(documents[c.Intn(2)])
			}
		},
		func(value *apiextensions.JSON, c randfill.Continue) {
			*value = apiextensions.JSON{}
			if c.Bool() {
				value.Raw = []byte(documents[c.Intn(len(documents))])
			}
		},
		func(value *float64, c randfill.Continue) { *value = floats[c.Intn(len(floats))] },
		func(value *meta.ManagedFieldsEntry, c randfill.Continue) { c.FillNoCustom(value) },
		func(value *intstr.IntOrString, c randfill.Continue) {
			c.FillNoCustom(value)
			value.Type = intstr.Type(c.Intn(2))
		},
		func(value *meta.Time, c randfill.Continue) { *value = meta.Time{Time: moment(c)} },
		func(value *meta.MicroTime, c randfill.Continue) { *value = meta.MicroTime{Time: moment(c)} },
		func(value *[]byte, c randfill.Continue) {
			*value = make([]byte, c.Intn(5))
			c.Read(*value)
		},
	}
}

// moment is any of the years 1 to 9999, and now and then Go's zero time or the first second of Unix.
func moment(c randfill.Continue) time.Time {
	switch c.Intn(8) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(0, 0)
	case 2:
		return time.Unix(c.Int63n(253402300800+62135596800)-62135596800, c.Int63n(1e9))
	}
	return time.Unix(c.Int63n(1<<32), c.Int63n(1e9))
}

// filled is a random object as a client sends it: from nearly empty (seed 0 is quite empty) to deep.
func filled(name string, seed int64) ([]byte, error) {
	kind := kindOf(name)
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, ownFuncs)
	random := rand.New(rand.NewSource(seed))
	if seed != 0 {
		filler := fuzzer.FuzzerFor(funcs, random, scheme.Codecs)
		filler.NilChance(0.2+0.7*random.Float64()).NumElements(0, 2).MaxDepth(14).Fill(object)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	body, err := encoded(object)
	if err != nil {
		return nil, fmt.Errorf("%s with seed %d: %w", name, seed, err)
	}
	return body, nil
}
