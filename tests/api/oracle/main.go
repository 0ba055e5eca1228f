// Answers, one JSON line per JSON line of input, what Go's Kubernetes libraries make of a value.
// Used by generate.py to write the corpora in tests/api and to run long comparisons.
package main

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

type question struct {
	Kind   string            `json:"kind"`
	A      string            `json:"a"`
	B      string            `json:"b,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// A quantity as a list: text, format, Value(), MilliValue(), AsInt64() or null, AsApproximateFloat64() in hex, and
// whether it is held as a big decimal. An error is a plain string.
type number []any

type answer struct {
	question
	Error  string   `json:"error,omitempty"`
	X      *number  `json:"x,omitempty"`
	Y      *number  `json:"y,omitempty"`
	Sum    *number  `json:"sum,omitempty"`
	Diff   *number  `json:"diff,omitempty"`
	Neg    string   `json:"neg,omitempty"`
	Cmp    *int     `json:"cmp,omitempty"`
	Match  *bool    `json:"match,omitempty"`
	Text   string   `json:"text,omitempty"`
	Faults []string `json:"faults,omitempty"`
}

func isBig(q resource.Quantity) bool {
	return !reflect.ValueOf(q).FieldByName("d").Field(0).IsNil()
}

func describe(q resource.Quantity) *number {
	value, milli, big := q.Value(), q.MilliValue(), isBig(q)
	var whole any
	if v, ok := q.AsInt64(); ok {
		whole = v
	}
	float := "inf"
	if f := q.AsApproximateFloat64(); !math.IsInf(f, 1) {
		float = strings.ToLower(strconv.FormatFloat(f, 'x', -1, 64))
	}
	return &number{q.String(), string(q.Format), value, milli, whole, float, big}
}

func quantities(q question, a *answer) {
	x, err := resource.ParseQuantity(q.A)
	if err != nil {
		a.Error = err.Error()
		return
	}
	a.X = describe(x)
	neg := x.DeepCopy()
	neg.Neg()
	a.Neg = neg.String()
	if q.B == "" {
		return
	}
	y, err := resource.ParseQuantity(q.B)
	if err != nil {
		a.Error = "b: " + err.Error()
		return
	}
	a.Y = describe(y)
	sum, diff := x.DeepCopy(), x.DeepCopy()
	sum.Add(y.DeepCopy())
	diff.Sub(y.DeepCopy())
	a.Sum, a.Diff = describe(sum), describe(diff)
	cmp := x.Cmp(y)
	a.Cmp = &cmp
}

func versions(q question, a *answer) {
	x, err := semver.Parse(q.A)
	if err != nil {
		a.Error = err.Error()
		return
	}
	a.Text = x.String()
	if y, err := semver.Parse(q.B); err == nil {
		cmp := x.Compare(y)
		a.Cmp = &cmp
	}
}

func selector(q question, a *answer) {
	if q.Kind == "fields" {
		s, err := fields.ParseSelector(q.A)
		if err != nil {
			a.Error = err.Error()
			return
		}
		match := s.Matches(fields.Set(q.Labels))
		a.Match, a.Text = &match, s.String()
		return
	}
	s, err := labels.Parse(q.A)
	if err != nil {
		a.Error = err.Error()
		return
	}
	match := s.Matches(labels.Set(q.Labels))
	a.Match, a.Text = &match, s.String()
}

var rules = map[string]func(string) []string{
	"dns_label":      validation.IsDNS1123Label,
	"dns_subdomain":  validation.IsDNS1123Subdomain,
	"dns_1035_label": validation.IsDNS1035Label,
	"label_key":      content.IsLabelKey,
	"label_value":    content.IsLabelValue,
	"annotation_key": func(s string) []string { return validation.IsQualifiedName(strings.ToLower(s)) },
	"c_identifier":   content.IsCIdentifier,
	"path_segment":   content.IsPathSegmentName,
	"config_map_key": validation.IsConfigMapKey,
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			panic(err)
		}
		a := answer{question: q}
		switch q.Kind {
		case "quantity":
			quantities(q, &a)
		case "semver":
			versions(q, &a)
		case "labels", "fields":
			selector(q, &a)
		default:
			a.Faults = rules[q.Kind](q.A)
		}
		if err := encoder.Encode(a); err != nil {
			panic(err)
		}
	}
}
