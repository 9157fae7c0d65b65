package tools_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// png is an answer that no model reads.
var png = append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{0, 0xff, 0xd8}, 5000)...)

// outside is the other side: it counts what it did, by arguments.
type outside struct {
	*httptest.Server
	arrivals atomic.Int64
	lookup   func(o *outside, rw http.ResponseWriter, n string) // answers /seen/<args.n>

	mu    sync.Mutex
	done  map[string]int             // path and body → effects
	known map[string]json.RawMessage // Idempotency-Key → answer
	keys  map[string]map[string]bool // body → keys that came with it
	seen  map[string]int             // body → arrivals
	gate  map[string]chan struct{}   // body → answers wait for it
	later map[string][]string        // body → where its results are posted, in the order of the requests
}

func newOutside(t *testing.T) *outside {
	o := &outside{done: map[string]int{}, known: map[string]json.RawMessage{}, keys: map[string]map[string]bool{}, seen: map[string]int{}, gate: map[string]chan struct{}{}, later: map[string][]string{}}
	o.Server = httptest.NewServer(o)
	t.Cleanup(func() {
		o.mu.Lock()
		for _, g := range o.gate {
			select {
			case <-g:
			default:
				close(g)
			}
		}
		o.mu.Unlock()
		o.Server.Close()
	})
	return o
}

// hold makes requests with these arguments wait, after their effect, until the
// returned function is called.
func (o *outside) hold(c events.CallTool) (release func()) {
	g := make(chan struct{})
	o.mu.Lock()
	o.gate[string(c.Args)] = g
	o.mu.Unlock()
	return sync.OnceFunc(func() { close(g) })
}

// ServeHTTP acts and answers. args.mode chooses how: "" answers, "422" refuses,
// "500" acts and says so, "flaky" is 503 twice without acting, "429" once, "png" answers with a picture. "once"
// and "always" answer args.status, and Retry-After args.after, without acting;
// "reset" breaks the first connection.
func (o *outside) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if n, ok := strings.CutPrefix(r.URL.Path, "/seen/"); ok {
		o.lookup(o, rw, n)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/later") {
		o.accept(rw, r)
		return
	}
	o.arrivals.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/look/") {
		body = []byte(r.URL.Path)
	}
	var args struct {
		Mode, After string
		Status      int
	}
	_ = json.Unmarshal(body, &args)
	key := r.Header.Get("Idempotency-Key")

	o.mu.Lock()
	o.seen[string(body)]++
	seen, gate := o.seen[string(body)], o.gate[string(body)]
	if o.keys[string(body)] == nil {
		o.keys[string(body)] = map[string]bool{}
	}
	o.keys[string(body)][key] = true
	answer, repeat := o.known[key]
	repeat = repeat && r.URL.Path == "/honour"
	acts := !repeat && args.Mode != "422" && !(args.Mode == "flaky" && seen <= 2) && !(args.Mode == "429" && seen == 1) &&
		args.Mode != "always" && !((args.Mode == "once" || args.Mode == "reset") && seen == 1)
	if acts {
		o.done[string(body)]++
		answer = fmt.Appendf(nil, `{"receipt":"r-%d","amount":9007199254740993}`, o.arrivals.Load())
		if r.URL.Path == "/echo" {
			answer = fmt.Appendf(nil, `{"you_sent":%q}`, r.Header.Get("Authorization"))
		}
		o.known[key] = answer
	}
	o.mu.Unlock()
	if gate != nil {
		<-gate
	}
	switch {
	case args.Mode == "422":
		http.Error(rw, `{"error":"no such charge"}`, http.StatusUnprocessableEntity)
	case args.Mode == "500" && !repeat:
		http.Error(rw, "sorry "+r.Header.Get("Authorization"), http.StatusInternalServerError)
	case args.Mode == "always", args.Mode == "once" && seen == 1:
		if args.After != "" {
			rw.Header().Set("Retry-After", args.After)
		}
		rw.WriteHeader(args.Status)
		_, _ = io.WriteString(rw, r.URL.Query().Get("say"))
	case args.Mode == "reset" && seen == 1:
		panic(http.ErrAbortHandler)
	case args.Mode == "png":
		rw.Header().Set("Content-Type", "image/png")
		_, _ = rw.Write(png)
	case args.Mode == "429" && seen == 1:
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(http.StatusTooManyRequests)
	case !acts && !repeat:
		rw.WriteHeader(http.StatusServiceUnavailable)
	default:
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(answer)
	}
}

func (o *outside) body(c events.CallTool) string {
	if c.Tool == "look" {
		var args struct{ What string }
		_ = json.Unmarshal(c.Args, &args)
		return "/look/" + args.What
	}
	return string(c.Args)
}

func (o *outside) effects(c events.CallTool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done[o.body(c)]
}

func (o *outside) requests(c events.CallTool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[o.body(c)]
}

func (o *outside) keysOf(c events.CallTool) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for k := range o.keys[o.body(c)] {
		out = append(out, k)
	}
	return out
}
