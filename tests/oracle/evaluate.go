package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// expressionAnswer is one line out, in the format of tests/cel/library/cases.
type expressionAnswer struct {
	Expression   string   `json:"expression"`
	CompileError string   `json:"compileError,omitempty"`
	Error        string   `json:"error,omitempty"`
	Value        string   `json:"value,omitempty"`
	Estimate     []uint64 `json:"estimate,omitempty"`
	Cost         *uint64  `json:"cost,omitempty"`
}

// baseEnvironment is what every expression in Kubernetes gets, with cel.bind, and a variable x that is 1.
var baseEnvironment = sync.OnceValue(func() *cel.Env {
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 31),
		EnvOptions:        []cel.EnvOption{ext.Bindings(ext.BindingsVersion(0)), cel.Variable("x", cel.DynType)},
	})
	if err != nil {
		panic(err)
	}
	return set.StoredExpressionsEnv()
})

func answerExpression(line []byte) (answer expressionAnswer) {
	if err := json.Unmarshal(line, &answer); err != nil {
		return expressionAnswer{CompileError: "cannot read the case: " + err.Error()}
	}
	answer = expressionAnswer{Expression: answer.Expression}
	defer func() {
		if caught := recover(); caught != nil {
			answer.Error = fmt.Sprintf("panic: %v", caught)
		}
	}()
	env := baseEnvironment()
	checked, issues := env.Compile(answer.Expression)
	if issues.Err() != nil {
		answer.CompileError = issues.Err().Error()
		return answer
	}
	program, err := env.Program(checked)
	if err != nil {
		answer.CompileError = err.Error()
		return answer
	}
	if estimate, err := env.EstimateCost(checked, &library.CostEstimator{}); err == nil {
		answer.Estimate = []uint64{estimate.Min, estimate.Max}
	}
	value, details, err := program.Eval(map[string]any{"x": 1})
	if details != nil {
		answer.Cost = details.ActualCost()
	}
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.Value = show(value)
	return answer
}

// show writes a value so that it can be compared; entries of maps are sorted.
func show(value ref.Val) string {
	switch v := value.(type) {
	case types.Null:
		return "null"
	case types.String:
		return quoted(string(v))
	case types.Bytes:
		return fmt.Sprintf("b%x", []byte(v))
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10) + "u"
	case types.Double:
		return "f" + strconv.FormatFloat(float64(v), 'g', -1, 64)
	case types.Bool:
		return strconv.FormatBool(bool(v))
	case types.Duration:
		return "d" + strconv.FormatInt(int64(v.Duration), 10)
	case types.Timestamp:
		return "t" + strconv.FormatInt(v.UnixNano(), 10)
	case *types.Type:
		return "type " + v.TypeName()
	case *types.Optional:
		if !v.HasValue() {
			return "none"
		}
		return "some(" + show(v.GetValue()) + ")"
	case traits.Lister:
		var parts []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, show(it.Next()))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case traits.Mapper:
		var parts []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			parts = append(parts, show(key)+":"+show(v.Get(key)))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return showOpaque(value)
}

func showOpaque(value ref.Val) string {
	switch v := value.(type) {
	case apiservercel.Quantity:
		return "q" + v.Quantity.String()
	case *apiservercel.Quantity:
		return "q" + v.Quantity.String()
	case apiservercel.Semver:
		return "v" + v.Version.String()
	case apiservercel.IP:
		return "ip" + v.Addr.String()
	case apiservercel.CIDR:
		return "cidr" + v.Prefix.String()
	case apiservercel.URL:
		return "url" + v.URL.String()
	case apiservercel.Format:
		return "format" + v.Name
	}
	return fmt.Sprintf("?%T", value)
}

// quoted is a string in JSON, with nothing escaped that need not be.
func quoted(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err)
	}
	return strings.NewReplacer("\\u2028", "\u2028", "\\u2029", "\u2029").Replace(strings.TrimSuffix(out.String(), "\n"))
}
