package kind

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Bounds of what the model reads.
const (
	maxResultBytes  = 256 << 10
	maxProblemBytes = 2 << 10
)

// textResult is what the model reads when the answer is not JSON.
type textResult struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Text        string `json:"text"`
	Note        string `json:"note,omitempty"`
}

// result turns a response into the JSON value that the model reads. JSON stays
// as it came, digits and all; other text becomes a JSON string; anything else
// is described. Nothing in it is ever taken for a call or a decision.
func result(r egress.Response, scrub scrubber) json.RawMessage {
	contentType := r.Header.Get("Content-Type")
	body := scrub.bytes(r.Body)
	cut := r.Truncated || r.Broken != nil
	if cut {
		body = scrub.cut(r.Body)
	}
	out := textResult{Status: r.Status, ContentType: scrub.text(clean(contentType, 200))}
	encoded := r.Header.Get("Content-Encoding")
	switch {
	case !cut && len(body) > 0 && storable(body):
		return body
	case encoded != "" && encoded != "identity" || !isText(contentType, body):
		out.Note = fmt.Sprintf("binary content, %s, not shown", size(r))
	default:
		out.Text = clean(string(body), maxResultBytes)
		if cut {
			out.Note = fmt.Sprintf("cut off after %d bytes: %s", len(out.Text), why(r))
		}
	}
	for {
		b, err := events.Marshal(out)
		if err != nil {
			return json.RawMessage(`{"note":"the answer could not be shown"}`)
		}
		if len(b) <= 2*maxResultBytes {
			return b
		}
		// Characters that JSON writes as six bytes.
		out.Text = clip(out.Text, len(out.Text)/2)
		out.Note = fmt.Sprintf("cut off after %d bytes: it is mostly control characters", len(out.Text))
	}
}

func why(r egress.Response) string {
	if r.Broken != nil {
		return "the connection broke"
	}
	return "the answer is longer"
}

func size(r egress.Response) string {
	if r.Truncated || r.Broken != nil {
		return fmt.Sprintf("more than %d bytes", len(r.Body))
	}
	return fmt.Sprintf("%d bytes", len(r.Body))
}

// storable reports whether raw is JSON that every reader takes: one value,
// valid UTF-8, no NUL, no key twice, not too deep.
func storable(raw []byte) bool {
	_, err := events.Canonical(raw)
	return err == nil
}

func isText(contentType string, body []byte) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil {
		for _, prefix := range []string{"image/", "audio/", "video/", "font/"} {
			if strings.HasPrefix(media, prefix) && media != "image/svg+xml" {
				return false
			}
		}
	}
	bad := 0
	for rest := body; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 && len(rest) > utf8.UTFMax || r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' && r != 0x1b {
			bad++
		}
		rest = rest[n:]
	}
	return bad*20 <= len(body) // a few broken characters do not make text binary
}

// clean makes text that every store takes, of at most limit bytes, without
// splitting a character.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	return clip(s, limit)
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
