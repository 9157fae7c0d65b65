package runner_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// While the circuit of the provider's host is open nobody is asked: it is neither
// an attempt nor a model call, waits in a timer until a request is tried, says so,
// and however long it lasts the run does not end of it.
func TestModel_AnOpenCircuitIsNoAttempt(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		c := scripted(func(scriptmodel.Request) scriptmodel.Answer { return saying("done") })
		c.Fault = func(_ scriptmodel.Request, nth int) scriptmodel.Fault {
			if nth <= 2 {
				return scriptmodel.Fault{Status: 529}
			}
			return scriptmodel.Fault{}
		}
		l := newLoop(t, provider, "hello", c)
		l.plan.Fallbacks = nil
		const opened = 600 * time.Millisecond
		l.model = model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
			Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
				Breaker: egress.NewBreaker(egress.BreakerConfig{Failures: 2, Open: opened})})})
		l.step(t.Context())
		l.step(t.Context())
		closes := time.Now().Add(opened)
		for range 20 { // more than attempts may fail
			l.step(t.Context())
		}
		if l.requests() != 2 || l.state.Failures != 2 || l.state.ModelCalls != 0 || l.state.Attention != nil {
			t.Fatalf("%d requests, %d failures, %d calls, %+v; want 2, 2, 0 (nobody billed one) and no stop\n%s", l.requests(), l.state.Failures, l.state.ModelCalls, l.state.Attention, l.text())
		}
		if w := l.waits(); len(w) != 22 || w[21] <= 0 {
			t.Errorf("waits %v: each has its timer", w)
		}
		if why := l.state.Waiting(); !strings.HasPrefix(why, "next model attempt at ") || !strings.Contains(why, "failed 2 times in a row, so nothing is sent to it") {
			t.Errorf("it waits for %q", why)
		}
		time.Sleep(time.Until(closes) + 10*time.Millisecond)
		l.run().ends(events.StatusCompleted, "")
		if l.requests() != 3 || l.state.ModelCalls != 1 {
			t.Errorf("%d requests, %d calls", l.requests(), l.state.ModelCalls)
		}
	})
}
