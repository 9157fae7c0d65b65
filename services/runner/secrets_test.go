package runner_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// parrot is a provider that repeats the key of a request in every place that an
// error has.
func parrot(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.Header().Set("Request-Id", key)
	w.Header().Set("X-Request-Id", strings.Repeat("x", 90)+key)
	w.Header().Set("Retry-After", key)
	said, _ := json.Marshal(map[string]any{"type": "error", "code": key, "error": map[string]any{"type": key, "code": key, "message": strings.Repeat("x", 300) + " bad key " + key}})
	_, path, _ := strings.Cut(r.URL.Path, "/")
	path, _, _ = strings.Cut(path, "/")
	status := 0
	if _, err := fmt.Sscan(path, &status); err != nil { // inside a stream, and one that breaks off
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: error\ndata: %s\n\ndata: %s", said, key)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(said)
}

// A provider that repeats the API key in its error, in the stream or in headers,
// and one that cannot be reached: the key is in no journal row, no event, no log
// and no other row.
func TestSecrets_OfAModelStayOutside(t *testing.T) {
	r := newRig(t)
	const secret = "canaryModelKeyOfLettersOnly" // what may stand as a code
	said := &bustest.Recording{}
	r.log = telemetry.NewLogger(said, "debug", "text")
	web := httptest.NewServer(http.HandlerFunc(parrot))
	defer web.Close()
	tls := httptest.NewUnstartedServer(http.HandlerFunc(parrot))
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	var docs strings.Builder
	var names []string
	for _, provider := range allProviders {
		for _, where := range []string{web.URL + "/400", web.URL + "/401", web.URL + "/404", web.URL + "/413", web.URL + "/422", web.URL + "/429", web.URL + "/500", web.URL + "/200",
			web.URL + "/stream", tls.URL, "http://10.1.2.3", "http://127.0.0.1:1"} {
			if provider != spec.ProviderAnthropic {
				where += "/v1"
			}
			name := fmt.Sprintf("m%d", len(names))
			names = append(names, name)
			fmt.Fprintf(&docs, "---\napiVersion: holdfast/v1\nkind: Model\nmetadata: {name: %s}\nspec: {provider: %s, model: x, apiKey: {env: KEY}, baseURL: %q, timeout: 2s}\n", name, provider, where)
			fmt.Fprintf(&docs, "---\napiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: %s}\nspec: {model: %s, instructions: work}\n", name, name)
		}
	}
	r.defs.apply(t, docs.String())
	r.worker(model.All(model.Env{LookupEnv: func(string) (string, bool) { return secret, true }, ReadFile: os.ReadFile,
		Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}))
	for _, name := range names {
		r.start("agent", name, `"hello"`)
	}
	failed := func() (n int) {
		if err := r.sql.QueryRow(t.Context(), `SELECT count(DISTINCT run_id) FROM runner.v_events WHERE kind IN ($1, $2)`, events.FactModelFailed, events.FactModelAnswered).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	r.eventually("every model has failed, or given an answer without anything in it", func() bool { return failed() == len(names) }, func() string { return fmt.Sprint(failed(), "\n", said.String()[max(0, len(said.String())-3000):]) })
	for _, part := range []string{secret, secret[:8]} {
		if i := strings.Index(said.String(), part); i >= 0 {
			t.Errorf("the key is in the log: …%.300s…", said.String()[max(0, i-200):])
		}
		if found := r.db.Find(t, part); len(found) > 0 {
			t.Errorf("the key is in %v", found)
		}
		if found, looked := r.nats.Find(t, part); len(found) > 0 || looked < len(names) {
			t.Errorf("the key is in %v, of %d messages", found, looked)
		}
	}
	if len(r.db.Find(t, "[redacted]")) == 0 {
		t.Error("nothing was taken out: the test shows nothing")
	}
}
