package kind_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

// told is a bus to nobody: what is said stands in the rows.
type told struct{}

func (told) Publish(context.Context, events.Message) error { return nil }

type alwaysFresh struct{}

func (alwaysFresh) Fresh() bool                     { return true }
func (alwaysFresh) WaitFresh(context.Context) error { return nil }

// defined is the tool of every digest.
type defined struct{ tool *spec.Tool }

func (d defined) Tool(context.Context, string, events.Digest) (*spec.Tool, error) { return d.tool, nil }

func (defined) Asking(context.Context, string, events.Ref) (spec.Asking, error) {
	return spec.Asking{}, nil
}

// A doubt is looked up with a tool of a real MCP server, which runs as a child
// process: what it says settles the effect, and its error
// decides nothing.
func TestMCP_AsALookup(t *testing.T) {
	t.Parallel()
	acts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(acts.Close)
	b := newBench(t, stdioFake(t, ""))
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]events.Digest{"two": b.imported("two", "read").MCP.Schema, "refuse": b.imported("refuse", "read").MCP.Schema}
	for lookup, tc := range map[string]struct{ status, inDoubt, result string }{
		"two":    {events.CallSucceeded, "", `{"said":"first\nsecond"}`},
		"refuse": {events.CallUnknown, tools.DoubtFail, ""},
	} {
		t.Run(lookup, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			store := postgres.New(db.Open(t, "holdfast_tools"))
			digest := digests[lookup]
			def := tool(t, fmt.Sprintf(`  effect: write
  timeout: 20s
  http: {url: "%s/"}
  inDoubt:
    probe:
      mcp: {server: s, tool: %s, schema: %q}
      effect: read
      happened: answer.body.contains("second")
      result: {said: "${answer.body}"}
      after: 100ms
      every: 100ms
      giveUpAfter: 300ms
      then: fail
`, acts.URL, lookup, digest))
			svc, err := tools.New(tools.Config{Worker: "w-" + lookup}, tools.Deps{
				Store: store, Controls: store, Reader: store, Tools: defined{def}, Bus: told{}, Heart: alwaysFresh{},
				Kinds: kind.All(kind.Config{Egress: egress.New(egress.Config{Allow: allow}), MCP: b.servers}), Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			run := events.NewRunID()
			call := events.CallTool{RunID: run, CallID: events.NewCallID(run, 1, 0), Namespace: "default", Tool: lookup, ToolDigest: "sha256:x",
				Args: []byte(`{}`), ArgsDigest: events.DigestOf([]byte(`{}`)), Key: string(run) + "/1/0/t"}
			body, err := events.Marshal(call)
			if err != nil {
				t.Fatal(err)
			}
			handle := func(m events.Message) {
				t.Helper()
				if err := svc.HandleCall(t.Context(), events.Received{Message: m}); err != nil {
					t.Error(err)
				}
			}
			m := events.Message{ID: "call:" + string(call.CallID), Type: events.TypeCallTool, Namespace: "default", Data: body}
			handle(m)
			var answered []tools.Call
			for deadline := time.Now().Add(60 * time.Second); len(answered) == 0; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nothing was decided")
				}
				due, err := store.Due(t.Context(), 10)
				if err != nil {
					t.Fatal(err)
				}
				for range due {
					handle(m)
				}
				if answered, err = store.Answered(t.Context(), call.CallID); err != nil {
					t.Fatal(err)
				}
			}
			if a := answered[0]; a.Status != tc.status || a.InDoubt != tc.inDoubt || string(a.Result) != tc.result {
				t.Errorf("answer %s, in doubt %q, result %s, error %+v", a.Status, a.InDoubt, a.Result, a.Error)
			}
			var looks int
			if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tools.receipts r JOIN tools.effects e USING (effect_id)
				WHERE e.tool = $1 AND r.body->>'kind' = 'mcp' AND r.body->>'probe' IS NOT NULL`, lookup).Scan(&looks); err != nil || looks == 0 {
				t.Errorf("%d lookups are kept, %v", looks, err)
			}
		})
	}
}
