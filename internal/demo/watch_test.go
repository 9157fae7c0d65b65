package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestAlertWatch(t *testing.T) {
	t.Parallel()
	alert := func(id string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":"alert:%s","type":"holdfast.event.budget_alert.v1","data":{"id":%q,"pool":"night","percent":100}}`, id, id)
	}
	var connections atomic.Int32
	resumed := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		n := connections.Add(1)
		resumed <- r.Header.Get("Last-Event-ID")
		w.Header().Set("content-type", "text/event-stream")
		switch n {
		case 1: // breaks after the alert and a place without an event
			fmt.Fprintf(w, "id: e-1\ndata: {\"type\":\"holdfast.event.run.v1\",\"data\":{\"pool\":\"night\"}}\n\n")
			fmt.Fprintf(w, "id: e-2\ndata: %s\n\n", alert("a"))
			fmt.Fprintf(w, ": idle\nid: e-3\n\n")
		case 2: // tells of the same alert again, then of another
			fmt.Fprintf(w, "id: e-2\ndata: %s\n\n", alert("a"))
			fmt.Fprintf(w, "id: e-4\ndata: %s\n\n", alert("b"))
		default:
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	w, stop := watchAlerts(t.Context(), newAPI(s.URL, "token"))
	defer stop()
	eventually(t, "two alerts in three events", func() bool {
		different, copies := w.alerts()
		return different == 2 && copies == 3
	})
	if first, second := <-resumed, <-resumed; first != "" || second != "e-3" {
		t.Errorf("connected from %q, then from %q; want the beginning, then e-3", first, second)
	}
}
