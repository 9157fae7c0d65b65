package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Bundle is everything about one run that who looks after it needs.
type Bundle struct {
	Format      int              `json:"format" doc:"1; members are added, never changed"`
	TakenAt     time.Time        `json:"taken_at"`
	Run         Run              `json:"run" doc:"input and output only up to 16 KiB"`
	Problem     *events.Problem  `json:"problem,omitempty" doc:"what parked or ended it"`
	Why         string           `json:"why"`
	Waits       []Wait           `json:"waits" doc:"what it waits for; until is when that ends by itself"`
	Definitions []events.Ref     `json:"definitions" doc:"the versions that it executes; empty when its rows cannot be read"`
	Journal     BundleJournal    `json:"journal"`
	Claim       *BundleClaim     `json:"claim,omitempty" doc:"who is asking the model"`
	Pending     []BundlePending  `json:"pending"`
	Effects     []BundleEffect   `json:"effects" doc:"calls that changed something or may have, those in doubt first; without arguments and results"`
	MoreEffects bool             `json:"more_effects,omitempty" doc:"there are more than 200"`
	Approvals   []BundleApproval `json:"approvals" doc:"open ones, without arguments"`
	Workers     []Worker         `json:"workers" doc:"processes that were heard of in the last hour"`
	Next        []string         `json:"next" doc:"commands, what helps most first"`
}

// BundleJournal is the end of a journal.
type BundleJournal struct {
	Rows int64             `json:"rows" doc:"in all"`
	Last []events.RunEvent `json:"last" doc:"the newest, at most 50; what has more than 4 KiB is left out and counted in elided_bytes"`
}

// BundleClaim is who makes the owed model call.
type BundleClaim struct {
	Worker string     `json:"worker"`
	Epoch  int64      `json:"epoch"`
	Since  *time.Time `json:"since,omitempty"`
}

// BundlePending is one thing that the run waits for, as a row.
type BundlePending struct {
	Item   string    `json:"item"`
	Kind   string    `json:"kind"`
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`
}

// BundleEffect is a call and what the ledger has of its effect.
type BundleEffect struct {
	CallID   events.CallID   `json:"call_id"`
	Tool     string          `json:"tool"`
	Status   string          `json:"status"`
	EffectID string          `json:"effect_id,omitempty"`
	Key      string          `json:"key"`
	State    string          `json:"state,omitempty"`
	InDoubt  string          `json:"in_doubt,omitempty"`
	Attempts int             `json:"attempts"`
	Worker   string          `json:"worker,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`
	At       time.Time       `json:"at"`
}

// BundleApproval is an open question.
type BundleApproval struct {
	ApprovalID events.ApprovalID `json:"approval_id"`
	Kind       string            `json:"kind"`
	Tool       string            `json:"tool"`
	Summary    string            `json:"summary"`
	CreatedAt  time.Time         `json:"created_at"`
	ExpiresAt  *time.Time        `json:"expires_at,omitempty"`
}

type bundleOutput struct{ Body Bundle }

func (a *api) bundles() {
	door.Register(a.door, huma.Operation{
		OperationID: "bundle-run", Method: http.MethodGet, Path: "/v1/runs/{id}/bundle", Summary: "Get everything about a run in one document", Tags: []string{"runs"},
		Description: "For a run that needs attention, and for any other: state, the end of the journal, what parked it, effects, questions, processes, and what to do next. " +
			"It is bounded, and is there for a run whose journal cannot be read.",
	}, authn.Operator, func(ctx context.Context, in *RunPath) (*bundleOutput, error) {
		p, _ := authn.FromContext(ctx)
		b, err := a.console.BundleOf(ctx, p.Namespace, in.ID)
		if err != nil {
			return nil, problem(err, "run %s", in.ID)
		}
		return &bundleOutput{wireBundle(b)}, nil
	})
}

func wireBundle(b console.Bundle) Bundle {
	b.Run.Input, b.Run.Output = atMost(b.Run.Input, console.BundleBodyBytes), atMost(b.Run.Output, console.BundleBodyBytes)
	out := Bundle{
		Format: 1, TakenAt: b.Now.UTC(), Run: wireRun(b.Run), Problem: b.Problem, Why: b.Reason.Sentence, Waits: []Wait{}, Definitions: b.Pins,
		Journal: BundleJournal{Rows: b.Run.Seq, Last: []events.RunEvent{}}, Pending: []BundlePending{}, Effects: []BundleEffect{}, MoreEffects: b.More,
		Approvals: []BundleApproval{}, Workers: []Worker{}, Next: b.Next,
	}
	if out.Definitions == nil {
		out.Definitions = []events.Ref{}
	}
	for _, w := range b.Reason.Waits {
		out.Waits = append(out.Waits, Wait{Kind: w.Kind, ID: w.ID, Name: w.Name, Since: orNil(w.Since), Until: orNil(w.Until), Sentence: w.Phrase})
	}
	out.Journal.Last = append(out.Journal.Last, b.Rows...)
	if b.Run.ClaimWorker != "" {
		out.Claim = &BundleClaim{Worker: b.Run.ClaimWorker, Epoch: b.Run.ClaimEpoch, Since: orNil(b.Run.ClaimAt)}
	}
	for _, p := range b.Pending[:min(len(b.Pending), console.BundleEffects)] {
		out.Pending = append(out.Pending, BundlePending{Item: p.Item, Kind: p.Kind, Detail: cutText(p.Detail, 1000), Since: p.Since})
	}
	for _, e := range b.Effects {
		e.Error = atMost(e.Error, console.BundleRowBytes)
		out.Effects = append(out.Effects, BundleEffect(e))
	}
	for _, q := range b.Approvals {
		out.Approvals = append(out.Approvals, BundleApproval{ApprovalID: q.ID, Kind: q.Kind, Tool: q.Tool, Summary: cutText(q.Summary, 1000), CreatedAt: q.CreatedAt, ExpiresAt: orNil(q.ExpiresAt)})
	}
	for _, w := range b.Workers {
		out.Workers = append(out.Workers, wireWorker(w))
	}
	return out
}

// atMost leaves out what is too long.
func atMost(raw json.RawMessage, bytes int) json.RawMessage {
	if len(raw) > bytes {
		return nil
	}
	return raw
}

func cutText(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes]) + "…"
	}
	return s
}
