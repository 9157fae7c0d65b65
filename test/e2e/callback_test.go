package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A run's end is posted to the address that its start named. The receiver
// breaks once and then hands what it gets to a webhook of the deployment itself:
// another service, with its own verification, starts a run with it.
func endIsPosted(t *testing.T, d *deployment) {
	var mu sync.Mutex
	var ids []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		ids = append(ids, r.Header.Get("webhook-id"))
		first := len(ids) == 1
		mu.Unlock()
		if first {
			http.Error(w, "not today", http.StatusInternalServerError)
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, d.edge+"/hooks/ends", bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header.Clone()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
	}))
	t.Cleanup(receiver.Close)

	j := job{Job: "calls-back", Do: []string{"read"}}
	out, bad, code := d.cli(t, "runs", "start", "clerk", "--input", string(j.input()), "--label", "job="+j.Job, "--callback", receiver.URL+"/in")
	if code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, bad)
	}
	id := events.RunID(strings.Fields(out)[1])
	d.finished(t, id, j, 0)
	var r client.Run
	until(t, "the end to be delivered", func() bool {
		var err error
		if r, err = d.operator.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return r.Callback != nil && r.Callback.State == "delivered"
	})
	if r.Callback.URL != receiver.URL+"/in" || r.Callback.Attempts != 2 || r.Status != events.StatusCompleted {
		t.Errorf("run %s with the callback %+v, want two attempts", r.Status, r.Callback)
	}
	mu.Lock()
	if len(ids) != 2 || len(slices.Compact(slices.Clone(ids))) != 1 {
		t.Errorf("requests with the ids %v, want two with one", ids)
	}
	mu.Unlock()
	until(t, "the end to be in the journal", func() bool {
		journal := d.journal(t, id)
		return journal[len(journal)-1].Kind == events.FactCallback
	})

	// What the webhook made of it, after its own look at the signature.
	var started []client.Run
	until(t, "the run that the end started", func() bool {
		p, err := d.operator.Runs(t.Context(), client.RunFilter{Labels: map[string]string{"after": string(id)}}, client.PageRequest{})
		if err != nil {
			t.Fatal(err)
		}
		started = p.Items
		return len(started) > 0
	})
	if len(started) != 1 {
		t.Errorf("%d runs were started by the end, want 1", len(started))
	}
	d.finished(t, started[0].RunID, job{Job: "after-" + j.Job, Do: []string{}}, 0)

	if out, _, _ := d.cli(t, "runs", "get", string(id)); !strings.Contains(out, "delivered "+receiver.URL+"/in, attempt 2") {
		t.Errorf("runs get prints\n%s", out)
	}
	if out, _, _ := d.cli(t, "effects", "list", "--run", string(id)); !strings.Contains(out, events.CallbackTool) {
		t.Errorf("effects list prints\n%s", out)
	}
}
