package spec

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// maxURLBytes bounds a rendered URL.
const maxURLBytes = 8 << 10

// URL renders the template as an http or https URL. What stands for the
// address of the server comes from the template's own text or from ${env...};
// every other value is escaped as one segment, so that no argument can change
// host, path structure or query: everything but A-Z a-z 0-9 - . _ ~ becomes
// %XX, and a path segment that would be empty, "." or ".." is refused.
func (t *Template) URL(values map[string]json.RawMessage) (string, error) {
	if !t.isText() {
		return "", fmt.Errorf("a URL must be text")
	}
	var w limited
	server, query := true, false
	for i, p := range t.root.pieces {
		text := p.text
		if p.path != nil {
			raw, err := p.path.find(values)
			if err != nil {
				return "", err
			}
			if text, err = scalar(*p.path, raw, query); err != nil {
				return "", err
			}
			switch {
			case !server:
				text = escapeSegment(text)
			case p.path.Root != "env":
				return "", fmt.Errorf("${%s} may not name the server; only ${env...} may", p.path)
			case i+1 < len(t.root.pieces) && strings.ContainsAny(text, "?#"):
				return "", fmt.Errorf("${%s} holds a query or fragment and cannot be followed by a path", p.path)
			case i+1 < len(t.root.pieces):
				text = strings.TrimRight(text, "/")
			}
		} else if server {
			server = !endsServer(text)
		}
		query = query || p.path == nil && strings.Contains(text, "?")
		if err := w.add([]byte(text)); err != nil || w.Len() > maxURLBytes {
			return "", fmt.Errorf("URL is longer than %d bytes", maxURLBytes)
		}
	}
	return checkURL(w.String())
}

// endsServer reports whether literal text ends the part of a URL that names
// the server.
func endsServer(text string) bool {
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	}
	return strings.ContainsAny(text, "/?#")
}

func checkURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text may hold a value of the environment
		return "", fmt.Errorf("URL is not valid")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("URL must begin with http:// or https://")
	case u.Hostname() == "":
		return "", fmt.Errorf("URL names no host")
	case u.User != nil:
		return "", fmt.Errorf("URL must not hold a user or password; use a header with ${secret...}")
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return "", fmt.Errorf("URL path must not hold the segment %q", shorten(segment))
		}
	}
	return text, nil
}

// escapeSegment percent-encodes all but the unreserved characters of RFC 3986,
// section 2.3. The result is safe in a path segment and in a query value.
func escapeSegment(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// serverPart checks when a definition is read what URL checks when it is used:
// a value in the server's part can only come from env.
func (d *decoder) serverPart(s spot, t *Template) {
	server := true
	for i, p := range t.root.pieces {
		switch {
		case !server:
			continue
		case p.path != nil && p.path.Root != "env":
			d.fail(s, "${%s} may not name the server; only ${env...} may", p.path)
			return
		case p.path == nil && i == 0 && !strings.HasPrefix(p.text, "http://") && !strings.HasPrefix(p.text, "https://"):
			d.fail(s, "must begin with http://, https:// or ${env.%s...}", ToolEnvPrefix)
			return
		case p.path == nil:
			server = !endsServer(p.text)
		}
	}
	if len(t.root.pieces) == 0 {
		d.fail(s, "must not be empty")
	}
}
