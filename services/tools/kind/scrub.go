package kind

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

const redacted = "[redacted]"

// scrubber takes secrets out of what the other side sent back, in the spellings
// that a program would echo them in.
type scrubber struct{ spellings []string }

// newScrubber takes out the values of secrets, and more.
func newScrubber(secrets map[string]string, more ...string) scrubber {
	var s scrubber
	for _, v := range slices.AppendSeq(more, maps.Values(secrets)) {
		if v == "" {
			continue
		}
		quoted, _ := json.Marshal(v)
		plain, _ := events.Marshal(v)
		inJSON, inText := string(quoted[1:len(quoted)-1]), string(plain[1:len(plain)-1])
		for _, form := range []string{v, inJSON, inText, strings.ReplaceAll(inText, "/", `\/`), url.QueryEscape(v), url.PathEscape(v)} {
			if !slices.Contains(s.spellings, form) {
				s.spellings = append(s.spellings, form)
			}
		}
		// "Bearer x" and "Basic x" are often kept whole; x alone is the secret too.
		if _, last, ok := strings.Cut(v, " "); ok && len(last) >= 8 && !slices.Contains(s.spellings, last) {
			s.spellings = append(s.spellings, last)
		}
	}
	// The longest first, so that a spelling inside another one leaves no rest.
	slices.SortFunc(s.spellings, func(a, b string) int { return len(b) - len(a) })
	return s
}

func (s scrubber) bytes(b []byte) []byte {
	for _, v := range s.spellings {
		if bytes.Contains(b, []byte(v)) {
			b = bytes.ReplaceAll(b, []byte(v), []byte(redacted))
		}
	}
	return b
}

// any reports whether there is a secret to take out.
func (s scrubber) any() bool { return len(s.spellings) > 0 }

func (s scrubber) text(t string) string {
	if len(s.spellings) == 0 {
		return t
	}
	return string(s.bytes([]byte(t)))
}

// clean is clean for text of the other side: a secret goes before the text is
// cut, so that no part of it stays.
func (s scrubber) clean(t string, limit int) string { return clean(s.text(t), limit) }

// outcome takes secrets out of what the model reads, also those that were escaped
// in another way than programs do.
func (s scrubber) outcome(o tools.Outcome) tools.Outcome {
	o.Result, o.Whole = s.json(o.Result), s.json(o.Whole)
	if o.Error != nil {
		o.Error.Message = s.text(o.Error.Message)
	}
	return o
}

func (s scrubber) json(raw json.RawMessage) json.RawMessage {
	if !s.any() || len(raw) == 0 {
		return raw
	}
	raw = s.bytes(raw)
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	if plain, err := events.Canonical(raw); err == nil {
		if clean := s.bytes(plain); !bytes.Equal(clean, plain) {
			return clean
		}
	}
	return raw
}

// cut is bytes for a body that was cut off: the beginning of a secret at its
// end goes too.
func (s scrubber) cut(b []byte) []byte {
	b = s.bytes(b)
	for _, v := range s.spellings {
		for n := min(len(v)-1, len(b)); n >= 4; n-- {
			if bytes.HasSuffix(b, []byte(v[:n])) {
				b = b[:len(b)-n]
				break
			}
		}
	}
	return b
}
