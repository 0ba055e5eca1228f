// Shows what cel-go makes of expressions in the environment of Kubernetes' device selectors.
//
//	dump declarations   every function declared there, one overload a line
//	dump trees          JSON strings in, one tree a line out (see tests/cel/trees.py)
//
// It builds with the go.mod of tests/oracle. Put into cases.jsonl without "parse_error"'s text, and without "checked" where it
// equals "parsed".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type A = []any

func lit(v ref.Val) any {
	switch x := v.(type) {
	case types.Bool:
		return A{"bool", bool(x)}
	case types.Int:
		return A{"int", fmt.Sprint(int64(x))}
	case types.Uint:
		return A{"uint", fmt.Sprint(uint64(x))}
	case types.Double:
		return A{"double", float64(x)}
	case types.String:
		return A{"string", string(x)}
	case types.Bytes:
		return A{"bytes", fmt.Sprintf("%x", []byte(x))}
	case types.Null:
		return A{"null"}
	}
	return fmt.Sprintf("%T", v)
}

func dump(e ast.Expr, si *ast.SourceInfo) any {
	if e == nil {
		return nil
	}
	pos := func(id int64) int { r, _ := si.GetOffsetRange(id); return int(r.Start) }
	id, p := e.ID(), pos(e.ID())
	all := func(es []ast.Expr) A {
		o := A{}
		for _, x := range es {
			o = append(o, dump(x, si))
		}
		return o
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return A{"lit", id, p, lit(e.AsLiteral())}
	case ast.IdentKind:
		return A{"id", id, p, e.AsIdent()}
	case ast.SelectKind:
		s := e.AsSelect()
		return A{"sel", id, p, dump(s.Operand(), si), s.FieldName(), s.IsTestOnly()}
	case ast.CallKind:
		c := e.AsCall()
		var t any
		if c.IsMemberFunction() {
			t = dump(c.Target(), si)
		}
		return A{"call", id, p, c.FunctionName(), all(c.Args()), t}
	case ast.ListKind:
		l := e.AsList()
		o := A{}
		for _, i := range l.OptionalIndices() {
			o = append(o, i)
		}
		return A{"list", id, p, all(l.Elements()), o}
	case ast.MapKind:
		o := A{}
		for _, en := range e.AsMap().Entries() {
			m := en.AsMapEntry()
			o = append(o, A{en.ID(), pos(en.ID()), dump(m.Key(), si), dump(m.Value(), si), m.IsOptional()})
		}
		return A{"map", id, p, o}
	case ast.StructKind:
		o := A{}
		for _, en := range e.AsStruct().Fields() {
			m := en.AsStructField()
			o = append(o, A{en.ID(), pos(en.ID()), m.Name(), dump(m.Value(), si), m.IsOptional()})
		}
		return A{"struct", id, p, e.AsStruct().TypeName(), o}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		return A{"fold", id, p, c.IterVar(), c.IterVar2(), dump(c.IterRange(), si), c.AccuVar(), dump(c.AccuInit(), si), dump(c.LoopCondition(), si), dump(c.LoopStep(), si), dump(c.Result(), si)}
	}
	return A{"?"}
}

func typ(t *types.Type) any {
	ps := A{}
	for _, p := range t.Parameters() {
		ps = append(ps, typ(p))
	}
	return A{t.Kind() == types.TypeParamKind, t.Kind() == types.OpaqueKind, t.Kind() == types.StructKind, t.TypeName(), ps}
}

func main() {
	f := dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: len(os.Args) > 2}
	env := dracel.GetCompiler(f).CompileCELExpression("true", dracel.Options{}).Environment
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if os.Args[1] == "declarations" {
		names := []string{}
		for n := range env.Functions() {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			for _, o := range env.Functions()[n].OverloadDecls() {
				ps := A{}
				for _, p := range o.ArgTypes() {
					ps = append(ps, typ(p))
				}
				out.Encode(A{n, o.ID(), o.IsMemberFunction(), ps, typ(o.ResultType())})
			}
		}
		return
	}
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var text string
		json.Unmarshal(sc.Bytes(), &text)
		func() {
			res := map[string]any{"text": text}
			defer func() {
				if r := recover(); r != nil {
					res["panic"] = fmt.Sprint(r)
				}
				out.Encode(res)
			}()
			p, iss := env.Parse(text)
			if iss.Err() != nil {
				res["parse_error"] = iss.String()
				return
			}
			res["parsed"] = dump(p.NativeRep().Expr(), p.NativeRep().SourceInfo())
			c, iss := env.Check(p)
			if iss.Err() != nil {
				res["check_error"] = iss.String()
				return
			}
			n := c.NativeRep()
			res["checked"] = dump(n.Expr(), n.SourceInfo())
			ts := map[string]string{}
			for id, t := range n.TypeMap() {
				ts[fmt.Sprint(id)] = checker.FormatCELType(t)
			}
			res["types"] = ts
			rs := map[string]any{}
			for id, r := range n.ReferenceMap() {
				if r.Name != "" {
					rs[fmt.Sprint(id)] = r.Name
				} else {
					rs[fmt.Sprint(id)] = r.OverloadIDs
				}
			}
			res["refs"] = rs
		}()
	}
}
