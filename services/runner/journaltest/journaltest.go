// Package journaltest checks what tests leave behind: the requests that a run owed
// after each of its commits, rebuilt as after a crash there, must be ones that the
// strict validator takes, and each must go on with what the one before it said.
package journaltest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// Requests is how many requests of one run are sent, evenly taken, the first and the
// last among them.
const Requests = 24

// Checker is a model server that takes each request by itself, behind the real
// adapters.
type Checker struct {
	server *httptest.Server
	ask    runner.Model
}

// New starts the server; Close ends it.
func New() *Checker {
	yes := scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("yes")}}
	return &Checker{
		server: httptest.NewServer(scriptmodel.New(scriptmodel.Config{Alone: true, Script: func(scriptmodel.Request) (scriptmodel.Answer, error) { return yes, nil }})),
		ask: model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
			Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}),
	}
}

// Close ends the server.
func (c *Checker) Close() { c.server.Close() }

// Result is what was looked at.
type Result struct{ Checked, Left int }

// Check folds a journal and sends what it owed on the way. planOf is what the run
// executes, from its first row or the one that moved it.
func (c *Checker) Check(ctx context.Context, id events.RunID, namespace string, facts []runner.Fact, planOf func(events.RunStarted) (*runner.Plan, error)) (out Result, err error) {
	owed, err := requests(id, namespace, facts, planOf)
	if err != nil {
		return out, err
	}
	var before *runner.Request
	take := Evenly(len(owed), Requests)
	for i, q := range owed {
		if err := GoesOn(before, q); err != nil {
			return out, fmt.Errorf("row %d: %w", q.Seq, err)
		}
		if before = &q; q.Summary {
			before = nil // it is shortened behind it
		}
		if !slices.Contains(take, i) {
			out.Left++
			continue
		}
		q.Model = c.strict(q.Model)
		if _, err := c.ask.Answer(ctx, q); err != nil {
			return out, fmt.Errorf("row %d: %w", q.Seq, err)
		}
		out.Checked++
	}
	return out, nil
}

// requests are the model calls that the run owed, one for each commit behind which
// it did.
func requests(id events.RunID, namespace string, facts []runner.Fact, planOf func(events.RunStarted) (*runner.Plan, error)) (owed []runner.Request, err error) {
	st := runner.NewState(id, namespace)
	var plan *runner.Plan
	for i, f := range facts {
		if err := st.Apply(f); err != nil {
			return nil, err
		}
		if f.Kind == events.FactStarted || f.Kind == events.FactMigrated {
			if plan, err = planOf(st.Started); err != nil {
				return nil, err
			}
		}
		if i+1 < len(facts) && facts[i+1].At.Equal(f.At) || !st.OwesModelCall() {
			continue // rows of one commit are there together
		}
		q, err := runner.NextRequest(st, plan, 1)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", f.Seq, err)
		}
		owed = append(owed, q)
	}
	return owed, nil
}

// strict is m behind this server.
func (c *Checker) strict(m *spec.Model) *spec.Model {
	to := *m
	to.BaseURL = spec.Setting{Value: c.server.URL + "/v1"}
	if m.Provider == spec.ProviderAnthropic {
		to.BaseURL.Value = c.server.URL
	}
	to.APIKey, to.Timeout, to.TLS = spec.SecretRef{Env: "KEY"}, spec.Duration(30*time.Second), nil
	return &to
}

// GoesOn checks that a request begins with all that the one before it said; only
// behind its last message may there be more.
func GoesOn(before *runner.Request, q runner.Request) error {
	if before == nil || q.Summary {
		return nil
	}
	said := before.Entries[:len(before.Entries)-1]
	if n := len(said); n > len(q.Entries) || !cmp.Equal(said, q.Entries[:n]) {
		return fmt.Errorf("the request is none that goes on from the one at row %d: %s", before.Seq, cmp.Diff(said, q.Entries))
	}
	return nil
}

// Evenly are at most n numbers below total, the first and the last among them.
func Evenly(total, n int) []int {
	var out []int
	for i := range min(total, n) {
		out = append(out, i*(total-1)/max(min(total, n)-1, 1))
	}
	return out
}
