package spec

import "fmt"

// Unpriced lists the agents with a ceiling in money, of their own or shared, for
// whose model or a fallback of it no prices are known: nothing could be counted.
// other finds a definition that is not among docs and may return nil.
func Unpriced(docs []Document, other func(kind, name string) *Document) []*Error {
	find := func(from *Document, kind, name string) *Document {
		for i := range docs {
			if d := &docs[i]; d.Kind == kind && d.Name == name && d.Namespace == from.Namespace {
				return d
			}
		}
		return other(kind, name)
	}
	var out []*Error
	for i := range docs {
		d := &docs[i]
		if d.Agent == nil {
			continue
		}
		field := ""
		if d.Agent.Budget.Cost > 0 {
			field = "spec.budget.cost"
		}
		for k, name := range d.Agent.Budget.Pools {
			if b := find(d, KindBudget, name); b != nil && b.Budget.Unit == UnitUSD && field == "" {
				field = fmt.Sprintf("spec.budget.pools[%d]", k)
			}
		}
		if field == "" {
			continue
		}
		models := []string{d.Agent.Model}
		if m := find(d, KindModel, d.Agent.Model); m != nil {
			models = append(models, m.Model.Fallback...)
		}
		for _, name := range models {
			if m := find(d, KindModel, name); m != nil && m.Model.Prices == nil {
				e := &Error{File: d.File, Line: d.Line, Column: 1, Field: field, Message: fmt.Sprintf("counts money, and Model %q has no prices; add spec.prices to it", name)}
				if n := d.root.find(field); n != nil {
					e.Line, e.Column = n.line, n.column
				}
				out = append(out, e)
			}
		}
	}
	return out
}
