package httpapi

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/services/tools"
)

// Effect is one row of the ledger as the door shows it.
type Effect struct {
	EffectID    string            `json:"effect_id"`
	Namespace   string            `json:"namespace"`
	Tool        string            `json:"tool"`
	Key         string            `json:"key" doc:"what the other side gets as Idempotency-Key"`
	State       string            `json:"state" enum:"intent,held,awaiting,succeeded,failed,unknown,expired" doc:"held: a stop keeps it from being tried; awaiting: the other side has accepted it and posts the result; failed: it surely did not happen; unknown: it may have happened; expired: the key is used up, what was done is forgotten"`
	Epoch       int64             `json:"epoch"`
	RunID       string            `json:"run_id" doc:"of the call that opened it"`
	CallID      string            `json:"call_id"`
	Args        json.RawMessage   `json:"args"`
	Result      json.RawMessage   `json:"result,omitempty"`
	Error       *EffectError      `json:"error,omitempty"`
	InDoubt     string            `json:"in_doubt,omitempty" enum:"ask,fail,probe" doc:"ask: a person is asked; fail: nobody is; probe: a lookup is to say, at next_attempt_at"`
	SettledBy   string            `json:"settled_by,omitempty" doc:"who said what became of it"`
	HeldBy      string            `json:"held_by,omitempty" doc:"with held: the id of the stop"`
	ReplyUntil  time.Time         `json:"reply_until,omitzero" doc:"with awaiting: when the wait for the callback ends and in_doubt begins"`
	OnDoubt     string            `json:"on_doubt,omitempty" enum:"ask,retry,fail" doc:"of a program's act: its policy"`
	Damaged     string            `json:"damaged,omitempty" doc:"why the stored record cannot be understood; it is neither done nor free"`
	Worker      string            `json:"worker,omitempty" doc:"who acts, or acted last; of a program the holder"`
	LeaseUntil  time.Time         `json:"lease_until,omitzero"`
	Attempts    int               `json:"attempts"`
	NextAttempt time.Time         `json:"next_attempt_at,omitzero"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	ActedAt     time.Time         `json:"acted_at,omitzero"`
	Receipts    json.RawMessage   `json:"receipts,omitempty" doc:"what each attempt saw; only when one effect is shown"`
	Calls       []SharedCall      `json:"calls,omitempty" doc:"that share it, the oldest first, at most 500; only when one effect is shown"`
	Verdicts    []tools.Verdicted `json:"verdicts,omitempty" doc:"what was said about it while it was in doubt; only when one effect is shown"`
}

// EffectError is why an effect is not known to have happened.
type EffectError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func show(e tools.Effect) Effect {
	out := Effect{
		EffectID: e.ID, Namespace: e.Namespace, Tool: e.Tool, Key: e.Key, State: e.State, Epoch: e.Claim.Epoch,
		RunID: string(e.RunID), CallID: string(e.CallID), Args: e.Args, Result: e.Result, InDoubt: e.InDoubt, SettledBy: e.SettledBy,
		Worker: e.Claim.Worker, LeaseUntil: e.Claim.LeaseUntil, Attempts: e.Claim.Attempts, NextAttempt: e.Claim.NextAttempt,
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, ActedAt: e.ActedAt, Receipts: e.Receipts,
	}
	out.OnDoubt, out.Damaged = e.OnDoubt, e.Damaged
	if e.Held() {
		out.State, out.HeldBy, out.NextAttempt = tools.EffectHeld, e.HeldBy, time.Time{}
	}
	if e.Awaiting() {
		out.State, out.ReplyUntil = tools.EffectAwaiting, e.ReplyUntil
	}
	if out.Damaged != "" {
		out.Result = nil // it may not even be JSON
	}
	if e.Error != nil {
		out.Error = &EffectError{Code: e.Error.Code, Message: e.Error.Message}
	}
	return out
}
