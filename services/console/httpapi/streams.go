package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

func (a *api) streams() {
	last := door.HeaderText("Last-Event-ID", "id of the last event that was seen: the stream goes on after it")
	after := door.QueryText("after", "as Last-Event-ID, which counts more")
	a.door.RawOperation(huma.Operation{
		OperationID: "stream-run", Method: http.MethodGet, Path: "/v1/runs/{id}/events", Summary: "Follow one run's events", Tags: []string{"runs"},
		Description: "Every event after Last-Event-ID, then new ones as they happen, once each and in order. The stream ends after the run's end. " +
			"Between them come pieces of the answer that the model is writing, as \"event: delta\" without an id: they are not kept, some may be missing " +
			"(n has a gap), and the event model_answered replaces them. docs/streaming.md says more.",
		Parameters: []*huma.Param{door.PathText("id", "of the run"), last, after, door.QueryText("live", "false: no pieces of answers. Default: true")},
		Responses: map[string]*huma.Response{
			"200": door.EventStream("id = the event's number in the run, data = the event; \"event: delta\", data = {run_id, namespace, epoch, turn, n, index, " +
				"kind: text, thinking, tool_call or reset, tool, text}; \"event: resync\" with a reason says that the place was none of this run and that every event follows; \"event: end\" with run_id and status is last"),
		},
	}, authn.Viewer, http.HandlerFunc(a.runEvents))
	a.door.RawOperation(huma.Operation{
		OperationID: "stream-events", Method: http.MethodGet, Path: "/v1/events", Summary: "Follow everything that happens in the namespace", Tags: []string{"system"},
		Description: "CloudEvents, each at least once. Without Last-Event-ID from now on. Bodies of more than 64 KiB are left out and counted in elided_bytes.",
		Parameters:  []*huma.Param{last, after},
		Responses: map[string]*huma.Response{
			"200": door.EventStream("id = a place in the stream, data = a CloudEvent; \"event: resync\" says that older events are gone"),
		},
	}, authn.Viewer, http.HandlerFunc(a.events))
}

// runEvents streams one run: every event after Last-Event-ID (or ?after=), then
// new ones, id = seq without a gap, and "event: end" after the run's end. What
// the model writes meanwhile comes between them, unless ?live=false.
func (a *api) runEvents(w http.ResponseWriter, r *http.Request) {
	id := events.RunID(r.PathValue("id"))
	if !id.Valid() {
		door.Fail(w, r, door.NotFound("%q is not the id of a run", string(id)))
		return
	}
	after, err := lastSeq(r)
	if err != nil {
		door.Fail(w, r, err)
		return
	}
	live, err := strconv.ParseBool(cmp.Or(r.URL.Query().Get("live"), "true"))
	if err != nil {
		door.Fail(w, r, door.Error(http.StatusBadRequest, door.CodeBadRequest, "live is true or false"))
		return
	}
	p, _ := authn.FromContext(r.Context())
	if _, _, err := a.console.Head(r.Context(), p.Namespace, id); err != nil {
		door.Fail(w, r, problem(err, "run %s", id))
		return
	}
	ctx, cancel := door.Lasting(r)
	defer cancel()
	stream, err := door.NewStream(w)
	if err != nil {
		return // the client is gone
	}
	ended := a.console.Opened(ctx, console.StreamRun)
	// The client, the server or the database may go away; the client resumes.
	ended(a.console.Stream(ctx, p.Namespace, id, after, live, stream))
}

func lastSeq(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, door.Error(http.StatusBadRequest, door.CodeBadRequest, "Last-Event-ID is not the number of an event")
	}
	return n, nil
}

// events streams everything that happens in the namespace: CloudEvents in JSON,
// id = "<epoch>-<seq>", at least once. "event: resync" says that events are
// gone and lists should be read again.
func (a *api) events(w http.ResponseWriter, r *http.Request) {
	var since *follow.Position
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text != "" {
		at, ok := follow.ParsePosition(text)
		if !ok {
			door.Fail(w, r, door.Error(http.StatusBadRequest, door.CodeBadRequest, "Last-Event-ID is not a place of this stream"))
			return
		}
		since = &at
	}
	p, _ := authn.FromContext(r.Context())
	ctx, cancel := door.Lasting(r)
	defer cancel()
	feed := &feed{w: w}
	ended := a.console.Opened(ctx, console.StreamEvents)
	// Until the first write an error can still be a problem.
	err := a.console.Feed(ctx, p.Namespace, since, feed)
	ended(err)
	if err != nil && feed.stream == nil {
		door.Fail(w, r, problem(err, "event"))
	}
}

// feed writes a feed to a stream that begins with the first write.
type feed struct {
	w      http.ResponseWriter
	stream *door.Stream
}

var _ follow.FeedReader = (*feed)(nil)

func (f *feed) send(id, event string, data []byte) error {
	if f.stream == nil {
		stream, err := door.NewStream(f.w)
		f.stream = stream
		if err != nil {
			return err
		}
	}
	return f.stream.Send(id, event, data)
}

// cloudEvent is the JSON form of a message.
// Source: CloudEvents 1.0, JSON event format.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        *time.Time      `json:"time,omitempty"`
	Namespace   string          `json:"namespace"`
	Data        json.RawMessage `json:"data"`
}

func (f *feed) Event(at follow.Position, e follow.Event) error {
	m := e.Message
	data, err := events.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: m.ID, Source: m.Source, Type: m.Type, Subject: m.About,
		Time: orNil(m.Time), Namespace: m.Namespace, Data: m.Data,
	})
	if err != nil {
		return fmt.Errorf("marshal event %s: %w", at, err)
	}
	return f.send(at.String(), "", data)
}

func (f *feed) Resync(at follow.Position, reason string) error {
	data, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return err
	}
	return f.send(at.String(), "resync", data)
}

// Idle sends an id without data: clients remember it and dispatch nothing, so a
// quiet namespace resumes from here and not from its last event.
func (f *feed) Idle(at follow.Position) error {
	if f.stream == nil {
		stream, err := door.NewStream(f.w)
		f.stream = stream
		if err != nil {
			return err
		}
	}
	return f.stream.Place(at.String())
}
