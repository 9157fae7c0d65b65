package kind

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
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
		inJSON := string(quoted[1 : len(quoted)-1])
		for _, form := range []string{v, inJSON, url.QueryEscape(v), url.PathEscape(v)} {
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
