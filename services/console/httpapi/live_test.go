package httpapi_test

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// livePart is what a page hears.
type livePart struct {
	Now    time.Time `json:"now"`
	Topics []string  `json:"topics"`
	Missed int       `json:"missed"`
	Reason string    `json:"reason"`
}

func tellOf(t *testing.T, e sse) livePart {
	t.Helper()
	var out livePart
	if err := json.Unmarshal([]byte(e.data), &out); err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	if out.Now.IsZero() {
		t.Errorf("%+v names no time", e)
	}
	return out
}

// watching opens a page's stream once the tail is reached.
func (r *rig) watching(ctx context.Context, token, last string, topics ...string) <-chan sse {
	r.t.Helper()
	eventually(r.t, "the tail is reached", func() bool {
		_, _, raw := r.do("GET", "/v1/system", token, "")
		return strings.Contains(raw, `"event"`)
	})
	return r.listen(ctx, "/ui/live?topics="+url.QueryEscape(strings.Join(topics, " ")), token, last)
}

// until reads a page's stream up to the message that names a topic.
func until(t *testing.T, stream <-chan sse, topic string) sse {
	t.Helper()
	for {
		e := next(t, stream)
		if e.event == "changed" && slices.Contains(tellOf(t, e).Topics, topic) {
			return e
		}
		if e.event == "resync" || e.event == "again" {
			t.Fatalf("%+v while waiting for %s", e, topic)
		}
	}
}

func TestLive_TellsWhatChangedAndResumes(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mine, sibling, theirs := events.NewRunID(), events.NewRunID(), events.NewRunID()
	r.take("default", mine, "shop", `{}`)
	r.take("default", sibling, "shop", `{}`)
	r.take("other", theirs, "shop", `{}`)
	token := doortest.Token(authn.Viewer)
	one := "run:" + string(mine)
	ctx, cancel := context.WithCancel(t.Context())
	stream := r.watching(ctx, token, "", one, "stops")
	hello := next(t, stream)
	if hello.event != "hello" || hello.id == "" {
		t.Fatalf("first comes %+v", hello)
	}
	// Neither another namespace's run nor one that the page does not show is told of.
	for range 5 {
		r.step(theirs, "running", true)
		r.step(sibling, "running", true)
		r.step(mine, "running", true)
	}
	first := until(t, stream, one)
	if got := tellOf(t, first).Topics; len(got) != 1 {
		t.Errorf("told of %v", got)
	}
	// What no event tells of is found: a stop in force. The first look only
	// learns what there is, so there may have to be another one.
	var stop sse
	for n := 0; stop.id == ""; n++ {
		r.exec(`INSERT INTO tools.stops (stop_id, namespace, scope, name, note, principal, since) VALUES ('s' || $1, 'default', 'tool', 't' || $1, 'n', 'maria', clock_timestamp())`, strconv.Itoa(n))
		select {
		case stop = <-stream:
			if got := tellOf(t, stop).Topics; !slices.Equal(got, []string{"stops"}) {
				t.Fatalf("told of %v", got)
			}
		case <-time.After(3 * time.Second):
		}
	}
	cancel()

	for range 3 {
		r.step(mine, "running", true)
	}
	r.step(theirs, "running", true)
	eventually(t, "the three are heard", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := next(t, r.watching(ctx, token, stop.id, one))
		return e.event == "hello" && tellOf(t, e).Missed == 3
	})
	// A place of another stream, or one that never was, is said to be gone.
	epoch, _, _ := strings.Cut(stop.id, "-")
	for _, gone := range []string{"1-7", epoch + "-999999"} {
		ctx, cancel := context.WithCancel(t.Context())
		if e := next(t, r.watching(ctx, token, gone, one)); e.event != "resync" || e.id == "" || tellOf(t, e).Reason == "" {
			t.Errorf("after %s comes %+v", gone, e)
		}
		cancel()
	}
}

func TestLive_RefusesWhatNobodyCanFollow(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for query, want := range map[string]string{"": "topics", "?topics=": "topics", "?topics=runs,nonsense": "nonsense", "?topics=run:x": "run:x"} {
		status, _, raw := r.do("GET", "/ui/live"+query, doortest.Token(authn.Viewer), "")
		if status != 400 || !strings.Contains(raw, want) {
			t.Errorf("%s: %d %s", query, status, raw)
		}
	}
	if status, _, _ := r.do("GET", "/ui/live?topics=runs", doortest.Token(authn.Viewer), "", "Last-Event-ID", "x"); status != 400 {
		t.Errorf("from nowhere: %d", status)
	}
	status, header, raw := r.do("GET", "/ui/live.js", "", "")
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/javascript") || !strings.Contains(raw, "'use strict'") {
		t.Errorf("live.js: %d %v", status, header)
	}
}

// TestLive_SaysWhenEventsWentByUnheard: a stream that lost what it had is told to the
// pages that are open, which then read everything again.
func TestLive_SaysWhenEventsWentByUnheard(t *testing.T) {
	t.Parallel()
	db, nats := pgtest.New(t), bustest.NewServer(t)
	r := start(t, db.Pool, db.Open(t, "holdfast_console"), nats.Connect(t))
	stream := r.watching(t.Context(), doortest.Token(authn.Viewer), "", "effects")
	if e := next(t, stream); e.event != "hello" {
		t.Fatalf("first comes %+v", e)
	}
	nats.Wipe()
	eventually(t, "the streams are there again", func() bool { return r.bus.Provision(t.Context(), []string{bustest.Pool}) == nil })
	for deadline := time.After(time.Minute); ; {
		select {
		case e, ok := <-stream:
			if !ok {
				t.Fatal("the stream ended")
			}
			if e.event == "resync" && tellOf(t, e).Reason == "events went by unheard" {
				return
			}
		case <-deadline:
			t.Fatal("events went by unheard and the page was not told")
		}
	}
}
