package approvals_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/approvals/notify"
)

// book is the catalog of channels of a test, with their secrets.
type book struct {
	mu  sync.Mutex
	all map[string]*spec.Channel
	env map[string]string
}

func (b *book) channel(_ context.Context, namespace, name string) (*spec.Channel, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.all[namespace+"/"+name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: %s", approvals.ErrNoChannel, name)
}

// apply defines a channel in the namespace default.
func (b *book) apply(t testing.TB, name, body string, env map[string]string) {
	t.Helper()
	docs, err := spec.Parse("channel.yaml", []byte("apiVersion: holdfast/v1\nkind: Channel\nmetadata: {name: "+name+"}\nspec:\n"+body))
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all, b.env = map[string]*spec.Channel{}, map[string]string{}
	}
	b.all["default/"+name] = docs[0].Channel
	for k, v := range env {
		b.env[k] = v
	}
}

func (b *book) lookup(name string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.env[name]
	return v, ok
}

func channels(b *book) []approvals.Channel { return notify.All(b.config()) }

func clicks(b *book) approvals.Clicks { return notify.NewSlack(b.config()) }

func (b *book) config() notify.Config {
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return notify.Config{Egress: egress.New(egress.Config{Allow: allow}), LookupEnv: b.lookup, ReadFile: os.ReadFile}
}

// hit is one request that another system got.
type hit struct {
	path   string
	header http.Header
	body   []byte
}

// outside is another system. answers are given one after the other, then 200
// with Slack's words for well done.
type outside struct {
	*httptest.Server
	mu      sync.Mutex
	got     []hit
	answers []func(http.ResponseWriter)
}

func newOutside(t testing.TB) *outside {
	t.Helper()
	o := &outside{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.got = append(o.got, hit{r.URL.Path, r.Header, body})
		n := len(o.got)
		var answer func(http.ResponseWriter)
		if len(o.answers) > 0 {
			answer, o.answers = o.answers[0], o.answers[1:]
		}
		o.mu.Unlock()
		if answer != nil {
			answer(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"ok":true,"channel":"C0123456789","ts":"1795426600.%06d"}`, n)
	}))
	t.Cleanup(o.Close)
	return o
}

// next gives the next answers.
func (o *outside) next(answers ...func(http.ResponseWriter)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers = append(o.answers, answers...)
}

// at lists the requests to a path.
func (o *outside) at(path string) (out []hit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.got {
		if strings.HasPrefix(h.path, path) {
			out = append(out, h)
		}
	}
	return out
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func says(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, body) }
}

func decoded[T any](t testing.TB, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}
