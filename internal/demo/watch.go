package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// alertWatch follows GET /v1/events and keeps the alerts of the night's budget;
// runs have ceilings and alerts of their own. It connects
// again, from the last id it saw, whenever the stream ends.
type alertWatch struct {
	mu     sync.Mutex
	ids    map[string]int // alert id -> how often it came
	events int
}

func watchAlerts(ctx context.Context, a *api) (*alertWatch, func()) {
	w := &alertWatch{ids: map[string]int{}}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		last := ""
		for ctx.Err() == nil {
			last = w.follow(ctx, a, last)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return w, func() { cancel(); <-done }
}

func (w *alertWatch) follow(ctx context.Context, a *api, last string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"/v1/events", nil)
	if err != nil {
		return last
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := (&http.Client{Transport: a.http.Transport}).Do(req)
	if err != nil {
		return last
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return last
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	var id, name, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data += value
		case "":
			if data != "" {
				w.take(name, data)
			}
			if id != "" {
				last = id
			}
			name, data = "", ""
		}
	}
	return last
}

// take looks for a budget alert in one event, whether it stands alone or in an
// envelope.
func (w *alertWatch) take(name, data string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	var e struct {
		ID      string `json:"id"`
		Pool    string `json:"pool"`
		Percent int    `json:"percent"`
		Type    string `json:"type"`
		Data    struct {
			ID      string `json:"id"`
			Pool    string `json:"pool"`
			Percent int    `json:"percent"`
		} `json:"data"`
	}
	if json.Unmarshal([]byte(data), &e) != nil {
		return
	}
	if !strings.Contains(name, "budget") && !strings.Contains(e.Type, "budget_alert") {
		return
	}
	switch {
	case e.Data.Pool == poolName:
		w.ids[e.Data.ID]++
	case e.Pool == poolName:
		w.ids[e.ID]++
	}
}

// alerts is how many different alerts came, and how many events told of them.
func (w *alertWatch) alerts() (different, copies int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.ids {
		copies += n
	}
	return len(w.ids), copies
}
