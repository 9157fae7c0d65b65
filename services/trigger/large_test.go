package trigger_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/blob"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// exact are values that a careless hop changes, as members of a JSON object.
const exact = `"a":8202522731445525542,"b":9007199254740993,"c":0.1,"d":12345678901234567890.123,"e":1e400,"f":-0,"g":1.50,` +
	`"look":"x\\u0000y","esc":"\u00e9\u003c\/","wide":"\ud83d\ude00 ü"`

// document is a JSON object of exactly size bytes that gzip cannot shrink much.
func document(size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	head, tail := `{`+exact+`,"fill":"`, `"}`
	rnd := rand.New(rand.NewPCG(3, uint64(size)))
	block := make([]byte, 64<<10) // longer than gzip looks back
	for i := range block {
		block[i] = letters[rnd.IntN(len(letters))]
	}
	n := size - len(head) - len(tail)
	return head + strings.Repeat(string(block), n/len(block)+1)[:n] + tail
}

func gzipped(text string) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return out.Bytes()
}

// way is one way to send a body.
type way struct {
	name    string
	chunked bool
	gzip    bool
}

var ways = []way{{name: "with its length"}, {name: "chunked", chunked: true}, {name: "gzip", gzip: true}}

func (r *replica) sendBy(t *testing.T, w way, path, body string, header ...string) answer {
	t.Helper()
	var reader io.Reader = strings.NewReader(body)
	if w.gzip {
		reader = bytes.NewReader(gzipped(body))
		header = append(header, "Content-Encoding", "gzip")
	}
	if w.chunked {
		reader = struct{ io.Reader }{reader}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.address()+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return readAnswer(t, res)
}

func TestCaseA03_LargeBodies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	token := []string{"Authorization", "Bearer " + doortest.Token(authn.Operator)}
	taken := w.collect(t, true)
	sent := map[string]string{} // by run
	sizes := []int{60_000, 65 << 10, 900 << 10, 1_048_000, 1 << 20, 3 << 19, 5 << 20}
	if race { // each byte costs twenty times as much; test/e2e sends 5 MiB without
		sizes = []int{60_000, 65 << 10, 1_048_000, 1 << 20}
	}
	for _, size := range sizes {
		for i, by := range ways {
			body := document(size)
			a := r.sendBy(t, by, "/hooks/raw", body)
			if a.status != http.StatusAccepted {
				t.Fatalf("%d bytes %s: %d %s", size, by.name, a.status, a.body)
			}
			sent[a.RunID] = body
			if i == len(ways)-1 || size > 2<<20 {
				a = r.sendBy(t, by, startAnything, `{"input":`+body+`}`, token...)
				if a.status != http.StatusAccepted {
					t.Fatalf("%d bytes in a start %s: %d %s", size, by.name, a.status, a.body)
				}
				sent[a.RunID] = body
			}
		}
	}
	for _, start := range taken.exactly(t, len(sent)) {
		want := sent[string(start.RunID)]
		if len(want) > events.MaxInline != (start.InputRef != nil) {
			t.Errorf("a start of %d bytes has the reference %v", len(want), start.InputRef)
		}
		got := start.Input
		if start.InputRef != nil {
			var err error
			if got, err = blob.Get(t.Context(), w.db.Open(t, "holdfast_runner"), *start.InputRef); err != nil {
				t.Error(err)
			}
		}
		if string(got) != want {
			t.Errorf("a body of %d bytes arrives as %d others", len(want), len(got))
		}
		if shown := w.input(t, string(start.RunID)); shown != want {
			t.Errorf("a body of %d bytes is kept as %d others", len(want), len(shown))
		}
	}
	// What was stored for a delivery goes with it.
	if n := w.count(t, "blob.blobs"); n == 0 {
		t.Error("nothing travelled by reference")
	}
	if _, err := w.db.Pool.Exec(t.Context(), `DELETE FROM trigger.deliveries`); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "blob.blobs"); n != 0 {
		t.Errorf("%d blobs are left of deleted deliveries", n)
	}
}

// Beyond the limit is 413 with both numbers, and nothing is stored. It is never
// 500, and never 2xx with a loss.
func TestCaseA03_TooLargeBodies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	token := []string{"Authorization", "Bearer " + doortest.Token(authn.Operator)}
	body := document(26 << 20)
	paths := []string{"/hooks/raw", startAnything}
	if race { // internal/door tries every way to send too much
		paths = paths[:1]
	}
	for _, path := range paths {
		for _, by := range ways {
			a := r.sendBy(t, by, path, body, token...)
			if a.status != 413 || a.Code != trigger.CodeTooLarge || !strings.Contains(a.Detail, fmt.Sprint(26<<20)) || !strings.Contains(a.Detail, fmt.Sprint(trigger.DefaultMaxBody)) {
				t.Errorf("26 MiB %s to %s: %d %s", by.name, path, a.status, a.body)
			}
		}
		// Members of one MiB, which expand to one text of 200.
		bomb := strings.Repeat(string(gzipped(strings.Repeat("x", 1<<20))), 200)
		if a := r.sendBy(t, way{}, path, bomb, append(token, "Content-Encoding", "gzip")...); a.status != 413 || a.Code != trigger.CodeTooLarge {
			t.Errorf("200 MiB of gzip to %s: %d %s", path, a.status, a.body)
		}
	}
	if n := w.count(t, "trigger.deliveries") + w.count(t, "blob.blobs"); n != 0 {
		t.Errorf("%d rows of refused bodies", n)
	}
	accepted(t, r.sendBy(t, way{gzip: true}, startAnything, `{"input":1}`, token...)) // the door is as before
}

// NATS away while a large start waits: it is announced once NATS is back, and
// its bytes are stored once.
func TestCaseA03_LargeStartWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	w.nats.Stop()
	body := document(2 << 20)
	a := r.sendBy(t, way{}, "/hooks/raw", body)
	accepted(t, a)
	until(t, "the bytes to be stored", func() bool { return w.count(t, "blob.blobs") == 1 })
	w.nats.Start()
	start := w.collect(t, true).exactly(t, 1)[0]
	got, err := blob.Get(t.Context(), w.db.Pool, *start.InputRef)
	if err != nil || string(got) != body || w.count(t, "blob.blobs") != 1 {
		t.Errorf("%d bytes of %d, %v", len(got), len(body), err)
	}
	if _, err := blob.Get(t.Context(), w.db.Pool, events.BlobRef{Scope: "run:x", Digest: start.InputRef.Digest}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("bytes of another scope: %v", err)
	}
}

// One policy for NUL at every door: 400 that names the place, and the look-alike
// passes untouched.
func TestCaseA04_NULAtTheDoors(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	send := map[string]func(string) answer{
		"webhook": func(body string) answer { return r.post("/hooks/raw", body, "Content-Type", "application/json") },
		"API":     func(body string) answer { return r.api(authn.Operator, "POST", startAnything, `{"input":`+body+`}`) },
	}
	for name, post := range send {
		for body, place := range map[string]string{`{"a":"x\u0000y"}`: ".a", `{"k\u0000":1}`: "NUL", `{"a":["b",{"c":"\u0000"}]}`: ".a[1].c", "{\"a\":\"x\x00y\"}": "body"} {
			if a := post(body); a.status != 400 || !strings.Contains(a.Detail, place) {
				t.Errorf("%s of %q: %d %s, want 400 that names %s", name, body, a.status, a.body, place)
			}
		}
		const look = `{"a":"x\\u0000y"}`
		a := post(look)
		accepted(t, a)
		if got := w.input(t, a.RunID); got != look {
			t.Errorf("%s: the look-alike became %s", name, got)
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != len(send) {
		t.Errorf("%d deliveries, want %d", n, len(send))
	}
}
