package sim

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// setting reads a number from the environment.
func setting(t *testing.T, name string, byDefault uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// tries bounds how many worlds are played to make one small.
const tries = 3000

// Every promise holds in every world: HOLDFAST_SIM_STEPS says for how many steps, and
// HOLDFAST_SIM_SEED with which seed to begin.
func TestPromisesHold(t *testing.T) {
	t.Parallel()
	steps, first := setting(t, "HOLDFAST_SIM_STEPS", 100_000), setting(t, "HOLDFAST_SIM_SEED", 1)
	begun, done, seed := time.Now(), uint64(0), first
	for ; done < steps; seed++ {
		r := Play(Seeded(seed), None, false)
		done += uint64(r.Steps)
		if r.Broken != nil {
			t.Fatalf("%v\nAgain with: HOLDFAST_SIM_SEED=%d go test -count=1 -run TestPromisesHold ./test/sim", Explain(seed, None, tries), seed)
		}
	}
	t.Logf("seeds %d to %d: %d steps, %.0f a minute", first, seed-1, done, float64(done)/time.Since(begun).Minutes())
}

// Each planted bug is found, by a promise that it breaks, and told in a few lines.
func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	for flaw, want := range map[Flaw][]Promise{
		AckBeforeCommit:     {NothingLost, ExactlyOnce, EveryChange},
		NoSecondLook:        {NothingLost, ExactlyOnce, EveryChange},
		NoCauseCheck:        {ExactlyOnce},
		PublishBeforeCommit: {EveryChange, RecordedFirst},
		FencedModel:         {NoneAskedAgain, EveryChange},
		FencedAct:           {AtMostOnce, NoneAskedAgain},
		NoYesAtIntent:       {Approved},
		ActBeforeIntent:     {AtMostOnce, NoneAskedAgain},
		NoPlace:             {LastWord},
		StaleCache:          {NothingLost, ExactlyOnce},
	} {
		t.Run(flaw.String(), func(t *testing.T) {
			t.Parallel()
			const most, lines = 1000, 30
			for seed := uint64(1); seed <= most; seed++ {
				found := Explain(seed, flaw, tries)
				if found == nil {
					continue
				}
				if !slices.Contains(want, found.Broken.Promise) {
					t.Logf("by another promise: %v", found)
					continue
				}
				if found.Lines > lines {
					t.Logf("seed %d finds it in %d lines", seed, found.Lines)
					continue
				}
				t.Logf("%d plays made it small: %v", found.Plays, found)
				return
			}
			t.Errorf("not found with %d seeds, or in more than %d lines", most, lines)
		})
	}
}

// The same seed is the same world, and so is the plan that it made.
func TestASeedIsAWorld(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 20; seed++ {
		a, b := Play(Seeded(seed), None, true), Play(Seeded(seed), None, true)
		c := Play(Replayed(a.Faults), None, true)
		if a.Trace != b.Trace || a.Trace != c.Trace || a.Steps != c.Steps {
			t.Fatalf("seed %d is three worlds:\n%s\n%s\n%s", seed, a.Trace, b.Trace, c.Trace)
		}
	}
}

// What fails is made as small as it can be.
func TestShrink(t *testing.T) {
	t.Parallel()
	var all []Fault
	for i := range uint64(400) {
		all = append(all, Fault{i, uint16(1 + i%7)})
	}
	got := Shrink(all, 10_000, func(faults []Fault) bool {
		n := 0
		for _, f := range faults {
			if f.Place%100 == 77 && f.Value >= 3 {
				n++
			}
		}
		return n >= 2
	})
	if len(got) != 2 || got[0].Value != 3 || got[1].Value != 3 {
		t.Errorf("got %v", got)
	}
}
