package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

const (
	// maxTopics bounds what one page follows.
	maxTopics = 100
	beatEvery = 10 * time.Second
	// liveFor ends a page's stream: the page comes back with the topics it has by then.
	liveFor = 2 * time.Minute
)

func (a *api) live() {
	a.door.Raw("GET /ui/live", authn.Viewer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.livePage(w, r); err != nil {
			door.Fail(w, r, err)
		}
	}))
	a.door.Raw("GET /ui/live.js", door.Public, static("text/javascript; charset=utf-8", web.Script()))
	a.eventsPages()
}

// liveMessage is what a page is told.
type liveMessage struct {
	Now    time.Time `json:"now"`              // the server's
	Topics []string  `json:"topics,omitempty"` // that changed
	Missed int       `json:"missed,omitempty"` // events while the page was away, all of them known
	Reason string    `json:"reason,omitempty"` // of a resync
	// Counts are for the menu, the same on every page.
	Counts []web.Count `json:"counts,omitempty"`
}

// livePage tells a page which of its topics changed, at most once a second. Its
// events are "hello" first, or "resync" where the place that was asked for is
// gone; "changed"; and "again", which asks to come back. The ids are places of
// the event stream.
func (a *api) livePage(w http.ResponseWriter, r *http.Request) error {
	topics, err := topicsIn(r)
	if err != nil {
		return err
	}
	var since *follow.Position
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		at, ok := follow.ParsePosition(text)
		if !ok {
			return door.Error(http.StatusBadRequest, door.CodeBadRequest, "Last-Event-ID is not a place of this stream")
		}
		since = &at
	}
	p, _ := authn.FromContext(r.Context())
	ctx, cancel := door.Lasting(r)
	defer cancel()
	watch := a.console.Watch(p.Namespace, append(slices.Clone(topics), ofMenu...))
	defer watch.Close()
	ended := a.console.Opened(ctx, console.StreamPage)
	defer func() { ended(err) }()
	hello, event := liveMessage{Now: time.Now().UTC()}, "hello"
	at := a.console.Position()
	if since != nil {
		missed, ok := a.console.Since(ctx, p.Namespace, *since)
		hello.Missed = missed
		if !ok {
			event, hello.Reason = "resync", "what happened since then is no longer kept"
		}
	}
	stream, err := door.NewStream(w)
	if err != nil {
		return nil // the client is gone
	}
	owed := false // a count that failed: without the database a page keeps its numbers, and has newer ones when it is back
	send := func(at follow.Position, event string, m liveMessage, seen time.Time) error {
		counts, err := a.console.Answers(ctx, p.Namespace, console.Today(m.Now), seen)
		if owed = err != nil; !owed {
			m.Counts = countsOf(counts)
		}
		data, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("marshal a change: %w", err)
		}
		id := ""
		if at.Epoch != "" {
			id = at.String()
		}
		return stream.Send(id, event, data)
	}
	if err = send(at, event, hello, hello.Now); err != nil {
		return nil
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	end := time.NewTimer(liveFor)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-end.C:
			_ = send(follow.Position{}, "again", liveMessage{Now: time.Now().UTC()}, time.Time{}) // the page comes back anyway
			return nil
		case <-beat.C:
			if !owed {
				err = stream.Beat()
				break
			}
			now := time.Now().UTC()
			err = send(follow.Position{}, "changed", liveMessage{Now: now}, now)
		case <-watch.C:
			c := watch.Take()
			m, event := liveMessage{Now: time.Now().UTC(), Topics: slices.DeleteFunc(c.Topics, func(t string) bool { return !slices.Contains(topics, t) })}, "changed"
			if c.Lost {
				event, m.Reason = "resync", "events went by unheard"
			}
			err = send(c.At, event, m, c.Seen)
		}
		if err != nil {
			return nil // the client is gone, or does not read
		}
	}
}

// ofMenu are the topics behind the numbers of the menu.
var ofMenu = []string{console.TopicRuns, console.TopicApprovals, console.TopicEffects, console.TopicStops}

func topicsIn(r *http.Request) ([]string, error) {
	topics := strings.FieldsFunc(strings.Join(r.URL.Query()["topics"], ","), func(c rune) bool { return c == ',' || c == ' ' })
	slices.Sort(topics)
	topics = slices.Compact(topics)
	if len(topics) == 0 || len(topics) > maxTopics {
		return nil, door.Error(http.StatusBadRequest, door.CodeBadRequest, fmt.Sprintf("topics has to name 1 to %d of %s and run:<run id>", maxTopics, strings.Join(console.Topics(), ", ")))
	}
	for _, t := range topics {
		if !console.IsTopic(t) {
			return nil, door.Error(http.StatusBadRequest, door.CodeBadRequest, fmt.Sprintf("%.100q is no topic; there are %s and run:<run id>", t, strings.Join(console.Topics(), ", ")))
		}
	}
	return topics, nil
}
