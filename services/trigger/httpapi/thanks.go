package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// hookItem is what became of one event of a list.
type hookItem struct {
	*started
	SignalID  string `json:"signal_id,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Filtered  bool   `json:"filtered,omitempty"`
}

func itemOf(x trigger.HookAnswer) hookItem {
	if x.Filtered {
		return hookItem{Filtered: true}
	}
	if x.Signal {
		return hookItem{SignalID: string(x.DeliveryID), Duplicate: x.Repeat}
	}
	body := startedBody(x.Accepted)
	return hookItem{started: &body, Duplicate: x.Repeat}
}

// thank answers a verified request in its sender's own form, or when it did not
// start exactly one run: {"filtered": true}, {"signal_id": ...}, or {"runs": [...]}
// for a list.
func (a *api) thank(w http.ResponseWriter, r *http.Request, answer trigger.HookAnswer) {
	var value any = itemOf(answer)
	if answer.Items != nil {
		runs := make([]hookItem, len(answer.Items))
		for i, item := range answer.Items {
			runs[i] = itemOf(item)
		}
		value = struct {
			Runs []hookItem `json:"runs"`
		}{runs}
	} else if !answer.Filtered {
		if !answer.Signal {
			w.Header().Set("Location", startedBody(answer.Accepted).StatusURL)
		}
		if answer.Repeat {
			w.Header().Set(headerReplayed, "true")
		}
	}
	if answer.Thanks != nil {
		w.Header().Set("Content-Type", answer.Thanks.ContentType)
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(answer.Thanks.Body)) // the sender is gone when this fails
		return
	}
	body, err := json.Marshal(value)
	if err != nil {
		door.Fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusAccepted, body)
}
