package door_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
)

const bodyLimit = 2 << 20

func text(n int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	block := make([]byte, min(n, 64<<10)) // longer than gzip looks back
	for i := range block {
		block[i] = letters[rnd.IntN(len(letters))]
	}
	return bytes.Repeat(block, n/len(block)+1)[:n]
}

// bomb is gzip of 200 MiB: members of one MiB, which expand to one text.
func bomb() []byte { return bytes.Repeat(zipped(make([]byte, 1<<20)), 200) }

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// unknownLength hides the length, so that the request is chunked.
type unknownLength struct{ io.Reader }

// reader is a server that reads bodies and answers with what it read.
func reader(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, done, err := door.ReadBody(r, bodyLimit)
		defer done()
		if err != nil {
			door.Fail(w, r, err)
			return
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestReadBody(t *testing.T) {
	t.Parallel()
	url := reader(t)
	small, large, over, far := text(1000), text(bodyLimit), text(bodyLimit+1), text(3*bodyLimit)
	for name, tc := range map[string]struct {
		body     []byte
		encoding string
		chunked  bool
		status   int
		want     []byte   // of a 200
		says     []string // of another
	}{
		"small":                    {body: small, status: 200, want: small},
		"at the limit":             {body: large, status: 200, want: large},
		"at the limit, chunked":    {body: large, chunked: true, status: 200, want: large},
		"at the limit, gzip":       {body: zipped(large), encoding: "gzip", status: 200, want: large},
		"gzip and chunked":         {body: zipped(small), encoding: "GZip", chunked: true, status: 200, want: small},
		"identity":                 {body: small, encoding: "identity", status: 200, want: small},
		"one byte over":            {body: over, status: 413, says: []string{"body_too_large", fmt.Sprint(bodyLimit), fmt.Sprint(bodyLimit + 1)}},
		"one byte over, chunked":   {body: over, chunked: true, status: 413, says: []string{"body_too_large", fmt.Sprint(bodyLimit), fmt.Sprint(bodyLimit + 1)}},
		"one byte over, gzip":      {body: zipped(over), encoding: "gzip", status: 413, says: []string{"body_too_large", fmt.Sprint(bodyLimit + 1)}},
		"far over, chunked":        {body: far, chunked: true, status: 413, says: []string{"body_too_large", "more than " + fmt.Sprint(2*bodyLimit)}},
		"a bomb":                   {body: bomb(), encoding: "gzip", status: 413, says: []string{"body_too_large", "expands"}},
		"no gzip at all":           {body: small, encoding: "gzip", status: 400, says: []string{"invalid_encoding"}},
		"gzip that was cut":        {body: zipped(large)[:1<<20], encoding: "gzip", status: 400, says: []string{"invalid_encoding"}},
		"gzip of another checksum": {body: changed(zipped(small)), encoding: "gzip", status: 400, says: []string{"invalid_encoding"}},
		"brotli":                   {body: small, encoding: "br", status: 415, says: []string{"unsupported_media_type", "br"}},
		"gzip twice":               {body: zipped(zipped(small)), encoding: "gzip, gzip", status: 415, says: []string{"unsupported_media_type"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body io.Reader = bytes.NewReader(tc.body)
			if tc.chunked {
				body = unknownLength{body}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
			if err != nil {
				t.Fatal(err)
			}
			if tc.encoding != "" {
				req.Header.Set("Content-Encoding", tc.encoding)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != tc.status {
				t.Fatalf("%s: %.200s, %v; want %d", res.Status, got, err, tc.status)
			}
			if tc.status == 200 && !bytes.Equal(got, tc.want) {
				t.Errorf("read %d bytes, want the %d that were sent", len(got), len(tc.want))
			}
			for _, word := range tc.says {
				if !strings.Contains(string(got), word) {
					t.Errorf("%s does not say %q", got, word)
				}
			}
		})
	}
}

func changed(b []byte) []byte {
	b[len(b)-6] ^= 0xff
	return b
}

// What a refused body expands to is kept nowhere.
func TestCaseA03_BombCostsNoMemory(t *testing.T) {
	slow := zipped(text(40 << 20)) // expands little, and beyond the limit all the same
	for name, body := range map[string][]byte{"a bomb": bomb(), "a large text": slow} {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Encoding", "gzip")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, done, err := door.ReadBody(r, bodyLimit)
		runtime.ReadMemStats(&after)
		done()
		if p := door.From(err); err == nil || p.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 4*bodyLimit {
			t.Errorf("%s took %d bytes of memory, the limit of a body is %d", name, took, bodyLimit)
		}
	}
}

// Large bodies wait for a place; who finds none is told to come back, and small
// ones are not in their way.
func TestReadBody_LargeOnesSharePlaces(t *testing.T) {
	read := func(body []byte) (func(), error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
		_, done, err := door.ReadBody(r, bodyLimit)
		return done, err
	}
	large := text(bodyLimit)
	var held []func()
	for {
		done, err := read(large)
		if err != nil {
			if p := door.From(err); p.Status != http.StatusServiceUnavailable || p.GetHeaders().Get("Retry-After") == "" {
				t.Errorf("without a place: %v", err)
			}
			break
		}
		if held = append(held, done); len(held) > 100 {
			t.Fatal("a hundred large bodies are in memory")
		}
	}
	if len(held) == 0 {
		t.Fatal("there is no place at all")
	}
	if _, err := read(text(1000)); err != nil {
		t.Errorf("a small body: %v", err)
	}
	for _, done := range held {
		done()
		done() // harmless
	}
	done, err := read(large)
	if err != nil {
		t.Errorf("after the places were given back: %v", err)
	}
	done()
}

func TestAccepts(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"text/*":                              false,
		"text/event-stream":                   true,
		"Text/Event-Stream; charset=utf-8":    true,
		"application/json, text/event-stream": true,
		"text/event-stream;q=0":               false,
		"text/event-stream;q=0.5, */*":        true,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set("Accept", accept)
		if got := door.Accepts(r, "text/event-stream"); got != want {
			t.Errorf("Accept %q: %v", accept, got)
		}
	}
}
