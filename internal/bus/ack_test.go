package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/fault"
)

func TestRule(t *testing.T) {
	t.Parallel()
	plain := errors.New("connection refused")
	tests := map[string]struct {
		err       error
		stopping  bool
		delivered uint64
		want      ruling
	}{
		"success acknowledges":                     {nil, false, 1, ruling{action: actAck}},
		"success while stopping acknowledges":      {nil, true, 1, ruling{action: actAck}},
		"a lost claim is dropped":                  {fmt.Errorf("commit: %w", fault.ErrLost), false, 3, ruling{action: actDrop}},
		"a lost claim while stopping is dropped":   {fault.ErrLost, true, 1, ruling{action: actDrop}},
		"a lost claim beats a terminal fault":      {fault.Terminal("x", fault.ErrLost), false, 1, ruling{action: actDrop}},
		"a terminal fault is rejected":             {fmt.Errorf("run: %w", fault.Terminal("unknown_run", plain)), false, 1, ruling{action: actReject, code: "unknown_run"}},
		"a terminal fault while stopping goes on":  {fault.Terminal("x", context.Canceled), true, 1, ruling{action: actNak}},
		"a named wait is kept":                     {fault.RetryAfter(700*time.Millisecond, plain), false, 9, ruling{action: actNak, delay: 700 * time.Millisecond}},
		"a named wait of zero is at once":          {fault.RetryAfter(0, plain), false, 9, ruling{action: actNak}},
		"a negative wait is at once":               {fault.RetryAfter(-time.Second, plain), false, 9, ruling{action: actNak}},
		"a long wait is cut to five seconds":       {fault.RetryAfter(time.Hour, plain), false, 1, ruling{action: actNak, delay: 5 * time.Second}},
		"an unnamed error backs off":               {plain, false, 1, ruling{action: actNak, delay: 200 * time.Millisecond}},
		"the third delivery waits four times that": {plain, false, 3, ruling{action: actNak, delay: 800 * time.Millisecond}},
		"the backoff ends at five seconds":         {plain, false, 6, ruling{action: actNak, delay: 5 * time.Second}},
		"a huge count does not overflow":           {plain, false, 1 << 40, ruling{action: actNak, delay: 5 * time.Second}},
		"an unnamed error while stopping goes on":  {context.Canceled, true, 7, ruling{action: actNak}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := rule(tc.err, tc.stopping, tc.delivered)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(ruling{})); diff != "" {
				t.Errorf("rule (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpread_NeverLonger(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if d := spread(5 * time.Second); d > 5*time.Second || d < 4*time.Second {
			t.Fatalf("spread(5s) = %v, want 4s to 5s", d)
		}
	}
	if d := spread(0); d != 0 {
		t.Errorf("spread(0) = %v, want 0", d)
	}
}
