package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

func TestEnter(t *testing.T) {
	t.Parallel()
	key := func(when string, most int64) events.ConcurrencyKey {
		return events.ConcurrencyKey{Key: events.DigestOf([]byte(when)), Shown: "shop:4711", Name: "a", Max: most, WhenFull: when}
	}
	bounded := key(spec.WhenFullQueue, 1)
	bounded.QueueMax = 2
	full := KeySeen{Held: 1, Holders: []events.RunID{testRun}}
	for name, tc := range map[string]struct {
		keys    []events.ConcurrencyKey
		seen    []KeySeen
		want    string // taken, queued or what the refusal says
		replace int
	}{
		"a free key":                               {[]events.ConcurrencyKey{key("queue", 1)}, []KeySeen{{}}, "taken", 0},
		"a full key queues":                        {[]events.ConcurrencyKey{key("queue", 1)}, []KeySeen{full}, "queued", 0},
		"nobody overtakes a queue":                 {[]events.ConcurrencyKey{key("queue", 2)}, []KeySeen{{Held: 1, Waiting: 1, Ahead: 1}}, "queued", 0},
		"who is worth more overtakes":              {[]events.ConcurrencyKey{key("queue", 2)}, []KeySeen{{Held: 1, Waiting: 1}}, "taken", 0},
		"a full queue refuses":                     {[]events.ConcurrencyKey{bounded}, []KeySeen{{Held: 1, Waiting: 2, Ahead: 2}}, "and 2 runs wait", 0},
		"reject names the holder":                  {[]events.ConcurrencyKey{key("reject", 1)}, []KeySeen{full}, "concurrency key shop:4711 of a: 1 of 1 places are taken, by run " + string(testRun), 0},
		"reject with room":                         {[]events.ConcurrencyKey{key("reject", 2)}, []KeySeen{full}, "taken", 0},
		"replace makes room":                       {[]events.ConcurrencyKey{key("replace", 1)}, []KeySeen{full}, "queued", 1},
		"the newest goes before who waits":         {[]events.ConcurrencyKey{key("replace", 2)}, []KeySeen{{Held: 1, Waiting: 3, Ahead: 3}}, "taken", 1},
		"all keys or none":                         {[]events.ConcurrencyKey{key("queue", 1), key("replace", 2)}, []KeySeen{full, {Held: 1}}, "queued", 0},
		"a refusal replaces nobody":                {[]events.ConcurrencyKey{key("replace", 1), key("reject", 1)}, []KeySeen{full, full}, "places are taken", 0},
		"the place of a run above is shared":       {[]events.ConcurrencyKey{key("reject", 1)}, []KeySeen{{Held: 1, Shared: true}}, "taken", 0},
		"a shared key does not help with another":  {[]events.ConcurrencyKey{key("queue", 1), key("reject", 1)}, []KeySeen{{Held: 1, Shared: true}, full}, "places are taken", 0},
		"replace does not cancel the run above it": {[]events.ConcurrencyKey{key("replace", 1)}, []KeySeen{{Held: 1, Shared: true}}, "taken", 0},
	} {
		e := enter(tc.keys, tc.seen)
		got := "taken"
		switch {
		case e.Refused != nil:
			got = e.Refused.Message
		case e.Awaited != nil:
			got = "queued"
		}
		if !strings.Contains(got, tc.want) || len(e.Replace) != tc.replace {
			t.Errorf("%s: %s, replaces under %d keys; want %s, %d", name, got, len(e.Replace), tc.want, tc.replace)
		}
	}
}

// keyed is a run under one key as it begins.
func keyed(t *testing.T, e Placing, wall time.Duration) (*State, *Plan, Decision) {
	t.Helper()
	plan, body := purePlan(t)
	body.Concurrency = []events.ConcurrencyKey{{Key: events.DigestOf([]byte("k")), Shown: "shop:4711", Name: "a", Max: 1, WhenFull: spec.WhenFullQueue}}
	body.WallTimeMs, body.AcceptedAt = wall.Milliseconds(), testTime
	d, err := Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body, Placing: &e}}, "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	return d.State, plan, d
}

var inLine = Placing{Awaited: &events.SlotsAwaited{Key: "shop:4711", Name: "a", Max: 1, Held: 1, Holders: []events.RunID{"r9"}, Ahead: 3}}

func TestDecide_AQueuedRunOwesNothing(t *testing.T) {
	t.Parallel()
	s, plan, d := keyed(t, inLine, 0)
	if !slices.Equal(kindsOf(d.Facts), []string{events.FactStarted, events.FactSlotsAwaited}) || s.Status() != events.StatusQueued || s.OwesModelCall() {
		t.Fatalf("rows %v, status %s, owes %v", kindsOf(d.Facts), s.Status(), s.OwesModelCall())
	}
	if p := s.PendingItems(); len(p) != 1 || p[0].Kind != pendingSlots || len(s.Timers(testTime)) != 0 {
		t.Errorf("pending %v, timers %v; want the place alone", p, s.Timers(testTime))
	}
	if w := s.Waiting(); w != "a place under concurrency key shop:4711 of a: 1 of 1 were taken, by run r9, 3 runs waited before it" {
		t.Errorf("waiting: %s", w)
	}
	told := Input{Cause: "timer:slots", Timer: &events.TimerFired{Timer: slotsTimer}}
	s = must(t)(Decide(s, plan, told, "w", testTime))
	if s.Status() != events.StatusRunning || !s.OwesModelCall() || len(s.PendingItems()) != 1 || s.PendingItems()[0].Kind != pendingModel {
		t.Errorf("with its place: %s, %v", s.Status(), s.PendingItems())
	}
	if d, err := Decide(s, plan, told, "w", testTime); err != nil || !d.Recorded {
		t.Errorf("told again: %v %v", kindsOf(d.Facts), err)
	}
}

func TestDecide_APlaceAtOnce(t *testing.T) {
	t.Parallel()
	s, _, d := keyed(t, Placing{}, 0)
	if !slices.Equal(kindsOf(d.Facts), []string{events.FactStarted, events.FactSlotsTaken}) || !s.OwesModelCall() {
		t.Errorf("rows %v, status %s", kindsOf(d.Facts), s.Status())
	}
	for _, f := range d.Facts[1:] {
		if events.ReaderOf(f.Kind) != 3 {
			t.Errorf("a release that knows no limits may go on with a run after %s", f.Kind)
		}
	}
}

func TestDecide_ARefusedRunHasFailed(t *testing.T) {
	t.Parallel()
	s, _, d := keyed(t, Placing{Refused: &events.Problem{Code: "concurrency", Message: "taken"}}, 0)
	if s.Status() != events.StatusFailed || s.Ending.Error.Code != "concurrency" || len(d.Facts) != 2 {
		t.Errorf("%s, %+v, %v", s.Status(), s.Ending, kindsOf(d.Facts))
	}
}

func TestDecide_CommandsToAQueuedRun(t *testing.T) {
	t.Parallel()
	s, plan, _ := keyed(t, inLine, 0)
	cancelled := must(t)(Decide(s, plan, Input{Cause: "c", What: events.RunCancel, Command: &events.Command{ID: "c", Principal: "run r10", Reason: "replaced by run r10"}}, "w", testTime))
	if cancelled.Status() != events.StatusCancelled || !strings.Contains(cancelled.Ending.Error.Message, "replaced by run r10") {
		t.Errorf("cancelled at once? %s %+v", cancelled.Status(), cancelled.Ending)
	}
	paused := must(t)(Decide(s, plan, Input{Cause: "p", What: events.RunPause, Command: &events.Command{ID: "p"}}, "w", testTime))
	if paused.Status() != events.StatusPaused || !paused.Queued {
		t.Errorf("paused: %s, queued %v", paused.Status(), paused.Queued)
	}
	// The pause came in between: it has its place and stands still with it.
	held := must(t)(Decide(paused, plan, Input{Cause: "t", Timer: &events.TimerFired{Timer: slotsTimer}}, "w", testTime))
	if held.Status() != events.StatusPaused || held.Queued || held.OwesModelCall() {
		t.Errorf("told while paused: %s", held.Status())
	}
	if resumed := must(t)(Decide(paused, plan, Input{Cause: "r", What: events.RunResume, Command: &events.Command{ID: "r"}}, "w", testTime)); resumed.Status() != events.StatusQueued {
		t.Errorf("resumed: %s, want queued", resumed.Status())
	}
}

// The wall time counts from the start, in the queue too.
func TestDecide_WallTimeEndsInTheQueue(t *testing.T) {
	t.Parallel()
	s, plan, _ := keyed(t, inLine, time.Hour)
	timers := s.Timers(testTime)
	if len(timers) != 1 || !timers[0].Due.Equal(testTime.Add(time.Hour)) {
		t.Fatalf("timers %v", timers)
	}
	s = must(t)(Decide(s, plan, Input{Cause: "w", Timer: &events.TimerFired{Timer: timers[0].Name}}, "w", testTime.Add(time.Hour)))
	if s.Status() != events.StatusPaused || !strings.Contains(s.Pause.Reason, "wallTime") {
		t.Errorf("%s %+v", s.Status(), s.Pause)
	}
}

// A child shares the place of the run above it, and its own children do.
func TestPinKeys_ChildrenShare(t *testing.T) {
	t.Parallel()
	s, plan, _ := keyed(t, Placing{}, 0)
	if got := s.holds(); len(got) != 1 || got[0].RunID != testRun {
		t.Fatalf("holds %v", got)
	}
	agent := *plan.Agent
	agent.Concurrency = []spec.Concurrency{{Max: 1}}
	child := &Start{Body: events.RunStarted{Ref: events.Ref{Kind: events.KindAgent, Name: "a"}, Input: json.RawMessage(`{}`)}}
	pinKeys(&Plan{Agent: &agent}, child)
	own := child.Body.Concurrency[0]
	child.Body.Parent = &events.Parent{RunID: testRun, Holds: []events.HeldKey{{Key: own.Key, RunID: "top"}}}
	pinKeys(&Plan{Agent: &agent}, child)
	if got := child.Body.Concurrency[0]; got.Of != "top" || got.Shown != "agent a" {
		t.Fatalf("key %+v, want the place of the run above", got)
	}
	below := NewState("child", "default")
	below.Started = child.Body
	below.slotsTaken(events.SlotsTaken{Shared: []events.Digest{own.Key}})
	if got := below.holds(); len(got) != 1 || got[0].RunID != "top" {
		t.Errorf("a sharing child's children get %v, want the place of the top", got)
	}
	below.slotsTaken(events.SlotsTaken{})
	if got := below.holds(); len(got) != 1 || got[0].RunID != "child" {
		t.Errorf("the children of one that got its own place get %v", got)
	}
}
