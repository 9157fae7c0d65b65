package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// The output of an agent that answers with data is JSON wherever it goes out: in the
// answer to a start that waits, in the run, and in what is posted to its callback. The
// model's first try is prose, which none of them shows.
func outputIsData(t *testing.T, d *deployment) {
	posted := make(chan []byte, 4)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posted <- body
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	body := `{"input":{"job":"quotes"},"callback":{"url":"` + receiver.URL + `/end"}}`
	a := d.send(t, http.MethodPost, "/v1/agents/quoter/runs", d.token, []byte(body), map[string]string{"Idempotency-Key": "quotes", "Prefer": "wait=30"})
	var f finished
	a.into(t, &f)
	const want = `{"price":12345678901234567890.10,"shop":"quotes"}`
	if a.status != http.StatusOK || f.Status != events.StatusCompleted || compact(f.Output) != want {
		t.Fatalf("%d %s, want the output %s", a.status, a.body, want)
	}
	if r := d.runOf(t, f.RunID, events.StatusCompleted); compact(r.Output) != want {
		t.Errorf("the run has the output %s, want %s", r.Output, want)
	}
	var end struct {
		Type string              `json:"type"`
		Data events.RunEndedData `json:"data"`
	}
	var raw []byte
	until(t, "the end to be posted", func() bool {
		select {
		case raw = <-posted:
			return true
		default:
			return false
		}
	})
	if err := json.Unmarshal(raw, &end); err != nil || end.Data.RunID != f.RunID || compact(end.Data.Output) != want || strings.Contains(string(raw), "about") {
		t.Errorf("posted %s (%v), want the output %s", raw, err, want)
	}
	rejected := 0
	for _, row := range d.journal(t, f.RunID) {
		if row.Kind == events.FactOutputRejected {
			rejected++
		}
	}
	if rejected != 1 {
		t.Errorf("%d answers were rejected, want the first", rejected)
	}
}

// compact is JSON without blanks between its parts; every digit stays.
func compact(raw json.RawMessage) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(string(raw))
}
