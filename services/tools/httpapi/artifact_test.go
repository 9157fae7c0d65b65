package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// artifacts records a read of a new run that leaves them.
func (l *ledger) artifacts(namespace string, list ...tools.Artifact) events.RunID {
	l.t.Helper()
	run := events.NewRunID()
	call := events.NewCallID(run, 1, 0)
	for i := range list {
		list[i].ID = tools.ArtifactID(call, i)
	}
	ctx := l.t.Context()
	began, err := l.store.Begin(ctx, tools.Begin{Read: true, AttemptID: "t-" + string(run), Worker: "w", Lease: 1e9, Call: tools.Call{
		ID: call, RunID: run, Namespace: namespace, Tool: "look", ToolDigest: "sha256:t", Pool: "default", Args: []byte(`{}`), ArgsDigest: "sha256:a", MintedKey: "k", Key: "k"}})
	if err != nil {
		l.t.Fatal(err)
	}
	for range 2 { // the second is a repeat after a lost reply
		_, mine, err := l.store.Finish(ctx, tools.Finish{Attempt: tools.Attempt{CallID: call, ID: "t-" + string(run), Epoch: began.Epoch}, Worker: "w",
			Conclusion: tools.Conclusion{State: tools.EffectSucceeded}, Result: []byte(`{}`), Artifacts: list})
		if err != nil || !mine {
			l.t.Fatal(mine, err)
		}
	}
	return run
}

// What comes from outside is served as bytes to keep, never as a page to show:
// whatever its type and its name say.
func TestArtifacts_HostileTypesAndNames(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	cases := []struct{ contentType, name, wantType, wantName string }{
		{"text/html", "x.html", "application/octet-stream", "x.html"},
		{"image/svg+xml", "../../etc/passwd", "application/octet-stream", "passwd"},
		{"image/png", `C:\\autoexec.bat`, "image/png", "autoexec.bat"},
		{"text/plain; charset=utf-7", "a\r\nSet-Cookie: x=1", "text/plain; charset=utf-8", "a__Set-Cookie__x_1"},
		{"application/javascript", `"; filename="evil.sh`, "application/octet-stream", "__filename__evil.sh"},
		{"text/html\r\nX-Evil: 1", "..", "application/octet-stream", ""},
		{"", "\u202egnp.exe", "application/octet-stream", "gnp.exe"},
		{"application/json", strings.Repeat("n", 500) + ".json", "application/json", strings.Repeat("n", 95) + ".json"},
	}
	var list []tools.Artifact
	body := []byte("<script>alert(1)</script>\x00\xff")
	for _, tc := range cases {
		list = append(list, tools.Artifact{ContentType: tc.contentType, Name: tc.name, Data: body})
	}
	l.artifacts("default", list...)
	for i, tc := range cases {
		resp, got := l.raw("/v1/artifacts/"+list[i].ID, authn.Viewer, "default")
		if resp.StatusCode != http.StatusOK || !bytes.Equal(got, body) {
			t.Fatalf("%q: %d with %q", tc.name, resp.StatusCode, got)
		}
		h := resp.Header
		kind, params, err := mime.ParseMediaType(h.Get("Content-Disposition"))
		want := strings.TrimLeft(tc.wantName, "_")
		if want == "" {
			want = list[i].ID
		}
		if err != nil || kind != "attachment" || params["filename"] != want {
			t.Errorf("%q: %s, want the name %q: %v", tc.name, h.Get("Content-Disposition"), want, err)
		}
		if h.Get("Content-Type") != tc.wantType || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox;") || h.Get("X-Evil") != "" || h.Get("Set-Cookie") != "" {
			t.Errorf("%q: headers %v", tc.contentType, h)
		}
	}
}

func TestArtifacts_ListPagesAndNamespaces(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	var list []tools.Artifact
	for i := range 5 {
		list = append(list, tools.Artifact{Data: fmt.Appendf(nil, "bytes %d", i)})
	}
	list = append(list, tools.Artifact{URI: "https://tickets/7", Kind: "ticket", Title: "seven"})
	run, foreign := l.artifacts("default", list...), l.artifacts("other", tools.Artifact{Data: []byte("theirs")})
	api, err := client.New(client.Config{Server: l.url, Token: doortest.Token(authn.Viewer)})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	page := client.PageRequest{Limit: 2}
	for n := 0; ; n++ {
		got, err := api.Artifacts(t.Context(), run, page)
		if err != nil || n > 5 {
			t.Fatal(n, err)
		}
		for _, a := range got.Items {
			if seen[a.ArtifactID] || a.RunID != run || a.Namespace != "default" {
				t.Errorf("%+v", a)
			}
			seen[a.ArtifactID] = true
			if data, err := api.ArtifactBytes(t.Context(), a.ArtifactID); a.URI == "" && (err != nil || events.DigestOf(data) != a.Digest || int64(len(data)) != a.Bytes) {
				t.Errorf("%+v: %q %v", a, data, err)
			}
		}
		if page.Cursor = got.NextCursor; page.Cursor == "" {
			break
		}
	}
	if len(seen) != len(list) {
		t.Errorf("%d artifacts listed, want %d", len(seen), len(list))
	}
	if got, err := api.Artifacts(t.Context(), foreign, client.PageRequest{}); err != nil || len(got.Items) != 0 {
		t.Errorf("another namespace's run lists %+v: %v", got.Items, err)
	}
	for path, want := range map[string]string{
		"/v1/artifacts/" + tools.ArtifactID(events.NewCallID(foreign, 1, 0), 0): "404 not_found", "/v1/artifacts/a-1": "404 not_found",
		"/v1/artifacts/" + list[5].ID: "409 elsewhere", "/v1/artifacts?run=nonsense": "422 invalid_input",
	} {
		resp, body := l.raw(path, authn.Viewer, "default")
		var p struct{ Code string }
		if err := json.Unmarshal(body, &p); err != nil || fmt.Sprintf("%d %s", resp.StatusCode, p.Code) != want {
			t.Errorf("%s: %d %s, want %s", path, resp.StatusCode, body, want)
		}
	}
	// The bytes go with the run; that they were there stays known.
	if _, err := l.db.Pool.Exec(t.Context(), `DELETE FROM blob.blobs WHERE scope = $1`, events.RunScope(run)); err != nil {
		t.Fatal(err)
	}
	if resp, body := l.raw("/v1/artifacts/"+list[0].ID, authn.Viewer, "default"); resp.StatusCode != http.StatusGone {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
