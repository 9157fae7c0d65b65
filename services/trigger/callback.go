package trigger

import (
	"github.com/holdfast-run/holdfast/pkg/events"
)

// checkCallback refuses an address that the run's end may not be posted to.
func checkCallback(t Target, address string) error {
	if address == "" {
		return nil
	}
	refuse := func(path, message string) error {
		r := Refuse(CodeInvalidCallback, "the end of this run cannot be posted to that callback")
		r.Places = []Place{{Path: path, Message: message}}
		return r
	}
	if t.Callback == nil {
		return refuse("callback", t.Ref.Kind+" "+t.Ref.Name+" takes no callbacks; add spec.callback with the secrets that sign them, or start without one and read the run")
	}
	if err := t.Callback.CheckURL(address); err != nil {
		return refuse("callback.url", err.Error())
	}
	return nil
}

// callbackURL is the address of what a start carries. A callback that names none is as
// wrong as one that names a bad one.
func callbackURL(c *events.Callback) (string, error) {
	if c == nil {
		return "", nil
	}
	if c.URL == "" {
		r := Refuse(CodeInvalidCallback, "the callback names no address")
		r.Places = []Place{{Path: "callback.url", Message: "must be an absolute http or https URL"}}
		return "", r
	}
	return c.URL, nil
}

func (d Delivery) callback() *events.Callback {
	if d.Callback == "" {
		return nil
	}
	return &events.Callback{URL: d.Callback}
}
