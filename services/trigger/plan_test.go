package trigger

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/pkg/spec/cron"
)

// wallClock plans as the service does.
type wallClock struct{}

func (wallClock) Fires(expr, zone string, after time.Time) (iter.Seq[Fire], error) {
	s, err := cron.Parse(expr, zone)
	if err != nil {
		return nil, err
	}
	return func(yield func(Fire) bool) {
		for f := range s.All(after) {
			if !yield(Fire(f)) {
				return
			}
		}
	}, nil
}

// walk lets a clock run and makes what is due, as a replica does that looks every
// step.
func walk(t *testing.T, def Schedule, from, to time.Time, step time.Duration) (fires []Fire) {
	t.Helper()
	h := Hand{Namespace: def.Namespace, Name: def.Name, Digest: def.Digest, Next: firstFire(def, from, wallClock{})}
	for now := from; !now.After(to) && h.Next != nil; now = now.Add(step) {
		if h.Next.At.After(now) {
			continue
		}
		got, err := due(def, h, now, time.Hour, wallClock{})
		if err != nil {
			t.Fatal(err)
		}
		fires = append(fires, got.Fires...)
		h.Next = got.Next
	}
	return fires
}

// Over a change of the clocks a daily schedule fires once a day, an interval
// keeps its spacing in real time, and the preview is what happens.
func TestCaseB01_ClockChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cron, zone string
		day        string // the one after whose noon the clock is changed
		want       int    // fires in the two days
	}{
		"New York, gap, daily in it":       {"30 2 * * *", "America/New_York", "2027-03-13", 2},
		"New York, overlap, daily in it":   {"30 1 * * *", "America/New_York", "2027-11-06", 2},
		"New York, gap, quarter-hourly":    {"*/15 * * * *", "America/New_York", "2027-03-13", 192},
		"New York, overlap, quarters":      {"*/15 * * * *", "America/New_York", "2027-11-06", 192},
		"Santiago, gap at midnight":        {"0 0 * * *", "America/Santiago", "2027-09-04", 2},
		"Lord Howe, gap of half an hour":   {"15 2 * * *", "Australia/Lord_Howe", "2027-10-02", 2},
		"Lord Howe, overlap of half":       {"45 1 * * *", "Australia/Lord_Howe", "2027-04-03", 2},
		"Lord Howe, gap, in real quarters": {"*/15 * * * *", "Australia/Lord_Howe", "2027-10-02", 192},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(tc.zone)
			if err != nil {
				t.Fatal(err)
			}
			from, err := time.ParseInLocation("2006-01-02T15:04:05", tc.day+"T12:00:30", zone)
			if err != nil {
				t.Fatal(err)
			}
			def := Schedule{Namespace: "default", Name: "s", Cron: tc.cron, TimeZone: tc.zone}
			to := from.Add(48 * time.Hour)
			fires := walk(t, def, from, to, 20*time.Second)
			if len(fires) != tc.want {
				t.Errorf("%d fires, want %d: %v", len(fires), tc.want, fires)
			}
			preview, err := between(def, from, to, 1000, wallClock{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(preview, fires); diff != "" {
				t.Errorf("what happened is not the preview (-preview +happened):\n%s", diff)
			}
			keys := map[string]bool{}
			for i, f := range fires {
				if keys[f.Key()] {
					t.Errorf("%s fires twice", f.Key())
				}
				keys[f.Key()] = true
				if tc.want == 192 && i > 0 && f.At.Sub(fires[i-1].At) != 15*time.Minute {
					t.Errorf("%s comes %s after the one before", f.Key(), f.At.Sub(fires[i-1].At))
				}
			}
		})
	}
}

func keysOf(fires []Fire) (keys []string) {
	for _, f := range fires {
		keys = append(keys, f.At.UTC().Format("15:04:05")+" "+f.Key())
	}
	return keys
}

func TestUpcoming(t *testing.T) {
	t.Parallel()
	day := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for name, tc := range map[string]struct {
		def  Schedule
		want []string
	}{
		"an interval is counted from the epoch": {Schedule{Every: 7 * time.Hour, TimeZone: "UTC"},
			[]string{"19:00:00 2026-11-29T19:00:00Z/0", "02:00:00 2026-11-30T02:00:00Z/0", "09:00:00 2026-11-30T09:00:00Z/0"}},
		"and its offset": {Schedule{Every: time.Hour, Offset: 20 * time.Minute, TimeZone: "Asia/Kathmandu"},
			[]string{"12:20:00 2026-11-29T12:20:00Z/0", "13:20:00 2026-11-29T13:20:00Z/0", "14:20:00 2026-11-29T14:20:00Z/0"}},
		"the start is in it, the end is not": {Schedule{Every: time.Hour, TimeZone: "UTC", StartAt: day("2026-11-29T15:00:00Z"), EndAt: day("2026-11-29T17:00:00Z")},
			[]string{"15:00:00 2026-11-29T15:00:00Z/0", "16:00:00 2026-11-29T16:00:00Z/0"}},
		"days are excluded as they are in its zone": {Schedule{Cron: "0 1 * * *", TimeZone: "Pacific/Auckland",
			Exclude: []spec.Days{{First: "2026-11-30", Last: "2026-11-30"}, {First: "2026-12-02", Last: "2026-12-03"}}},
			[]string{"12:00:00 2026-12-01T01:00/0", "12:00:00 2026-12-04T01:00/0", "12:00:00 2026-12-05T01:00/0"}},
		"of an interval, too": {Schedule{Every: 12 * time.Hour, TimeZone: "UTC", Exclude: []spec.Days{{First: "2026-11-30", Last: "2026-12-01"}}},
			[]string{"00:00:00 2026-12-02T00:00:00Z/0", "12:00:00 2026-12-02T12:00:00Z/0", "00:00:00 2026-12-03T00:00:00Z/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fires, err := between(tc.def, noon, noon.AddDate(0, 1, 0), 2, wallClock{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, keysOf(fires)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Jitter is the same for everybody, differs from fire to fire, and neither
// reorders fires nor lets one out, wherever one begins to look.
func TestUpcoming_Jitter(t *testing.T) {
	t.Parallel()
	def := Schedule{Namespace: "default", Name: "s", Cron: "*/5 * * * *", TimeZone: "UTC", Jitter: 10 * time.Minute}
	all, err := between(def, noon, noon.Add(10*time.Hour), 1000, wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	delays := map[time.Duration]bool{}
	for i, f := range all {
		nominal, err := time.Parse(cronNominal, f.Nominal)
		if err != nil {
			t.Fatal(err)
		}
		if d := f.At.Sub(nominal); d < 0 || d >= 5*time.Minute {
			t.Errorf("%s is delayed by %s", f.Key(), d)
		} else {
			delays[d] = true
		}
		if i > 0 && !f.At.After(all[i-1].At) {
			t.Errorf("%s does not come after %s", f.Key(), all[i-1].Key())
		}
		rest, err := between(def, f.At, noon.Add(10*time.Hour), 1000, wallClock{})
		if err != nil || len(rest) != len(all)-i-1 {
			t.Errorf("after %s there are %d, want %d, %v", f.Key(), len(rest), len(all)-i-1, err)
		}
	}
	if len(all) < 119 || len(delays) < 60 {
		t.Errorf("%d fires with %d delays", len(all), len(delays))
	}
}

func TestDue_CatchUp(t *testing.T) {
	t.Parallel()
	now := noon.Add(time.Second)
	for name, tc := range map[string]struct {
		catchUp    spec.CatchUp
		late       time.Duration
		wantFires  int
		wantFirst  string
		wantMissed int64
	}{
		"the newest":                     {spec.CatchUp{}, 2 * time.Hour, 1, "2026-11-29T12:00", 120},
		"none, and one is in time":       {spec.CatchUp{Policy: "none"}, 2 * time.Hour, 1, "2026-11-29T12:00", 120},
		"all, up to ten":                 {spec.CatchUp{Policy: "all"}, 2 * time.Hour, 10, "2026-11-29T11:51", 111},
		"all, up to a cap":               {spec.CatchUp{Policy: "all", Cap: 50}, 2 * time.Hour, 50, "2026-11-29T11:11", 71},
		"all of the window":              {spec.CatchUp{Policy: "all", Cap: 1000, Window: spec.Duration(10*time.Minute + 2*time.Second)}, 2 * time.Hour, 11, "2026-11-29T11:50", 110},
		"a month of them is no obstacle": {spec.CatchUp{Policy: "all", Cap: 1000, Window: spec.Duration(720 * time.Hour)}, 10000 * time.Hour, 1000, "2026-11-28T19:21", 31*24*60 - 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := Schedule{Name: "s", Cron: "* * * * *", CatchUp: tc.catchUp}
			got, err := due(def, Hand{Next: at(-tc.late)}, now, time.Hour, wallClock{})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Fires) != tc.wantFires || got.Fires[0].Nominal != tc.wantFirst || got.Missed.Count != tc.wantMissed {
				t.Errorf("%d fires from %s and %d missed, want %d from %s and %d", len(got.Fires), got.Fires[0].Nominal, got.Missed.Count,
					tc.wantFires, tc.wantFirst, tc.wantMissed)
			}
			if got.Next == nil || got.Next.Nominal != "2026-11-29T12:01" {
				t.Errorf("next %+v", got.Next)
			}
		})
	}
}

func TestPlace_Bounds(t *testing.T) {
	t.Parallel()
	def := Schedule{Name: "s", Cron: "* * * * *", MaxFires: 3}
	if h := place(def, &Hand{Name: "s", Next: at(time.Hour), Fired: 3}, noon, wallClock{}); h == nil || h.Next != nil {
		t.Errorf("a schedule that has fired as often as it may has the hand %+v", h)
	}
	if h := place(def, &Hand{Name: "s", Fired: 2}, noon, wallClock{}); h == nil || h.Next == nil || h.Fired != 2 {
		t.Errorf("one that may fire once more has the hand %+v", h)
	}
	def.MaxFires = 0
	if h := place(def, &Hand{Name: "s", Pause: &Pause{}}, noon, wallClock{}); h != nil {
		t.Errorf("one that an operator paused gets the hand %+v", h)
	}
	if _, err := upcoming(Schedule{Cron: "broken"}, noon, wallClock{}); err == nil || errors.Is(err, cron.ErrNeverFires) {
		t.Errorf("error %v", err)
	}
}

func TestStanding_Admit(t *testing.T) {
	t.Parallel()
	busy, waiting := standing{open: []events.RunID{"r1"}}, standing{open: []events.RunID{"r1"}, buffered: 2}
	skip := func(reason string) verdict { return verdict{state: FireSkipped, reason: reason} }
	for name, tc := range map[string]struct {
		standing standing
		overlap  spec.Overlap
		want     verdict
	}{
		"nothing is under way":            {standing{}, spec.Overlap{Policy: "skip"}, verdict{state: FireStarted}},
		"skip is the default":             {busy, spec.Overlap{}, skip(ReasonOverlap)},
		"what waits counts as well":       {standing{buffered: 1}, spec.Overlap{}, skip(ReasonOverlap)},
		"one waits":                       {busy, spec.Overlap{Policy: "bufferOne"}, verdict{state: FireBuffered}},
		"a second one does not":           {waiting, spec.Overlap{Policy: "bufferOne"}, skip(ReasonBufferFull)},
		"all wait":                        {waiting, spec.Overlap{Policy: "bufferAll"}, verdict{state: FireBuffered}},
		"up to a cap":                     {waiting, spec.Overlap{Policy: "bufferAll", Cap: 2}, skip(ReasonBufferFull)},
		"the others give way":             {waiting, spec.Overlap{Policy: "cancelOther"}, verdict{state: FireBuffered, cancel: []events.RunID{"r1"}, supersede: true}},
		"nobody waits for anybody":        {waiting, spec.Overlap{Policy: "allow"}, verdict{state: FireStarted}},
		"nobody has to give way to start": {standing{}, spec.Overlap{Policy: "cancelOther"}, verdict{state: FireStarted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.standing.admit(tc.overlap)
			if (got.detail == "") != (tc.want.state != FireSkipped) {
				t.Errorf("detail %q", got.detail)
			}
			got.detail = ""
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
