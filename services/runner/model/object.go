package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// object is a JSON object whose members keep their order and their bytes, those
// that this release does not know included.
type object struct {
	names  []string
	values map[string]json.RawMessage
}

func parseObject(raw []byte) (*object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(errors.New("not a JSON object"), err)
	}
	o := &object{values: map[string]json.RawMessage{}}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%v is not the name of a member", t)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		o.set(name, v)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return o, nil
}

// set puts v at the place of an older value of that name, else at the end.
func (o *object) set(name string, v json.RawMessage) {
	if _, ok := o.values[name]; !ok {
		o.names = append(o.names, name)
	}
	o.values[name] = v
}

// drop takes a member out.
func (o *object) drop(name string) {
	delete(o.values, name)
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
}

// merge takes the members of from, except those in without. A null says nothing
// about a member that has a value.
func (o *object) merge(from *object, without ...string) {
	for _, name := range from.names {
		if _, has := o.values[name]; has && isNull(from.values[name]) || slices.Contains(without, name) {
			continue
		}
		o.set(name, from.values[name])
	}
}

// text is a string member, decoded; "" when it is none.
func (o *object) text(name string) string {
	var s string
	if json.Unmarshal(o.values[name], &s) != nil {
		return ""
	}
	return s
}

// child is a member that must be an object.
func (o *object) child(name string) (*object, error) {
	c, err := parseObject(o.values[name])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func (o *object) json() (json.RawMessage, error) {
	b := []byte{'{'}
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := events.Marshal(name)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), o.values[name]...)
	}
	return append(b, '}'), nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// stringBody is what stands between the quotes of a JSON string, escapes as
// they are; false when raw is another value.
func stringBody(raw json.RawMessage) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}
