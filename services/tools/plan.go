package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Class says what repeating a tool means.
type Class string

// Effect classes.
const (
	ClassRead       Class = "read"       // changes nothing: no effect row, may be repeated
	ClassIdempotent Class = "idempotent" // repeating with the same key changes nothing more
	ClassWrite      Class = "write"
)

// Plan is what a tool's definition says about one call. It is pure: the same
// definition and call give the same plan in every process.
type Plan struct {
	Class   Class
	Key     string
	Policy  string // in doubt: DoubtRetry, DoubtAsk, DoubtFail or DoubtProbe
	Pool    string
	Timeout time.Duration
	// Limits are those of the tool; nil for none.
	Limits *spec.Limits
	// Retry is when and how often it is tried again; without Waits, quickRetry.
	Retry Retry
	// ReplyWithin is how long a result may be awaited that is posted later; zero:
	// none is.
	ReplyWithin time.Duration
	// Probe is what DoubtProbe does.
	Probe *spec.Probe
	// Unasked says that nobody is asked about an outcome that stays unknown.
	Unasked bool
	// Gated says that a person's yes is needed; Bind is what it must be bound to.
	Gated bool
	Bind  events.Digest
	// Problem is set when the call can never be made; it is answered with it.
	Problem *events.Problem
}

func (p Plan) retry() Retry {
	if len(p.Retry.Waits) == 0 {
		return quickRetry
	}
	return p.Retry
}

// openDoubt is how a doubt about the call is left in the end.
func (p Plan) openDoubt() string {
	if p.Unasked {
		return DoubtFail
	}
	return openDoubt(p.Policy)
}

const (
	defaultTimeout = 30 * time.Second
	defaultPool    = spec.DefaultPool
)

// MakePlan derives the plan of a call from its tool's definition alone; the run's
// definition may ask for more (Service.gate).
func MakePlan(t *spec.Tool, c events.CallTool) Plan {
	p := Plan{Class: Class(t.Effect), Key: c.Key, Pool: t.Pool, Timeout: t.Timeout.Std(), Limits: t.Limits}
	if p.Pool == "" {
		p.Pool = defaultPool
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	if t.HTTP != nil && t.HTTP.Retry != nil {
		p.Retry = Retry{Waits: t.HTTP.Retry.Waits(), Attempts: int(t.HTTP.Retry.Attempts)}
	}
	if p.Class != ClassRead {
		p.ReplyWithin = replyWithin(t)
	}
	switch p.Class {
	case ClassRead, ClassIdempotent:
		p.Policy = DoubtRetry
	default:
		p.Policy = t.DoubtPolicy(c.Args)
		if p.Policy == DoubtProbe {
			p.Probe = t.InDoubt.Probe
		}
	}
	if p.Class != ClassRead {
		key, ok, err := t.BusinessKey(c.Args)
		if err != nil {
			p.Problem = problem(CodeInvalidKey, "the tool's key cannot be made from these arguments: %v", err)
			return p
		}
		if ok {
			p.Key = key
		}
	}
	p.gate(t, c, spec.Asking{}, spec.GateCase{})
	return p
}

// EffectID derives the id of an effect from its unique key.
func EffectID(namespace, tool, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "effect/%q/%q/%q", namespace, tool, key))
	return "e-" + hex.EncodeToString(sum[:16])
}

// checkCall reports what makes a message unusable, whatever its tool is.
func checkCall(c events.CallTool) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if run, ok := c.CallID.Run(); !ok || run != c.RunID || !events.ValidToken(string(c.CallID)) {
		bad("call_id %.150q is not a call of run %.50q", c.CallID, c.RunID)
	}
	if c.Namespace == "" || c.Tool == "" || c.Key == "" {
		bad("namespace, tool and key are required")
	}
	canonical, err := events.Canonical(c.Args)
	switch {
	case err != nil:
		bad("args: %w", err)
	case events.DigestOf(canonical) != c.ArgsDigest:
		bad("args_digest is not the digest of args")
	}
	return errors.Join(errs...)
}
