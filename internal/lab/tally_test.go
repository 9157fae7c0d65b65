package lab

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func honoursFirst15(shop string) bool { return shop <= "shop-15" }

type priceAPI struct {
	*Oracle
	url, file string
}

func setupOracle(t *testing.T) *priceAPI {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prices.jsonl")
	o, err := OpenOracle(file, honoursFirst15)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /shops/{shop}/prices", o)
	s := httptest.NewServer(mux)
	t.Cleanup(func() { s.Close(); o.Close() })
	return &priceAPI{Oracle: o, url: s.URL, file: file}
}

func (p *priceAPI) post(t *testing.T, shop, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", p.url+"/shops/"+shop+"/prices", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

const widget = `{"night":"2026-11-29","shop":"%s","product":"widget","price":1}`

func body(shop string) string { return strings.Replace(widget, "%s", shop, 1) }

func TestOracle(t *testing.T) {
	t.Parallel()
	p := setupOracle(t)
	_, first := p.post(t, "shop-01", "k1", body("shop-01"))
	_, again := p.post(t, "shop-01", "k1", body("shop-01"))
	if first != again {
		t.Errorf("a shop that honours the key answered %s, then %s", first, again)
	}
	if code, got := p.post(t, "shop-01", "k1", `{"night":"2026-11-29","product":"other"}`); code != 422 {
		t.Errorf("the same key with another body: %d %s, want 422", code, got)
	}
	_, first = p.post(t, "shop-16", "k2", body("shop-16"))
	_, again = p.post(t, "shop-16", "k2", body("shop-16"))
	if first == again {
		t.Errorf("a shop that does not honour the key gave the same receipt twice: %s", first)
	}
	p.post(t, "shop-02", "", body("shop-02"))
	if code, got := p.post(t, "shop-03", "k3", body("shop-04")); code != 422 {
		t.Errorf("a body about another shop: %d %s, want 422", code, got)
	}
	got, err := ReadTally(p.file)
	if err != nil {
		t.Fatal(err)
	}
	want := Tally{
		Arrivals: 7, Effects: 4, Keys: 3, Duplicates: 1, Replayed: 1, Refused: 2, Keyless: 1,
		PerKey: []KeyTally{
			{Business: "2026-11-29/shop-01/widget", Shop: "shop-01", Arrivals: 2, Effects: 1},
			{Business: "2026-11-29/shop-02/widget", Shop: "shop-02", Arrivals: 1, Effects: 1},
			{Business: "2026-11-29/shop-16/widget", Shop: "shop-16", Arrivals: 2, Effects: 2},
		},
		Doubled: []KeyTally{{Business: "2026-11-29/shop-16/widget", Shop: "shop-16", Arrivals: 2, Effects: 2}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Tally{})); diff != "" {
		t.Errorf("tally (-want +got)\n%s", diff)
	}
	if n := got.EffectsOf("2026-11-29/shop-16/widget"); n != 2 {
		t.Errorf("effects of shop-16: %d, want 2", n)
	}
	if n := got.EffectsOf("2026-11-29/shop-30/widget"); n != 0 {
		t.Errorf("effects of a key that never came: %d, want 0", n)
	}
}

// TestDuplicateUnderAnotherKey: what counts is the business key, so a second
// run that acts again under a key of its own is found.
func TestDuplicateUnderAnotherKey(t *testing.T) {
	t.Parallel()
	p := setupOracle(t)
	p.post(t, "shop-01", "k1", body("shop-01"))
	p.post(t, "shop-01", "k2", body("shop-01"))
	got, err := ReadTally(p.file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Duplicates != 1 || got.Effects != 2 {
		t.Errorf("%d duplicates of %d effects, want 1 of 2", got.Duplicates, got.Effects)
	}
}

// TestCommittedBeforeAnswer: when the caller is cut off, the file has the line.
func TestCommittedBeforeAnswer(t *testing.T) {
	t.Parallel()
	p := setupOracle(t)
	var tr Trap
	p.Committed = tr.Pass
	held := tr.Set("shop-16")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		req, err := http.NewRequestWithContext(ctx, "POST", p.url+"/shops/shop-16/prices", strings.NewReader(body("shop-16")))
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := http.DefaultClient.Do(req); err == nil {
			t.Error("a request that was cut off got an answer")
		}
	})
	c := <-held
	got, err := ReadTally(p.file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Effects != 1 || c.Arrival.Business != "2026-11-29/shop-16/widget" {
		t.Errorf("%d effects while %q waits for its answer, want 1", got.Effects, c.Arrival.Business)
	}
	// Others pass while one is held.
	if code, _ := p.post(t, "shop-17", "k", body("shop-17")); code != 200 {
		t.Errorf("another shop: %d, want 200", code)
	}
	cancel()
	<-c.Gone
	wg.Wait()
	tr.Release()
	if code, _ := p.post(t, "shop-16", "k", body("shop-16")); code != 200 {
		t.Errorf("after the release: %d, want 200", code)
	}
}

func TestParseTally_Refuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a torn line":    `{"n":1,"business_key":"a","applied":true}` + "\n" + `{"n":2,"busi`,
		"a missing line": `{"n":2,"business_key":"a","applied":true}`,
		"a line twice":   `{"n":1,"business_key":"a"}` + "\n" + `{"n":1,"business_key":"a"}`,
	} {
		if _, err := parseTally(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	empty, err := parseTally(strings.NewReader(""))
	if err != nil || empty.Arrivals != 0 || empty.Effects != 0 {
		t.Errorf("an empty file: %+v, %v", empty, err)
	}
}
