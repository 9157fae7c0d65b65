package spec

import (
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// membersOf names the members of a variable that an expression reads, by
// selection or by a literal index, sorted.
func membersOf(a *cel.Ast, variable string) []string {
	var out []string
	isVariable := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == variable }
	ast.PostOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			if s := e.AsSelect(); isVariable(s.Operand()) {
				out = append(out, s.FieldName())
			}
		case ast.CallKind:
			if c := e.AsCall(); c.FunctionName() == operators.Index && len(c.Args()) == 2 && isVariable(c.Args()[0]) && c.Args()[1].Kind() == ast.LiteralKind {
				if name, ok := c.Args()[1].AsLiteral().Value().(string); ok {
					out = append(out, name)
				}
			}
		}
	}))
	slices.Sort(out)
	return slices.Compact(out)
}

// checkWhen checks that a condition names steps that are surely over: it has no
// value for any other. What was stored before is left as it is.
func (f *Flow) checkWhen(d *decoder, s spot, st *Step) {
	if st.When == nil || d.stored {
		return
	}
	env, err := environment([]string{"input", "steps"})
	if err != nil {
		return // it was said where the expression stands
	}
	expression, issues := env.Compile(st.When.text)
	if issues.Err() != nil {
		return
	}
	before := f.before(st)
	for _, name := range membersOf(expression, "steps") {
		switch {
		case f.Step(name) == nil:
			d.also(s, "there is no step %q in this flow%s", shorten(name), didYouMean(name, f.names()))
		case !before[name]:
			d.also(s, "step %s may not be over; add it to needs", name)
		}
	}
}
