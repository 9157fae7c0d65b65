package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/httpapi"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

type oneTool struct{ tool *spec.Tool }

func (o oneTool) Tool(context.Context, string, events.Digest) (*spec.Tool, error) { return o.tool, nil }

func (oneTool) Asking(context.Context, string, events.Ref) (spec.Asking, error) {
	return spec.Asking{}, nil
}

// The token in the address is all that is needed; nothing but a POST of it
// changes anything, and nothing tells a stranger what there is.
func TestCallback_Door(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	docs, err := spec.Parse("t.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: render}
spec: {description: d, input: {type: object}, effect: write, http: {url: "http://x/", headers: {X-To: "${callback.url}"}, callback: {failed: "!body.ok"}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	svc, err := tools.New(tools.Config{Worker: "w"}, tools.Deps{
		Store: l.store, Controls: l.store, Reader: l.store, Replies: l.store, Tools: oneTool{docs[0].Tool},
		Kinds: kind.All(kind.Config{}), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	d := door.New(door.Config{Title: "tools", Version: "test"})
	httpapi.Register(d, svc)
	srv := httptest.NewServer(d.Handler())
	defer srv.Close()

	token := strings.Repeat("t", tools.TokenBytes)
	sum := sha256.Sum256([]byte(token))
	run := events.NewRunID()
	c := tools.Call{ID: events.NewCallID(run, 1, 0), RunID: run, Namespace: "default", Tool: "render", ToolDigest: docs[0].Digest,
		Pool: "default", Args: []byte(`{}`), ArgsDigest: events.DigestOf([]byte(`{}`)), MintedKey: "k", Key: "k"}
	began, err := l.store.Begin(t.Context(), tools.Begin{Call: c, EffectID: tools.EffectID("default", "render", "k"), AttemptID: "t-1", Worker: "w",
		Lease: time.Second, Reply: tools.Ticket{Hash: hex.EncodeToString(sum[:])}})
	if err != nil || began.Epoch != 1 {
		t.Fatalf("%+v, %v", began, err)
	}
	send := func(method, token, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+tools.ReplyPath+token, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
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
		return resp.StatusCode, string(b)
	}
	for _, step := range []struct {
		name, method, token, body string
		want                      int
	}{
		{"looking changes nothing", http.MethodGet, token, "", 405},
		{"nor does a preview", http.MethodHead, token, "", 405},
		{"a stranger's token", http.MethodPost, strings.Repeat("u", tools.TokenBytes), `{}`, 404},
		{"a short one", http.MethodPost, "x", `{}`, 404},
		{"says nothing", http.MethodPost, token, `{}`, 422},
		{"too long", http.MethodPost, token, `{"ok":true,"x":"` + strings.Repeat("x", 8<<20) + `"}`, 413},
		{"the result", http.MethodPost, token, `{"ok":true,"n":9007199254740993}`, 200},
		{"again", http.MethodPost, token, `{"ok":true,"n":9007199254740993}`, 200},
		{"another", http.MethodPost, token, `{"ok":true,"n":2}`, 409},
	} {
		status, body := send(step.method, step.token, step.body)
		if status != step.want || status != 405 && strings.Contains(body, token) || status == 404 && strings.Contains(body, "token") {
			t.Errorf("%s: %d %.200s, want %d", step.name, status, body, step.want)
		}
	}
	calls, err := l.store.Answered(t.Context(), c.ID)
	if err != nil || len(calls) != 1 || calls[0].Status != events.CallSucceeded || string(calls[0].Result) != `{"ok":true,"n":9007199254740993}` {
		t.Errorf("answered %+v, %v", calls, err)
	}
	var owed int
	if err := l.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tools.announcements WHERE call_id = $1 AND landed_at IS NULL`, string(c.ID)).Scan(&owed); err != nil || owed != 1 {
		t.Errorf("%d messages are owed (%v), want 1: the result must be durable before its 200", owed, err)
	}
}
