package kind_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-run/holdfast/services/tools"
)

// Arguments become parameters and nothing else; a body that is empty has no type.
func TestHTTP_Query(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	t.Cleanup(srv.Close)
	def := tool(t, "  effect: write\n  http:\n    url: \""+srv.URL+"/find/${args.id}\"\n    body: \"\"\n"+
		"    query: {q: \"${args.q}\", tags: {value: \"${args.tags}\", explode: false}, none: \"${args.none}\", fixed: 1}\n")
	out := act(t, nil, def, `{"id":"a/b","q":"x&admin=true#y","tags":["a","b,c"]}`)
	wantOutcome(t, out, tools.Happened, "")
	r := <-got
	if want := "/find/a%2Fb?fixed=1&q=x%26admin%3Dtrue%23y&tags=a,b%2Cc"; r.RequestURI != want {
		t.Errorf("requested %s, want %s", r.RequestURI, want)
	}
	if kind := r.Header.Get("Content-Type"); kind != "" || r.ContentLength != 0 {
		t.Errorf("%d bytes of %q, want no body", r.ContentLength, kind)
	}
	wantOutcome(t, act(t, nil, def, `{"id":"a","q":{"x":[1]},"tags":[]}`), tools.Refused, "invalid_arguments")
}
