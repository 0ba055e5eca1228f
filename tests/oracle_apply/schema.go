package main

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// schemaOf writes the types that the kinds need, in the form of schema.json.
func schemaOf(kinds [][2]string) answer {
	result := answer{Kinds: map[string]any{}, Types: map[string]any{}, Empty: map[string]any{}}
	for _, pair := range kinds {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetGroupVersionKind(kindOf(pair))
		value, err := typed.ObjectToTyped(object)
		if err != nil {
			fail(err)
		}
		reference := value.TypeRef()
		empty, err := plain{kindOf(pair), false}.New(kindOf(pair))
		if err != nil {
			fail(err)
		}
		result.Empty[pair[0]+" "+pair[1]] = empty.(*unstructured.Unstructured).Object
		result.Kinds[pair[0]+" "+pair[1]] = *reference.NamedType
		add(result.Types, value.Schema(), reference)
	}
	return result
}

func add(types map[string]any, known *schema.Schema, reference schema.TypeRef) {
	if reference.NamedType == nil {
		walk(types, known, reference.Inlined)
		return
	}
	name := *reference.NamedType
	if _, seen := types[name]; seen {
		return
	}
	atom, ok := known.Resolve(schema.TypeRef{NamedType: &name})
	if !ok {
		return
	}
	types[name] = nil
	types[name] = atomOf(atom)
	walk(types, known, atom)
}

func walk(types map[string]any, known *schema.Schema, atom schema.Atom) {
	if atom.List != nil {
		add(types, known, atom.List.ElementType)
	}
	if atom.Map != nil {
		for _, field := range atom.Map.Fields {
			add(types, known, field.Type)
		}
		if !isNothing(atom.Map.ElementType) {
			add(types, known, atom.Map.ElementType)
		}
	}
}

func isNothing(reference schema.TypeRef) bool {
	atom := reference.Inlined
	return reference.NamedType == nil && atom.Scalar == nil && atom.List == nil && atom.Map == nil
}

func referenceOf(reference schema.TypeRef) any {
	var made any
	if reference.NamedType != nil {
		made = *reference.NamedType
	} else {
		made = atomOf(reference.Inlined)
	}
	if reference.ElementRelationship != nil {
		fail(fmt.Errorf("a field overrides the relationship of its type: schema.json has no word for it"))
	}
	return made
}

func atomOf(atom schema.Atom) map[string]any {
	made := map[string]any{}
	if atom.Scalar != nil {
		made["scalar"] = string(*atom.Scalar)
	}
	if atom.List != nil {
		list := map[string]any{"items": referenceOf(atom.List.ElementType), "as": string(atom.List.ElementRelationship)}
		if len(atom.List.Keys) > 0 {
			list["keys"] = slices.Clone(atom.List.Keys)
		}
		made["list"] = list
	}
	if atom.Map != nil {
		made["map"] = mapOf(atom.Map)
	}
	return made
}

func mapOf(held *schema.Map) map[string]any {
	made, fields, defaults := map[string]any{}, map[string]any{}, map[string]any{}
	for _, field := range held.Fields {
		fields[field.Name] = referenceOf(field.Type)
		switch field.Default.(type) {
		case string, int, int64, float64, bool:
			defaults[field.Name] = field.Default
		}
	}
	if len(fields) > 0 {
		made["fields"] = fields
	}
	if len(defaults) > 0 {
		made["defaults"] = defaults
	}
	if !isNothing(held.ElementType) {
		made["items"] = referenceOf(held.ElementType)
	}
	if held.ElementRelationship != "" {
		made["as"] = string(held.ElementRelationship)
	}
	return made
}
