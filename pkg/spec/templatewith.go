package spec

import (
	"encoding/json"
	"slices"
)

// With returns the template with the value of every path whose root is in
// values. What is left to render costs nothing of the size of those values: they
// are looked through once, not once for each item of a list.
func (t *Template) With(values map[string]json.RawMessage) (*Template, error) {
	if t == nil || t.root == nil {
		return t, nil
	}
	root, err := t.root.with(values)
	if err != nil {
		return nil, err
	}
	return &Template{root: root, src: t.src}, nil
}

func (f *form) with(values map[string]json.RawMessage) (*form, error) {
	c := *f
	c.pieces, c.list, c.members = slices.Clone(f.pieces), slices.Clone(f.list), slices.Clone(f.members)
	for i, p := range c.pieces {
		if p.path == nil || values[p.path.Root] == nil {
			continue
		}
		var err error
		if c.pieces[i].value, err = p.path.find(values); err != nil {
			return nil, err
		}
	}
	for _, forms := range [][]*form{c.list, c.members} {
		for i, inner := range forms {
			var err error
			if forms[i], err = inner.with(values); err != nil {
				return nil, err
			}
		}
	}
	return &c, nil
}

func (p piece) find(values map[string]json.RawMessage) (json.RawMessage, error) {
	if p.value != nil {
		return p.value, nil
	}
	return p.path.find(values)
}
