package webhook

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// What anybody may send to a webhook's address is refused by each provider that has a
// secret, since nobody who writes such a request knows it, and makes no event but a whole one.
func FuzzProviders(f *testing.F) {
	var checks []trigger.Check // by provider, with a secret that no example was signed with
	for i, p := range All() {
		paths, err := filepath.Glob(filepath.Join("testdata", p.Name(), "*.txt"))
		if err != nil || len(paths) == 0 {
			f.Fatalf("provider %s has no examples (%v)", p.Name(), err)
		}
		for n, path := range paths {
			x := read(f, path)
			var head strings.Builder
			if err := x.request.Header.Write(&head); err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), x.request.Method, head.String(), x.request.RawQuery, x.request.Body, x.request.At.Unix())
			if n == 0 {
				for s, secret := range x.check.Secrets {
					x.check.Secrets[s] = secret[:len(secret)-1] + other(secret[len(secret)-1])
				}
				checks = append(checks, x.check)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, method, head, query string, body []byte, at int64) {
		i := int(which) % len(checks)
		p, c := All()[i], checks[i]
		r := trigger.Request{Method: method, Header: http.Header{}, RawQuery: query, Body: body, At: time.Unix(at, 0)}
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
			r.Header.Add(name, value)
		}
		r.Query, _ = url.ParseQuery(query)
		if p.Verify(r, c) == nil && p.Name() != (None{}).Name() {
			t.Errorf("%s accepted what nobody signed", p.Name())
		}
		e, err := p.Event(r, c)
		if err != nil {
			return
		}
		for _, e := range append(e.Items, e) {
			for what, raw := range map[string][]byte{"body": e.Body, "reply": e.Reply} {
				if raw != nil && events.Check(raw) != nil {
					t.Errorf("%s makes an event whose %s is %q", p.Name(), what, raw)
				}
			}
			if e.Reply == nil && e.Body == nil {
				t.Errorf("%s makes an event of nothing", p.Name())
			}
		}
	})
}

// other is another letter of every alphabet in which secrets are written.
func other(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}
