package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// selectorCase is one line in. Environment "new" compiles as admission does for a new expression; otherwise as the
// allocator does for a stored one.
type selectorCase struct {
	Name        string         `json:"name"`
	Expression  string         `json:"expression"`
	Features    []string       `json:"features"`
	Environment string         `json:"environment"`
	Device      selectorDevice `json:"device"`
}

type selectorDevice struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

// selectorAnswer is one line out; what was not reached is null.
type selectorAnswer struct {
	Name          string  `json:"name"`
	CompileError  string  `json:"compileError"`
	EstimatedCost *uint64 `json:"estimatedCost"`
	Match         *bool   `json:"match"`
	Error         string  `json:"error"`
	Cost          *uint64 `json:"cost"`
}

func selectorFeatures(consumableCapacity, listTypeAttributes bool) cel.Features {
	return cel.Features{EnableConsumableCapacity: consumableCapacity, EnableListTypeAttributes: listTypeAttributes}
}

func answerSelector(line []byte) (answer selectorAnswer) {
	var input selectorCase
	if err := json.Unmarshal(line, &input); err != nil {
		return selectorAnswer{Name: input.Name, CompileError: "cannot read the case: " + err.Error()}
	}
	answer.Name = input.Name
	defer func() {
		if caught := recover(); caught != nil {
			answer.Error = fmt.Sprintf("panic: %v", caught)
		}
	}()
	features := selectorFeatures(
		slices.Contains(input.Features, "DRAConsumableCapacity"), slices.Contains(input.Features, "DRAListTypeAttributes"))
	options := cel.Options{}
	if input.Environment == "new" {
		kind := environment.NewExpressions
		options.EnvType = &kind
	}
	compiled := compilerFor(features)(input.Expression, options)
	if compiled.Error != nil {
		answer.CompileError = compiled.Error.Error()
		return answer
	}
	answer.EstimatedCost = &compiled.MaxCost
	match, details, err := compiled.DeviceMatches(context.Background(), cel.Device(input.Device))
	if details != nil {
		answer.Cost = details.ActualCost()
	}
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.Match = &match
	return answer
}

type compileFunction func(string, cel.Options) cel.CompilationResult

var compilers = map[cel.Features]compileFunction{}

// compilerFor keeps a compiler for each feature set: the module keeps only the last one, and making one takes long.
func compilerFor(features cel.Features) compileFunction {
	if _, made := compilers[features]; !made {
		compilers[features] = cel.GetCompiler(features).CompileCELExpression
	}
	return compilers[features]
}
