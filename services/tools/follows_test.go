package tools

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What a verdict brings about is said for the key and for each run that waits.
func TestFollows_EachRunAndTheKey(t *testing.T) {
	t.Parallel()
	e := Effect{ID: "e", State: EffectUnknown, InDoubt: DoubtAsk, Claim: Claim{Epoch: 4}}
	opener := Sharer{RunID: "one", Status: events.CallUnknown, Opened: true, RunStatus: events.StatusWaiting}
	gone := opener
	gone.RunStatus = events.StatusCancelled
	other := Sharer{RunID: "two", Status: CallOpen, RunStatus: events.StatusWaiting}
	refused := Sharer{RunID: "three", Status: events.CallMismatch, RunStatus: events.StatusWaiting}
	stop := &Stop{By: "maria", Since: time.Unix(0, 0), Note: "wrong prices"}
	for name, tc := range map[string]struct {
		verdict string
		calls   []Sharer
		given   bool
		held    *Stop
		want    []string // one for each consequence
	}{
		"happened, with a result":    {events.Happened, []Sharer{opener, other, refused}, true, nil, []string{"used up", "as if the other side had answered", "as if the other side had answered"}},
		"happened, result not known": {events.Happened, []Sharer{opener}, false, nil, []string{"used up", "result is not known"}},
		"a run that has ended":       {events.Happened, []Sharer{gone}, false, nil, []string{"used up", "has ended (cancelled)"}},
		"not happened":               {events.NotHappened, []Sharer{opener, other}, false, nil, []string{"as epoch 6", "waits for that act", "wants the same"}},
		"not happened, run ended":    {events.NotHappened, []Sharer{gone}, false, nil, []string{"as epoch 6", "sent all the same"}},
		"not happened, stopped":      {events.NotHappened, []Sharer{opener}, false, stop, []string{"held by the stop of maria", "waits for that act"}},
		"not happened, of a program": {events.NotHappened, nil, false, stop, []string{"The key is free"}},
		"not happened, opener gone":  {events.NotHappened, []Sharer{other}, false, nil, []string{"The key is free", "until somebody acts"}},
		"given up":                   {events.GiveUp, []Sharer{opener, refused}, false, nil, []string{"stays closed", "nobody knows"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Follows(e, tc.verdict, tc.calls, tc.given, tc.held)
			if len(got) != len(tc.want) {
				t.Fatalf("%+v", got)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i].Text, want) {
					t.Errorf("%d is %q, want %q", i, got[i].Text, want)
				}
			}
		})
	}
	opener.YesID = "apr-1"
	if got := Follows(e, events.NotHappened, []Sharer{opener}, false, nil); len(got) != 3 || !strings.Contains(got[1].Text, "must still be valid") {
		t.Errorf("%+v", got)
	}
}
