package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
	"github.com/holdfast-run/holdfast/services/console/postgres"
)

func consumption(h bus.Handler) bus.Consumption {
	return bus.Consumption{Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 1, Handle: h}
}

// TestRunEvents_CutAtEveryEvent ends a long stream after each of its events and
// resumes it: what was seen together is the journal.
func TestRunEvents_CutAtEveryEvent(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	const n = 60
	for i := range n - 1 {
		status := "running"
		if i == n-2 {
			status = "completed"
		}
		r.step(id, status, false)
	}
	path, token := "/v1/runs/"+string(id)+"/events", doortest.Token(authn.Viewer)
	var got []string
	last := ""
	for {
		ctx, cancel := context.WithCancel(t.Context())
		e := next(t, r.listen(ctx, path, token, last))
		cancel()
		if e.event == "end" {
			if e.id != "" || !strings.Contains(e.data, `"completed"`) {
				t.Errorf("end: %+v", e)
			}
			break
		}
		got, last = append(got, e.id), e.id
		if len(got) > n {
			break
		}
	}
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i+1))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}

	// In one go it is the same, and the server ends the stream.
	whole := r.listen(t.Context(), path, token, "")
	var all []sse
	for e := range whole {
		all = append(all, e)
	}
	if len(all) != n+1 || all[n].event != "end" {
		t.Fatalf("in one go came %d events", len(all))
	}
	var first events.RunEvent
	if err := json.Unmarshal([]byte(all[0].data), &first); err != nil || first.Seq != 1 || string(first.Data) != `{"a":1.10}` {
		t.Errorf("first event %+v, %v", first, err)
	}
}

// TestRunEvents_LiveWhateverTheTailMisses publishes only every third fact.
func TestRunEvents_LiveWhateverTheTailMisses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.accept("default", "shop", `{}`)
	path, token := "/v1/runs/"+string(id)+"/events", doortest.Token(authn.Viewer)
	stream := r.listen(t.Context(), path, token, "") // before any runner has it
	r.take("default", id, "shop", `{}`)
	const n = 30
	for i := range n - 1 {
		status := "waiting"
		if i == n-2 {
			status = "failed"
		}
		r.step(id, status, i%3 == 0)
	}
	for i := range n {
		if e := next(t, stream); e.id != strconv.Itoa(i+1) {
			t.Fatalf("event %d has the id %q", i+1, e.id)
		}
	}
	if e := next(t, stream); e.event != "end" || !strings.Contains(e.data, `"failed"`) {
		t.Errorf("end: %+v", e)
	}
	if _, open := <-stream; open {
		t.Error("the stream goes on after its end")
	}
}

func TestRunEvents_RefusesWhatIsNoPlace(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.accept("default", "shop", `{}`)
	for last, want := range map[string]int{"x": 400, "-1": 400, "1.5": 400} {
		if status, _, raw := r.do("GET", "/v1/runs/"+string(id)+"/events", doortest.Token(authn.Viewer), "", "Last-Event-ID", last); status != want {
			t.Errorf("Last-Event-ID %s: %d %s", last, status, raw)
		}
	}
	if status, _, _ := r.do("GET", "/v1/runs/nonsense/events", doortest.Token(authn.Viewer), ""); status != 404 {
		t.Errorf("nonsense: %d", status)
	}
	if status, _, _ := r.do("GET", "/v1/events", doortest.Token(authn.Viewer), "", "Last-Event-ID", "x"); status != 400 {
		t.Errorf("feed from nowhere: %d", status)
	}
}

func TestEvents_ResumeAndNamespace(t *testing.T) {
	t.Parallel()
	r := setup(t)
	mine, theirs := events.NewRunID(), events.NewRunID()
	r.take("default", mine, "shop", `{}`)
	r.take("other", theirs, "shop", `{}`)
	token := doortest.Token(authn.Viewer)
	eventually(t, "the tail is reached", func() bool {
		_, _, raw := r.do("GET", "/v1/system", token, "")
		return strings.Contains(raw, `"event"`)
	})

	ctx, cancel := context.WithCancel(t.Context())
	stream := r.listen(ctx, "/v1/events", token, "")
	place := next(t, stream)
	if place.id == "" || place.data != "" {
		t.Fatalf("first comes the place, not %+v", place)
	}
	r.step(theirs, "running", true)
	r.step(mine, "running", true)
	e := next(t, stream)
	var ce struct {
		Type, Subject, Namespace string
		Data                     events.RunEvent
	}
	if err := json.Unmarshal([]byte(e.data), &ce); err != nil {
		t.Fatal(err)
	}
	if ce.Type != events.TypeRunEvent || ce.Subject != string(mine) || ce.Namespace != "default" || ce.Data.Seq != 2 {
		t.Errorf("event %s", e.data)
	}
	cancel()

	for range 5 {
		r.step(mine, "running", true)
	}
	resumed := r.listen(t.Context(), "/v1/events", token, e.id)
	for seq := int64(3); seq <= 7; {
		got := next(t, resumed)
		if got.data == "" {
			continue
		}
		if err := json.Unmarshal([]byte(got.data), &ce); err != nil || ce.Data.Seq != seq {
			t.Fatalf("got %s, want number %d", got.data, seq)
		}
		seq++
	}
	// A place of another stream cannot be resumed, and the reader is told.
	lost := r.listen(t.Context(), "/v1/events", token, "1-7")
	if got := next(t, lost); got.event != "resync" || got.id == "" {
		t.Errorf("got %+v", got)
	}
}

// TestEvents_ResyncNoticeOfTheBus holds the name that the follower, which does
// not import the bus, knows the notice by: events that were purged while a
// reader listens end its stream, and resuming says resync.
func TestEvents_ResyncNoticeOfTheBus(t *testing.T) {
	t.Parallel()
	if bus.TypeResync != "holdfast.bus.resync" {
		t.Fatalf("the bus names its notice %q; change typeResync in internal/follow/hub.go", bus.TypeResync)
	}
}

func TestStreams_EndWhenTheServerStops(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.accept("default", "shop", `{}`)
	srv := doortest.Serve(t, r.door)
	r.url = "http://" + srv.Address()
	stream := r.listen(t.Context(), "/v1/runs/"+string(id)+"/events", doortest.Token(authn.Viewer), "")
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := srv.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	for range stream {
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the stream held the server for %s", took)
	}
}

// TestStreams_EndWithTheirToken: each stream of the console ends when its token is
// revoked or expires, though nothing happens, and the client that comes back is refused.
// A token that counts keeps its streams.
func TestStreams_EndWithTheirToken(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t, "holdfast_console")
	r := start(t, db.Pool, pool, bustest.New(t), func(c *door.Config) {
		c.Verifier, c.Recheck = authn.NewPostgres(pool), 200*time.Millisecond
	})
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	token := func(name string) string {
		t.Helper()
		secret, _, err := httpapi.Mint(t.Context(), postgres.New(pool), console.Token{Namespace: "default", Role: "viewer", Name: name, CreatedBy: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	tokens := map[string]string{"revoked": token("revoked"), "expires": token("expires"), "stays": token("stays")}
	eventually(t, "the tail is reached", func() bool {
		_, _, raw := r.do("GET", "/v1/system", tokens["stays"], "")
		return strings.Contains(raw, `"event"`)
	})
	paths := []string{"/v1/runs/" + string(id) + "/events", "/v1/events", "/ui/live?topics=runs"}
	open := map[string]<-chan sse{}
	for name, secret := range tokens {
		for _, path := range paths {
			stream := r.listen(t.Context(), path, secret, "")
			next(t, stream)
			open[name+" "+path] = stream
		}
	}
	r.exec(`UPDATE catalog.tokens SET revoked_at = clock_timestamp(), revoked_by = 'maria' WHERE name = 'revoked'`)
	r.exec(`UPDATE catalog.tokens SET expires_at = clock_timestamp() + interval '1 s' WHERE name = 'expires'`)
	for name := range tokens {
		for _, path := range paths {
			if name == "stays" {
				continue
			}
			for deadline := time.After(time.Minute); ; {
				select {
				case _, goesOn := <-open[name+" "+path]:
					if goesOn {
						continue
					}
				case <-deadline:
					t.Errorf("%s goes on though its token %s", path, name)
				}
				break
			}
			if status, _, _ := r.do("GET", path, tokens[name], ""); status != http.StatusUnauthorized {
				t.Errorf("%s: %d to who comes back, want 401", path, status)
			}
		}
	}
	// What still counts hears what happens next.
	r.step(id, "completed", true)
	if e := next(t, open["stays "+paths[0]]); e.id != "2" {
		t.Errorf("the run's stream says %+v", e)
	}
	if e := until(t, open["stays "+paths[2]], "runs"); e.event != "changed" {
		t.Errorf("the page is told %+v", e)
	}
}
