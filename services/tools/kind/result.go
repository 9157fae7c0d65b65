package kind

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Bounds of what the model reads.
const (
	maxResultBytes  = 256 << 10
	maxProblemBytes = 2 << 10
)

// outputLimit is how many bytes of an answer the model reads: the tool's own
// limit, never more than the kind's.
func outputLimit(t *spec.Tool, most int) int {
	if t.MaxOutput > 0 {
		return min(int(t.MaxOutput), most)
	}
	return most
}

// textResult is what the model reads when the answer is not JSON, or not whole.
type textResult struct {
	Status      int            `json:"status"`
	ContentType string         `json:"content_type,omitempty"`
	Text        string         `json:"text"`
	Note        string         `json:"note,omitempty"`
	Artifacts   []artifactNote `json:"artifacts,omitempty"`
}

// result turns a response into the JSON value that the model reads. JSON stays
// as it came, digits and all; other text becomes a JSON string; anything else
// is described. What it does not show whole is kept as an artifact. Nothing in
// it is ever taken for a call or a decision.
func result(r egress.Response, scrub scrubber, limit int, k *keeper) json.RawMessage {
	r = unzipped(r)
	contentType := scrub.clean(r.Header.Get("Content-Type"), 200)
	encoded := encoding(r) != ""
	body := scrub.bytes(r.Body)
	broken := r.Truncated || r.Broken != nil
	if broken {
		body = scrub.cut(r.Body)
	}
	out := textResult{Status: r.Status, ContentType: contentType}
	whole := false
	switch {
	case !broken && len(body) > 0 && len(body) <= limit && storable(body):
		return body
	case encoded || !isText(contentType, body):
		out.Note = fmt.Sprintf("binary content, %s, not shown", size(r))
	default:
		out.Text = clipText(clean(string(body), len(body)*len("\uFFFD")), limit)
		whole = !broken && len(body) <= limit && utf8.Valid(body)
		switch {
		case broken:
			out.Note = fmt.Sprintf("cut off after %d bytes: %s", len(out.Text), why(r))
		case len(body) > limit:
			out.Note = fmt.Sprintf("cut off after %d bytes: the answer is longer, it has %d", len(out.Text), len(body))
		case !utf8.Valid(body):
			out.Note = "it is not valid UTF-8: what cannot be read is shown as \uFFFD"
		}
	}
	// What is packed cannot be searched for secrets.
	if !whole && len(body) > 0 && !(encoded && scrub.any()) {
		out.Artifacts = k.bytes(body, contentType, "", broken)
	}
	for {
		b, err := events.Marshal(out)
		if err != nil {
			return json.RawMessage(`{"note":"the answer could not be shown"}`)
		}
		if len(b) <= 2*limit+4<<10 {
			return b
		}
		// Characters that JSON writes as six bytes.
		out.Text = clip(out.Text, len(out.Text)/2)
		out.Note = fmt.Sprintf("cut off after %d bytes: it is mostly control characters", len(out.Text))
		if out.Artifacts == nil {
			out.Artifacts = k.bytes(body, contentType, "", broken)
		}
	}
}

// encoding is how the body is packed; empty when it is not.
func encoding(r egress.Response) string {
	if e := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); e != "identity" {
		return e
	}
	return ""
}

// unzipped unpacks what came as gzip although nobody asked for it. It is read
// as far as any body is; one that cannot be unpacked stays as it is.
func unzipped(r egress.Response) egress.Response {
	if e := encoding(r); e != "gzip" && e != "x-gzip" || r.Truncated || r.Broken != nil {
		return r
	}
	z, err := gzip.NewReader(bytes.NewReader(r.Body))
	if err != nil {
		return r
	}
	body, err := io.ReadAll(io.LimitReader(z, maxArtifactBytes+1))
	if err != nil {
		return r
	}
	if r.Truncated = len(body) > maxArtifactBytes; r.Truncated {
		body = body[:maxArtifactBytes]
	}
	r.Body, r.Header = body, r.Header.Clone()
	r.Header.Del("Content-Encoding")
	return r
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

// halfEscape is the end of JSON text that was cut inside an escape, or between
// the two halves of one character.
var halfEscape = regexp.MustCompile(`(?i)(\\ud[89ab][0-9a-f]{2})?(\\(u[0-9a-f]{0,3})?)?$`)

// clipText is clip for what may be JSON: no escape is split either.
func clipText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = clip(s, limit)
	tail := max(0, len(s)-12)
	return s[:tail] + halfEscape.ReplaceAllString(s[tail:], "")
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
