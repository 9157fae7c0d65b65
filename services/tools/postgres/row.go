package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// callColumns is what callRow scans, in its order. Every json value is read as
// text, so that no digit passes through a float.
const callColumns = `c.call_id, c.run_id, c.namespace, c.tool, c.tool_digest, c.pool, c.args::text, c.args_digest,
	c.minted_key, c.key, c.approval::text, c.traceparent, c.effect_id, c.acting, c.status, c.epoch,
	c.result::text, c.error::text, c.in_doubt, c.replayed, c.settled_by, c.answered_by,
	c.claim_epoch, c.attempt_id, c.worker, c.lease_until, c.attempts, c.next_attempt_at, c.updated_at, c.rule`

type callRow struct {
	CallID, RunID, Namespace, Tool, ToolDigest, Pool, Args, ArgsDigest string
	MintedKey, Key                                                     string
	Approval                                                           *string
	TraceParent                                                        string
	EffectID                                                           *string
	Acting                                                             bool
	Status                                                             string
	Epoch                                                              int64
	Result, Error, InDoubt                                             *string
	Replayed                                                           bool
	SettledBy, AnsweredBy                                              *string
	ClaimEpoch                                                         int64
	AttemptID, Worker                                                  *string
	LeaseUntil                                                         *time.Time
	Attempts                                                           int
	NextAttemptAt                                                      *time.Time
	UpdatedAt                                                          time.Time
	Rule                                                               string
}

func (r callRow) call() (tools.Call, error) {
	c := tools.Call{
		ID: events.CallID(r.CallID), RunID: events.RunID(r.RunID), Namespace: r.Namespace, Tool: r.Tool,
		ToolDigest: events.Digest(r.ToolDigest), Pool: r.Pool, Args: json.RawMessage(r.Args), ArgsDigest: events.Digest(r.ArgsDigest),
		MintedKey: r.MintedKey, Key: r.Key, TraceParent: r.TraceParent, EffectID: text(r.EffectID), Acting: r.Acting,
		Status: r.Status, Epoch: r.Epoch, Result: raw(r.Result), InDoubt: text(r.InDoubt), Replayed: r.Replayed,
		SettledBy: text(r.SettledBy), AnsweredBy: text(r.AnsweredBy), UpdatedAt: r.UpdatedAt.UTC(), Rule: r.Rule,
		Claim: tools.Claim{
			Epoch: r.ClaimEpoch, AttemptID: text(r.AttemptID), Worker: text(r.Worker), LeaseUntil: at(r.LeaseUntil),
			Attempts: r.Attempts, NextAttempt: at(r.NextAttemptAt),
		},
	}
	if r.Approval != nil {
		c.Approval = &events.Approved{}
		if err := json.Unmarshal([]byte(*r.Approval), c.Approval); err != nil {
			return tools.Call{}, fmt.Errorf("approval of call %s: %w", r.CallID, err)
		}
	}
	var err error
	if c.Error, err = problem(r.Error); err != nil {
		return tools.Call{}, fmt.Errorf("error of call %s: %w", r.CallID, err)
	}
	return c, nil
}

// effectColumns is what effectRow scans, in its order.
const effectColumns = `e.effect_id, e.namespace, e.tool, e.key, e.state, e.epoch, e.call_id, e.run_id, e.args::text, e.args_digest,
	e.attempt_id, e.worker, e.lease_until, e.attempts, e.doubted, e.next_attempt_at, e.in_doubt,
	e.result::text, e.error::text, e.settled_by, e.created_at, e.updated_at, e.acted_at, e.on_doubt, e.probe_since, e.probes, e.held_by, e.reply_until`

type effectRow struct {
	EffectID, Namespace, Tool, Key, State string
	Epoch                                 int64
	CallID, RunID, Args, ArgsDigest       string
	AttemptID, Worker                     *string
	LeaseUntil                            *time.Time
	Attempts                              int
	Doubted                               bool
	NextAttemptAt                         *time.Time
	InDoubt, Result, Error, SettledBy     *string
	CreatedAt, UpdatedAt                  time.Time
	ActedAt                               *time.Time
	OnDoubt                               *string
	ProbeSince                            *time.Time
	Probes                                int
	HeldBy                                *string
	ReplyUntil                            *time.Time
}

func (r effectRow) effect() (tools.Effect, error) {
	e := tools.Effect{
		ID: r.EffectID, Namespace: r.Namespace, Tool: r.Tool, Key: r.Key, State: r.State,
		CallID: events.CallID(r.CallID), RunID: events.RunID(r.RunID), Args: json.RawMessage(r.Args), ArgsDigest: events.Digest(r.ArgsDigest),
		Claim: tools.Claim{
			Epoch: r.Epoch, AttemptID: text(r.AttemptID), Worker: text(r.Worker), LeaseUntil: at(r.LeaseUntil),
			Attempts: r.Attempts, Doubted: r.Doubted, NextAttempt: at(r.NextAttemptAt),
		},
		InDoubt: text(r.InDoubt), Result: raw(r.Result), SettledBy: text(r.SettledBy),
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), ActedAt: at(r.ActedAt),
		OnDoubt: text(r.OnDoubt), ProbeSince: at(r.ProbeSince), Probes: r.Probes, HeldBy: text(r.HeldBy), ReplyUntil: at(r.ReplyUntil),
	}
	e.Damaged = tools.Damage(e)
	var err error
	if e.Error, err = problem(r.Error); err != nil {
		e.Error, e.Damaged = nil, tools.DamagedError(err) // never an error of the read: it is shown and never retried
	}
	return e, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func raw(s *string) json.RawMessage {
	if s == nil {
		return nil
	}
	return json.RawMessage(*s)
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func problem(s *string) (*events.Problem, error) {
	if s == nil {
		return nil, nil
	}
	p := &events.Problem{}
	if err := json.Unmarshal([]byte(*s), p); err != nil {
		return nil, err
	}
	return p, nil
}

// null is what an absent value is written as.
func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func jsonText(v json.RawMessage) *string { return null(string(v)) }

func problemText(p *events.Problem) (*string, error) {
	if p == nil {
		return nil, nil
	}
	return marshalText(p)
}

func marshalText(v any) (*string, error) {
	b, err := events.Marshal(v)
	if err != nil {
		return nil, err
	}
	s := string(b)
	return &s, nil
}
