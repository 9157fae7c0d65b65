package spec

import (
	"encoding/json"
	"fmt"
)

// MaxPreviewBytes bounds what a preview may become; what is longer is no preview.
const MaxPreviewBytes = 4 << 10

// PreviewOf is the line that a person reads instead of the arguments' JSON: numbers
// keep the digits that they are written with. It is empty when the tool has none;
// arguments that it cannot be made from are an error. What it says comes from the
// model: whoever shows it makes it fit to show.
func (t *Tool) PreviewOf(args json.RawMessage) (string, error) {
	if t.Preview == nil {
		return "", nil
	}
	var w limited
	err := renderText(&w, t.Preview.root.pieces, map[string]json.RawMessage{"args": args}, func(p Path, raw json.RawMessage) (string, error) {
		text, err := scalar(p, raw, true)
		if err == nil && w.Len()+len(text) > MaxPreviewBytes {
			err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxPreviewBytes)
		}
		return text, err
	})
	if err != nil {
		return "", fmt.Errorf("preview of tool %s: %w", t.Name, err)
	}
	return w.String(), nil
}

// previewTemplate checks a preview.
func (d *decoder) previewTemplate(s spot, t *Template) {
	if t == nil {
		return
	}
	d.textTemplate(s, t)
	d.roots(t, "args")
	if t.isText() {
		d.text(s, s.n.text, 1000)
	}
}
