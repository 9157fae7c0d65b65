package kind_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/services/tools"
)

// A lookup's caller judges what the other side says, a refusal too. What says
// nothing stays no answer.
func TestHTTP_Look(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"n":1.0}`))
	}))
	t.Cleanup(server.Close)
	def := tool(t, "  effect: read\n  http: {url: \""+server.URL+"/${args.status}\"}\n")
	for status, answered := range map[int]bool{200: true, 404: true, 409: true, 410: true, 403: true, 408: false, 425: false, 429: false, 500: false, 501: false, 503: false, 505: false} {
		for _, k := range kinds(t, nil) {
			if !k.Runs(def) {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			out := k.Act(ctx, tools.Request{Tool: def, Class: tools.ClassRead, Look: true, Args: json.RawMessage(`{"status":` + strconv.Itoa(status) + `}`)})
			cancel()
			if got := out.Verdict == tools.Happened; got != answered || answered && string(out.Result) != `{"n":1.0}` || out.Receipt.Status != status {
				t.Errorf("%d: %s with %s, status %d", status, out.Verdict, out.Result, out.Receipt.Status)
			}
		}
	}
}
