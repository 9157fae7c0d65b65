package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Where the clock is changed, the list says so.
func TestFireViews_SayClockChanges(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	fire := func(day, hour int) trigger.Fire {
		return trigger.Fire{At: time.Date(2026, 3, day, hour, 0, 0, 0, zone), Nominal: "2026-03-08T02:00"}
	}
	fires := []trigger.Fire{fire(7, 2), fire(8, 3), fire(9, 2)}
	fires[1].Shifted = true
	again := fire(1, 1)
	again.Fold = 1
	for i, want := range []string{"", "does not exist, so it fires once", ""} {
		if got := fireViews("s", fires)[i]; (want == "") != (got.Note == "") || !strings.Contains(got.Note, want) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	got := fireViews("s", []trigger.Fire{fire(7, 2), fire(9, 2), again})
	if got[0].Local != "Sat 7 Mar 2026, 02:00 EST" || got[0].UTC != "Sat 7 Mar, 07:00" || got[1].Note != "The clock was changed: UTC moves by 1h0m0s" || !strings.Contains(got[2].Note, "second time") {
		t.Errorf("%+v", got)
	}
}
