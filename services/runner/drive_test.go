package runner

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// A run whose claim is free is brought to somebody by a step, whatever message finds
// it: of a message that a process woke with, nobody knows whether it is still there.
func TestDecideDrive(t *testing.T) {
	t.Parallel()
	plan, body := purePlan(t)
	d, err := Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	owes := d.State
	paused, err := Decide(owes, plan, Input{Cause: "pause", What: events.RunPause, Command: &events.Command{ID: "p", RunID: testRun}, Original: json.RawMessage(`1`)}, "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	none, others := Claim{}, Claim{Worker: "w", Epoch: 3, Cause: "start"}
	for name, tc := range map[string]struct {
		state         *State
		claim         Claim
		cause         string
		step, working bool
		want          Drive
	}{
		"a fact finds nobody at the call":                {owes, none, "start", false, false, DriveAsk},
		"its step finds nobody at the call":              {owes, Claim{Epoch: 2}, stepID(testRun, owes.Seq, 2), true, false, DriveClaim},
		"a step of an earlier row":                       {owes, Claim{Epoch: 2}, stepID(testRun, owes.Seq-1, 2), true, false, DriveAsk},
		"a step of an earlier epoch":                     {owes, Claim{Epoch: 2}, stepID(testRun, owes.Seq, 1), true, false, DriveAsk},
		"the doctor's step finds nobody at the call":     {owes, Claim{Epoch: 2}, stepID(testRun, owes.Seq, 0), true, false, DriveAsk},
		"the message of a claim comes again":             {owes, others, "start", false, false, DriveTakeOver},
		"it comes again to the process that is at it":    {owes, others, "start", false, true, DriveRest},
		"another message finds somebody at the call":     {owes, others, "signal", false, false, DriveRest},
		"a step of this epoch finds somebody at it":      {owes, others, stepID(testRun, owes.Seq, 3), true, false, DriveTakeOver},
		"a step of an earlier one finds somebody at it":  {owes, others, stepID(testRun, owes.Seq, 2), true, false, DriveAsk},
		"no call is owed and nobody has it":              {paused.State, none, "pause", false, false, DriveRest},
		"no call is owed and its message comes again":    {paused.State, others, "start", false, false, DriveDrop},
		"no call is owed and its process is still at it": {paused.State, others, "start", false, true, DriveRest},
		"no call is owed and another message comes":      {paused.State, others, "pause", false, false, DriveRest},
	} {
		if got := DecideDrive(tc.state, tc.claim, tc.cause, tc.step, tc.working); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		commit Commit
		claim  Claim
		want   bool
	}{
		"it took the claim":                    {Commit{After: owes, Claim: ClaimTake}, none, false},
		"it had no slot":                       {Commit{After: owes}, none, true},
		"another is at it":                     {Commit{After: owes}, others, false},
		"another was at it before a pause":     {Commit{After: owes, Facts: []Fact{{Kind: events.FactResumed}}}, others, true},
		"the run owes nothing behind a resume": {Commit{After: paused.State, Facts: []Fact{{Kind: events.FactResumed}}}, others, false},
	} {
		if got := OwesStep(tc.commit, tc.claim); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
