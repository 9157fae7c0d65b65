package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// longForm says that the long form of a case is wanted.
func longForm() bool { return os.Getenv("HOLDFAST_LAB_LONG") != "" }

// once reads one event of a new stream and cuts it.
func (r *rig) once(path, last string) sse {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	return next(r.t, r.listen(ctx, path, doortest.Token(authn.Viewer), last))
}

// TestCaseG01_ReconnectElsewhere cuts a stream at every event and goes on at the
// other replica, twice without a new event, with a place of another run and with
// places that are none.
func TestCaseG01_ReconnectElsewhere(t *testing.T) {
	t.Parallel()
	db, nats := pgtest.New(t), bustest.NewServer(t)
	replicas := []*rig{start(t, db.Pool, db.Open(t, "holdfast_console"), nats.Connect(t)), start(t, db.Pool, db.Open(t, "holdfast_console"), nats.Connect(t))}
	r := replicas[0]
	id, longer := events.NewRunID(), events.NewRunID()
	r.take("default", id, "shop", `{}`)
	r.take("default", longer, "shop", `{}`)
	const n = 30
	for range n - 1 {
		r.step(id, "running", true)
	}
	path := "/v1/runs/" + string(id) + "/events"
	last := ""
	for i := 1; i <= n; i++ {
		e := replicas[i%2].once(path, last)
		if e.id != strconv.Itoa(i) {
			t.Fatalf("after %q comes %+v", last, e)
		}
		last = e.id
	}
	for i := range 4 { // nothing new, twice at each
		ctx, cancel := context.WithCancel(t.Context())
		stream := replicas[i%2].listen(ctx, path, doortest.Token(authn.Viewer), last)
		cancel()
		for e := range stream {
			t.Errorf("without a new event comes %+v", e)
		}
	}
	waiting := replicas[1].listen(t.Context(), path, doortest.Token(authn.Viewer), last)
	r.step(id, "completed", true)
	if e := next(t, waiting); e.id != strconv.Itoa(n+1) {
		t.Errorf("after the pause comes %+v", e)
	}
	if e := next(t, waiting); e.event != "end" {
		t.Errorf("last comes %+v", e)
	}
	// The place of a run that is further, or of no run at all: not a silent gap.
	for _, foreign := range []string{strconv.Itoa(n + 2), "9223372036854775807"} {
		stream := replicas[1].listen(t.Context(), path, doortest.Token(authn.Viewer), foreign)
		if e := next(t, stream); e.event != "resync" || e.id != "" || !strings.Contains(e.data, `"reason"`) {
			t.Errorf("after %s comes %+v", foreign, e)
		}
		for i := 1; i <= n+1; i++ {
			if e := next(t, stream); e.id != strconv.Itoa(i) {
				t.Fatalf("anew comes %+v, want %d", e, i)
			}
		}
	}

	// The feed: a place of one replica is one of the other; one in the future is said to be none.
	stream := r.listen(t.Context(), "/v1/events", doortest.Token(authn.Viewer), "")
	place := next(t, stream).id
	r.step(longer, "running", true)
	for {
		e := replicas[1].once("/v1/events", place)
		var ce struct{ Data events.RunEvent }
		if e.event == "resync" {
			t.Fatalf("the other replica lost the place: %+v", e)
		}
		if e.data == "" { // it has not heard of it yet
			continue
		}
		if json.Unmarshal([]byte(e.data), &ce) != nil || ce.Data.RunID != longer {
			t.Errorf("the other replica goes on with %s", e.data)
		}
		break
	}
	epoch, _, _ := strings.Cut(place, "-")
	if e := replicas[1].once("/v1/events", epoch+"-999999"); e.event != "resync" || e.id == "" {
		t.Errorf("in the future comes %+v", e)
	}
	if n := nats.Consumers(t, events.StreamEvents); n != len(replicas) {
		t.Errorf("EVENTS has %d consumers for %d replicas", n, len(replicas))
	}
}

// deaf opens a stream and reads perSecond bytes of it, none when it is zero.
func (r *rig) deaf(path string, perSecond int) {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(16 << 10) // less is in the air
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, doortest.Token(authn.Viewer))
	if perSecond == 0 {
		return
	}
	go func() {
		buf := make([]byte, max(perSecond/10, 1))
		for {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
}

// TestCaseG02_SlowReadersHarmNobody has streams that nobody reads and streams
// that are read at 1 kB/s beside healthy ones, while large events come.
func TestCaseG02_SlowReadersHarmNobody(t *testing.T) {
	t.Parallel()
	healthy, each, facts := 10, 2, 400
	if longForm() {
		healthy, each, facts = 90, 5, 3000
	}
	r := setup(t)
	run := events.NewRunID()
	r.take("default", run, "shop", `{}`)
	var seen []*atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	eventually(t, "the tail is reached", func() bool {
		_, _, raw := r.do("GET", "/v1/system", doortest.Token(authn.Viewer), "")
		return strings.Contains(raw, `"event"`)
	})
	var readers sync.WaitGroup
	for range healthy {
		n := &atomic.Int64{}
		seen = append(seen, n)
		stream := r.listen(ctx, "/v1/events", doortest.Token(authn.Viewer), "")
		readers.Go(func() {
			for e := range stream {
				if e.event == "resync" {
					t.Errorf("a healthy reader is told %+v", e)
				}
				if e.data != "" {
					n.Add(1)
				}
			}
		})
	}
	for range each {
		r.deaf("/v1/events", 0)
		r.deaf("/v1/events", 1000)
		r.deaf("/ui/live?topics=runs", 0)
	}
	body, _ := json.Marshal(strings.Repeat("x", 20_000)) // a string
	slowest := time.Duration(0)
	begun, quiet := time.Now(), memory()
	peak := quiet
	for i := range facts {
		before := time.Now()
		r.publish(events.RunEvent{RunID: run, Namespace: "default", Seq: int64(2 + i), Kind: "tool_completed", Status: "running", At: before.UTC(), Cause: "c", Worker: "w", Data: body})
		slowest = max(slowest, time.Since(before))
		if i%100 == 99 {
			peak = max(peak, memory())
			// What is published ahead of all readers is the test's haste, not theirs.
			eventually(t, "the healthy ones keep up", func() bool {
				for _, n := range seen {
					if n.Load() < int64(i-100) {
						return false
					}
				}
				return true
			})
			if longForm() {
				time.Sleep(time.Until(begun.Add(time.Duration(i+1) * 5 * time.Millisecond)))
			}
		}
	}
	eventually(t, "every healthy reader has every event", func() bool {
		for _, n := range seen {
			if n.Load() < int64(facts) {
				return false
			}
		}
		return true
	})
	t.Logf("%d events of 20 kB in %s, the slowest publish took %s; memory from %d to %d MB", facts, time.Since(begun), slowest, quiet>>20, peak>>20)
	if grown := peak - min(peak, quiet); grown > 200<<20 {
		t.Errorf("memory grew by %d MB", grown>>20)
	}
	cancel()
	readers.Wait()
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestWatchers_AThousandAreOneConsumer opens many pages at one replica. It runs beside
// no other test of its process, whose memory it measures.
func TestWatchers_AThousandAreOneConsumer(t *testing.T) {
	watchers := 200
	if longForm() {
		watchers = 1000
	}
	db, nats := pgtest.New(t), bustest.NewServer(t)
	r := start(t, db.Pool, db.Open(t, "holdfast_console"), nats.Connect(t))
	run := events.NewRunID()
	r.take("default", run, "shop", `{}`)
	token, topic := doortest.Token(authn.Viewer), console.TopicOfRun(run)
	first := r.watching(t.Context(), token, "", topic)
	next(t, first)
	before := memory()
	var told sync.WaitGroup
	var answered atomic.Int64
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for range watchers {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/ui/live?topics="+topic, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		told.Go(func() {
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(lines.Text(), `"missed"`) {
					t.Errorf("a new page is told %s", lines.Text())
				}
				if strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(lines.Text(), topic) {
					answered.Add(1)
					return
				}
			}
		})
	}
	each := (memory() - min(before, memory())) / uint64(watchers)
	for i := range 20 {
		r.step(run, "running", true)
		if i == 0 {
			until(t, first, topic)
		}
	}
	told.Wait()
	if n := answered.Load(); n != int64(watchers) {
		t.Errorf("%d of %d pages were told", n, watchers)
	}
	if n := nats.Consumers(t, events.StreamEvents); n != 1 {
		t.Errorf("EVENTS has %d consumers", n)
	}
	t.Logf("%d watchers, %d kB each with both ends of the connection", watchers, each>>10)
	if each > 256<<10 {
		t.Errorf("a watcher takes %d kB", each>>10)
	}
}

// TestMetrics_StreamsThatAreCutAreCounted holds what the doors call a slow client.
func TestMetrics_StreamsThatAreCutAreCounted(t *testing.T) {
	t.Parallel()
	tel := telemetry.Discard()
	metrics, err := console.NewMetrics(tel)
	if err != nil {
		t.Fatal(err)
	}
	s := console.New(console.Config{Metrics: metrics})
	scrape := func() string {
		rec := httptest.NewRecorder()
		tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return rec.Body.String()
	}
	ended := s.Opened(t.Context(), console.StreamPage)
	if got := scrape(); !strings.Contains(got, "holdfast_console_streams_open 1") {
		t.Errorf("an open stream is not counted:\n%s", got)
	}
	ended(fmt.Errorf("write event: %w", os.ErrDeadlineExceeded))
	s.Opened(t.Context(), console.StreamRun)(context.Canceled)
	if got := scrape(); !strings.Contains(got, `holdfast_console_streams_cut_total{reason="slow",stream="page"} 1`) || strings.Contains(got, `stream="run"} 1`) {
		t.Errorf("cuts are not counted:\n%s", got)
	}
}

func TestOverview_SaysWhatThePagesSay(t *testing.T) {
	t.Parallel()
	r := setup(t)
	first, second := events.NewRunID(), events.NewRunID()
	r.take("default", first, "shop", `{}`)
	r.take("default", second, "shop", `{}`)
	r.take("other", events.NewRunID(), "shop", `{}`)
	r.exec(`UPDATE runner.runs SET status = 'needs_attention' WHERE run_id = $1`, second)
	r.exec(`INSERT INTO tools.stops (stop_id, namespace, scope, name, note, principal, since) VALUES ('s', 'default', 'all', '', 'n', 'maria', clock_timestamp())`)
	r.accept("default", "shop", `{}`)
	// The id of a child has the time of its parent's. What was accepted on another day and
	// spends today is no run of today, and its cost is.
	child, older := events.RunID("019587c0-0000-7000-8000-0000000000c1"), events.RunID("019587c0-0000-7000-8000-0000000000a1")
	r.take("default", child, "shop", `{}`)
	r.take("default", older, "shop", `{}`)
	r.exec(`UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp(), parent_run_id = $2 WHERE run_id = $1`, child, older)
	r.exec(`UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp(), accepted_at = clock_timestamp() - interval '3 days' WHERE run_id = $1`, older)
	r.spend("default", second, second, "shop", "claude", 0, 10, 1000000, 0)
	r.spend("default", child, older, "shop", "claude", 0, 10, 234000, 0)
	r.spend("default", older, older, "shop", "claude", 0, 10, 567, 0)
	r.spend("default", second, second, "shop", "claude", 24, 10, 5000, 0) // yesterday
	r.spend("other", events.NewRunID(), second, "theirs", "claude", 0, 1, 5000, 0)
	got := get[map[string]any](r, "GET", "/v1/overview", authn.Viewer, "")
	for member, want := range map[string]float64{"running": 1, "stuck": 1, "parked": 1, "paused": 0, "queued": 1, "runs": 3, "cost_micro_usd": 1234567, "approvals": 0} {
		if got[member] != want {
			t.Errorf("%s is %v, want %v", member, got[member], want)
		}
	}
	_, _, page := r.do("GET", "/", doortest.Token(authn.Viewer), "")
	for _, want := range []string{`<span class="big">1</span>`, "$1.234567", `id="n-runs"><span aria-hidden="true">1</span><span class="vh">, 1 running</span>`,
		`href="/ui/stops"`, `id="n-stops"><span aria-hidden="true">1</span><span class="vh">, 1 in force</span>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	hello := next(t, r.watching(t.Context(), doortest.Token(authn.Viewer), "", "runs"))
	for _, want := range []string{`{"here":"runs","n":"1","words":"running","shown":true}`, `{"here":"stops","n":"1","class":"bad","words":"in force","shown":true}`} {
		if !strings.Contains(hello.data, want) {
			t.Errorf("a page is told %s", hello.data)
		}
	}
}
