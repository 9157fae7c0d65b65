package spec

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// decoder fills structs from nodes and collects every problem on the way.
type decoder struct {
	file     string
	stored   bool // the document was checked when it was stored, perhaps by an older release
	problems []*Error
	failed   map[string]bool // paths with a problem: one is enough for each
	lines    []string        // source of the document, for places inside expressions
}

func newDecoder(file string) *decoder {
	return &decoder{file: file, failed: map[string]bool{}}
}

// fail records a problem at s, unless s already has one.
func (d *decoder) fail(s spot, format string, args ...any) {
	line, column := 0, 0
	if s.n != nil {
		line, column = s.n.line, s.n.column
	}
	d.failAt(s.path, line, column, format, args...)
}

func (d *decoder) failAt(path string, line, column int, format string, args ...any) {
	if d.failed[path] {
		return
	}
	d.failed[path] = true
	d.problems = append(d.problems, &Error{File: d.file, Line: line, Column: column, Field: path, Message: fmt.Sprintf(format, args...)})
}

// also records a problem beside others of the same place; the same sentence
// twice is left out.
func (d *decoder) also(s spot, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	for _, p := range d.problems {
		if p.Field == s.path && p.Message == msg {
			return
		}
	}
	delete(d.failed, s.path)
	d.fail(s, "%s", msg)
}

// require fails when the field at s is absent.
func (d *decoder) require(s spot, present bool, what string) {
	if !present {
		d.fail(s, "is required: %s", what)
	}
}

// reads is implemented by types with a form of their own.
type reads interface {
	readNode(d *decoder, s spot)
}

// into fills v from the node at s. Nothing (null) leaves v as it is.
func (d *decoder) into(s spot, v reflect.Value) {
	if s.n.kind == nullNode {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.into(s, v.Elem())
		return
	}
	if r, ok := v.Addr().Interface().(reads); ok {
		r.readNode(d, s)
		return
	}
	switch v.Kind() {
	case reflect.String:
		if d.want(s, textNode) {
			v.SetString(s.n.text)
		}
	case reflect.Bool:
		if d.want(s, boolNode) {
			v.SetBool(s.n.text == "true")
		}
	case reflect.Int, reflect.Int64:
		if d.want(s, numberNode) {
			n, err := strconv.ParseInt(s.n.text, 10, 64)
			if err != nil {
				d.fail(s, "expected a whole number, found %s", shorten(s.n.text))
				return
			}
			v.SetInt(n)
		}
	case reflect.Slice:
		if d.want(s, listNode) {
			list := reflect.MakeSlice(v.Type(), len(s.n.list), len(s.n.list))
			for i := range s.n.list {
				if item := s.at(i); item.n.kind == nullNode {
					d.fail(item, "an item must not be empty")
				} else {
					d.into(item, list.Index(i))
				}
			}
			v.Set(list)
		}
	case reflect.Map:
		d.intoMap(s, v)
	case reflect.Struct:
		d.intoStruct(s, v)
	default:
		panic(fmt.Sprintf("spec: no way to decode %s", v.Type()))
	}
}

func (d *decoder) intoMap(s spot, v reflect.Value) {
	if !d.want(s, mapNode) {
		return
	}
	m := reflect.MakeMap(v.Type())
	for _, p := range s.n.pairs {
		item := reflect.New(v.Type().Elem()).Elem()
		if at := s.at(p.key.text); p.value.kind == nullNode {
			d.fail(at, "must not be empty")
		} else {
			d.into(at, item)
		}
		m.SetMapIndex(reflect.ValueOf(p.key.text), item)
	}
	v.Set(m)
}

func (d *decoder) intoStruct(s spot, v reflect.Value) {
	if !d.want(s, mapNode) {
		return
	}
	fields := fieldsOf(v.Type())
	for _, p := range s.n.pairs {
		at := s.at(p.key.text)
		if i, ok := fields[p.key.text]; ok {
			d.into(at, v.Field(i))
			continue
		}
		d.unknown(s, p.key, names(fields))
	}
}

// unknown reports a field that does not exist. The field that was meant counts
// as reported too: "is required" beside it would only confuse.
func (d *decoder) unknown(s spot, key *node, valid []string) {
	path := joinPath(s.path, key.text)
	if near := Nearest(key.text, valid); near != "" {
		d.failAt(path, key.line, key.column, "unknown field; did you mean %q?", near)
		if s.n.get(near) == nil {
			d.failed[joinPath(s.path, near)] = true
		}
		return
	}
	d.failAt(path, key.line, key.column, "unknown field; the fields here are %s", strings.Join(sorted(valid), ", "))
}

// want reports whether the node at s is of the kind, and records a problem if not.
func (d *decoder) want(s spot, kind nodeKind) bool {
	if s.n.kind == kind {
		return true
	}
	d.fail(s, "expected %s, found %s", kind, describe(s.n))
	return false
}

// describe says what a node is. It shows scalars of other kinds only: text may
// be a secret in the wrong place.
func describe(n *node) string {
	switch n.kind {
	case numberNode, boolNode:
		return fmt.Sprintf("%s (%s); quote it to make it text", n.kind, shorten(n.text))
	}
	return n.kind.String()
}

// fieldsOf maps the JSON names of a struct's fields to their indexes.
func fieldsOf(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = i
		}
	}
	return fields
}

// reflectOf is the value that p points to.
func reflectOf(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

// exactlyOne checks that one of the named fields is given.
func (d *decoder) exactlyOne(s spot, given map[string]bool) {
	var set []string
	for _, name := range names(given) {
		if given[name] {
			set = append(set, name)
		} else if d.failed[joinPath(s.path, name)] {
			return // it is there, but wrong
		}
	}
	switch {
	case len(set) == 0:
		d.fail(s, "exactly one of %s is required", strings.Join(names(given), ", "))
	case len(set) > 1:
		d.fail(s.at(set[1]), "stands beside %s; exactly one of %s is allowed", set[0], strings.Join(names(given), ", "))
	}
}
