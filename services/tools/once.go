package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ProgramPrefix begins the tool of every effect of a program that is not our
// agent. No Tool document's name holds a slash, so the two never meet.
const ProgramPrefix = "program/"

// Bounds of what a program may send.
const (
	MaxOnceKey     = 500 // bytes
	MaxOnceHolder  = 200
	MinOnceLease   = time.Second
	MaxOnceLease   = time.Hour
	OnceLease      = 30 * time.Second // when the program names none
	onceGrace      = 2 * time.Second  // a takeover waits so much longer than the lease
	maxOnceText    = 4000             // bytes of an error's message
	maxOnceRereads = 8
)

// Once begins an act of a program under a key.
type Once struct {
	Namespace string
	Tool      string // without prefix
	Key       string
	Args      json.RawMessage
	// Holder names one attempt of one process. A repeat of the same holder gets
	// the same fence, so a program that may have acted must come as another.
	Holder  string
	Lease   time.Duration
	OnDoubt string       // DoubtAsk, DoubtRetry or DoubtFail
	RunID   events.RunID // may be empty
}

// What a begin is answered with.
const (
	OnceProceed = "proceed" // act now, under the fence
	OnceDone    = "done"    // it happened; the result is stored
	OnceBusy    = "busy"    // another holder may be acting
	OnceUnknown = "unknown" // it may have happened
	OnceHeld    = "held"    // a stop forbids acts: ask again
)

// OnceAnswer is the answer to a begin.
type OnceAnswer struct {
	Status     string
	Effect     Effect        // Claim.Epoch is the fence
	LeaseLeft  time.Duration // with OnceProceed, by the database's clock
	RetryAfter time.Duration // with OnceBusy and OnceHeld
	Advice     string        // with OnceUnknown: what to do; with OnceHeld: whose stop
}

// NotTaken says that a program's request is not taken, and nothing was changed
// but a late receipt. Code is stable.
type NotTaken struct {
	Code   string
	Effect Effect
	Detail string
}

func (e *NotTaken) Error() string { return e.Detail }

func refused(code string, e Effect, format string, args ...any) *NotTaken {
	return &NotTaken{Code: code, Effect: e, Detail: fmt.Sprintf(format, args...)}
}

// OnceStore keeps programs' acts in the ledger. Each write is one statement
// that checks its guard by the database's clock.
type OnceStore interface {
	// LoadOnce returns the effect of a key, nil when it was never used, and the
	// database's clock.
	LoadOnce(ctx context.Context, namespace, tool, key string) (*Effect, time.Time, error)
	// TakeOnce opens the next epoch; nil when from is no longer how it stands, or
	// a stop forbids it.
	TakeOnce(ctx context.Context, o Once, digest events.Digest, from *Effect, doubted bool) (*Effect, error)
	// LapseOnce marks an intent unknown whose lease is over, if it still is.
	LapseOnce(ctx context.Context, id string, epoch int64, inDoubt string, why *events.Problem) (bool, error)
	// RenewOnce extends a lease; nil when the fence is not in force.
	RenewOnce(ctx context.Context, namespace, id string, fence int64, lease time.Duration) (*Effect, error)
	// RecordOnce records the outcome of the fence in force; nil when it is not in
	// force or has its outcome already.
	RecordOnce(ctx context.Context, r OnceRecord) (*Effect, error)
	// OutcomeOnce returns the digest of the outcome that a fence recorded, empty
	// when it recorded none.
	OutcomeOnce(ctx context.Context, id string, fence int64) (events.Digest, error)
	// KeepLate keeps an outcome that came too late as a receipt.
	KeepLate(ctx context.Context, r OnceRecord) error
	// LapseDue marks every intent unknown whose lease is over and whose policy is
	// not retry, at most limit, and returns them.
	LapseDue(ctx context.Context, why *events.Problem, limit int) ([]Effect, error)
	// ExpireKeys turns effects that ended more than age ago into tombstones.
	ExpireKeys(ctx context.Context, age time.Duration, limit int) (int, error)
}

// check reports what makes a begin unusable and returns the arguments' digest.
func (o *Once) check() (events.Digest, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !events.ValidToken(o.Tool) || len(o.Tool) > 100 {
		bad("tool: use 1 to 100 of A-Z a-z 0-9 _ -")
	}
	if !printable(o.Key, MaxOnceKey) {
		bad("key: use 1 to %d bytes of printable text", MaxOnceKey)
	}
	if !printable(o.Holder, MaxOnceHolder) {
		bad("holder: use 1 to %d bytes of printable text, another one for each attempt", MaxOnceHolder)
	}
	if o.Lease == 0 {
		o.Lease = OnceLease
	}
	if o.Lease < MinOnceLease || o.Lease > MaxOnceLease {
		bad("lease_seconds: from %d to %d", int(MinOnceLease.Seconds()), int(MaxOnceLease.Seconds()))
	}
	switch o.OnDoubt {
	case "":
		o.OnDoubt = DoubtAsk
	case DoubtAsk, DoubtRetry, DoubtFail:
	default:
		bad("on_doubt is %.40q, want ask, retry or fail", o.OnDoubt)
	}
	if o.RunID != "" && !o.RunID.Valid() {
		bad("run_id: not the id of a run")
	}
	if len(o.Args) == 0 {
		o.Args = json.RawMessage("null")
	}
	canonical, err := events.Canonical(o.Args)
	if err != nil {
		bad("args: %w", err)
	}
	if len(errs) > 0 {
		return "", fmt.Errorf("%w: %w", ErrInvalid, errors.Join(errs...))
	}
	return events.DigestOf(canonical), nil
}

func printable(s string, limit int) bool {
	if s == "" || len(s) > limit || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// BeginOnce answers whether a program may act under a key. *NotTaken when it may
// never: other arguments, an expired key, a damaged record. ErrInvalid.
func (s *Service) BeginOnce(ctx context.Context, o Once) (OnceAnswer, error) {
	digest, err := o.check()
	if err != nil {
		return OnceAnswer{}, err
	}
	o.Tool = ProgramPrefix + o.Tool
	for range maxOnceRereads {
		e, now, err := s.once.LoadOnce(ctx, o.Namespace, o.Tool, o.Key)
		if err != nil {
			return OnceAnswer{}, fmt.Errorf("load key %q: %w", o.Key, err)
		}
		d := DecideOnce(now, e, o, digest)
		switch {
		case d.Refuse != nil:
			return OnceAnswer{}, d.Refuse
		case d.Take:
			if e, err = s.once.TakeOnce(ctx, o, digest, e, d.Doubted); err != nil {
				return OnceAnswer{}, fmt.Errorf("begin key %q: %w", o.Key, err)
			}
			if e != nil {
				s.log.InfoContext(ctx, "a program begins an act", "effect_id", e.ID, telemetry.KeyTool, o.Tool, telemetry.KeyEpoch, e.Claim.Epoch)
				return OnceAnswer{Status: OnceProceed, Effect: *e, LeaseLeft: o.Lease}, nil
			}
			if held, err := s.onceHeld(ctx, o); held != nil || err != nil {
				return orZero(held), err
			}
		case d.Lapse:
			ok, err := s.once.LapseOnce(ctx, e.ID, e.Claim.Epoch, d.InDoubt, lapsed())
			if err != nil {
				return OnceAnswer{}, fmt.Errorf("mark effect %s unknown: %w", e.ID, err)
			}
			if ok {
				s.log.WarnContext(ctx, "effect of a program in doubt", "effect_id", e.ID, telemetry.KeyEpoch, e.Claim.Epoch, "policy", d.InDoubt)
			}
		default:
			if d.Answer.Status == OnceProceed { // a fence that was given before the stop
				if held, err := s.onceHeld(ctx, o); held != nil || err != nil {
					return orZero(held), err
				}
			}
			return d.Answer, nil
		}
	}
	return OnceAnswer{}, fault.RetryAfter(otherHoldsNak, fmt.Errorf("key %q keeps changing", o.Key))
}

func lapsed() *events.Problem {
	return problem(CodeUnknownOutcome, "the lease ran out between the begin and the record; it may have happened")
}

// OnceDecision says what a begin comes to. Exactly one of Refuse, Take, Lapse
// and Answer.Status is set.
type OnceDecision struct {
	Refuse  *NotTaken
	Take    bool // open the next epoch
	Doubted bool // with Take: an earlier attempt may have happened
	Lapse   bool // mark it unknown, then look again
	InDoubt string
	Answer  OnceAnswer
}

// DecideOnce says what a begin means for the effect of its key, nil when it was
// never used. It is pure. An act that may have happened is begun again only when
// both the policy it began under and the one of the begin say retry: either side
// may know that nobody honours the key.
func DecideOnce(now time.Time, e *Effect, o Once, digest events.Digest) OnceDecision {
	if e == nil {
		return OnceDecision{Take: true}
	}
	switch {
	case e.Damaged != "":
		return OnceDecision{Refuse: refused(CodeDamaged, *e, "the record of effect %s is damaged (%s): whether it happened is not known here, and it is not begun again; an operator must look", e.ID, e.Damaged)}
	case e.State == EffectExpired:
		return OnceDecision{Refuse: refused(CodeExpiredKey, *e, "key %q was used before and its record has expired; it is never begun again: act under another key", e.Key)}
	case e.ArgsDigest != digest:
		return OnceDecision{Refuse: refused(CodeMismatch, *e, "key %q was used with other arguments (effect %s is %s); nothing was done", e.Key, e.ID, e.State)}
	}
	bothRetry := e.OnDoubt == DoubtRetry && o.OnDoubt == DoubtRetry
	answer := func(status string) OnceDecision {
		return OnceDecision{Answer: OnceAnswer{Status: status, Effect: *e}}
	}
	switch e.State {
	case EffectSucceeded:
		return answer(OnceDone)
	case EffectFailed:
		return OnceDecision{Take: true}
	case EffectUnknown:
		if e.Open() && bothRetry {
			return OnceDecision{Take: true, Doubted: true}
		}
		d := answer(OnceUnknown)
		d.Answer.Advice = adviceOn(*e)
		return d
	}
	free := e.Claim.LeaseUntil.Add(onceGrace)
	switch {
	case e.Claim.Worker == o.Holder && now.Before(e.Claim.LeaseUntil):
		d := answer(OnceProceed)
		d.Answer.LeaseLeft = e.Claim.LeaseUntil.Sub(now)
		return d
	case !now.After(free):
		d := answer(OnceBusy)
		d.Answer.RetryAfter = max(free.Sub(now), 100*time.Millisecond)
		return d
	case bothRetry:
		return OnceDecision{Take: true, Doubted: true}
	}
	d := OnceDecision{Lapse: true, InDoubt: DoubtAsk}
	if e.OnDoubt == DoubtFail {
		d.InDoubt = DoubtFail
	}
	return d
}

func adviceOn(e Effect) string {
	switch {
	case e.SettledBy != "":
		return fmt.Sprintf("it may have happened and %s gave up finding out; the key stays closed", e.SettledBy)
	case e.InDoubt == DoubtFail:
		return fmt.Sprintf("it may have happened and nobody is asked; the key stays closed until somebody says what became of it: holdfast effects resolve %s happened|not_happened|give_up", e.ID)
	}
	return fmt.Sprintf("it may have happened: look at the other side, then holdfast effects resolve %s happened|not_happened|give_up; until then nobody acts under the key", e.ID)
}

// RenewOnce extends the lease of an act under way and returns what is left of it
// at least. It never shortens one.
// ErrNotFound; *NotTaken when the fence is not in force or the act has ended.
func (s *Service) RenewOnce(ctx context.Context, namespace, id string, fence int64, lease time.Duration) (Effect, time.Duration, error) {
	if lease == 0 {
		lease = OnceLease
	}
	if lease < MinOnceLease || lease > MaxOnceLease {
		return Effect{}, 0, fmt.Errorf("%w: lease_seconds: from %d to %d", ErrInvalid, int(MinOnceLease.Seconds()), int(MaxOnceLease.Seconds()))
	}
	e, err := s.once.RenewOnce(ctx, namespace, id, fence, lease)
	if err != nil {
		return Effect{}, 0, fmt.Errorf("renew effect %s: %w", id, err)
	}
	if e != nil {
		return *e, lease, nil
	}
	found, err := s.programs(ctx, namespace, id)
	if err != nil {
		return Effect{}, 0, err
	}
	return Effect{}, 0, refused(CodeFenced, found, "fence %d holds nothing: effect %s is %s in epoch %d; stop acting", fence, id, found.State, found.Claim.Epoch)
}

// OnceRecord is what a program says became of its act.
type OnceRecord struct {
	Namespace string
	EffectID  string
	Fence     int64
	Status    string          // EffectSucceeded, or EffectFailed: it surely did not happen
	Result    json.RawMessage // with EffectSucceeded; nil is null
	Error     *events.Problem // with EffectFailed
	Receipt   json.RawMessage // what the program wants kept: the other side's id
	outcome   events.Digest
}

// Outcome tells outcomes apart: status, result and error.
func (r OnceRecord) Outcome() events.Digest { return r.outcome }

// maxReceipt bounds a program's receipt.
const maxReceipt = 16 << 10

func (r *OnceRecord) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Fence < 1 {
		bad("fence: the number that proceed gave")
	}
	switch r.Status {
	case EffectSucceeded:
		if r.Error != nil {
			bad("error: an act that succeeded has none")
		}
		if len(r.Result) == 0 {
			r.Result = json.RawMessage("null")
		}
	case EffectFailed:
		if len(r.Result) > 0 {
			bad("result: an act that failed has none")
		}
		if r.Error == nil {
			r.Error = problem(CodeNotHappened, "the program says that it did not happen")
		}
		if r.Error.Code == "" {
			r.Error.Code = CodeNotHappened
		}
		if len(r.Error.Code) > 120 || len(r.Error.Message) > maxOnceText {
			bad("error: a code of at most 120 bytes and a message of at most %d", maxOnceText)
		}
	default:
		bad("status is %.40q, want succeeded, or failed for what surely did not happen; say nothing when you do not know", r.Status)
	}
	if len(r.Receipt) > maxReceipt {
		bad("receipt: at most %d bytes", maxReceipt)
	}
	outcome, err := events.Marshal(map[string]any{"status": r.Status, "result": r.Result, "error": r.Error})
	if err == nil {
		outcome, err = events.Canonical(outcome)
	}
	if err != nil {
		bad("result: %w", err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(errs...))
	}
	r.outcome = events.DigestOf(outcome)
	return nil
}

// RecordOnce keeps the outcome of an act. The same outcome of the same fence
// again is no error. A late outcome settles a doubt that nobody has settled. An
// outcome of a fence that is no longer in force is kept as a late receipt and
// refused, as is another outcome of the same fence. A failure after an earlier
// attempt that may have happened proves nothing and leaves the effect unknown.
// ErrNotFound, ErrInvalid, ErrUnstorable, *NotTaken.
func (s *Service) RecordOnce(ctx context.Context, r OnceRecord) (Effect, error) {
	if err := r.check(); err != nil {
		return Effect{}, err
	}
	e, err := s.once.RecordOnce(ctx, r)
	if err != nil {
		return Effect{}, fmt.Errorf("record effect %s: %w", r.EffectID, err)
	}
	if e != nil {
		return *e, nil
	}
	found, err := s.programs(ctx, r.Namespace, r.EffectID)
	if err != nil {
		return Effect{}, err
	}
	if r.Fence > found.Claim.Epoch {
		return Effect{}, refused(CodeFenced, found, "fence %d was never given; effect %s is in epoch %d", r.Fence, r.EffectID, found.Claim.Epoch)
	}
	before, err := s.once.OutcomeOnce(ctx, r.EffectID, r.Fence)
	if err != nil {
		return Effect{}, fmt.Errorf("read outcome of effect %s: %w", r.EffectID, err)
	}
	if before == r.outcome {
		return found, nil
	}
	if err := s.once.KeepLate(ctx, r); err != nil {
		return Effect{}, fmt.Errorf("keep late outcome of effect %s: %w", r.EffectID, err)
	}
	s.log.WarnContext(ctx, "outcome of a program came too late and is kept as a receipt", "effect_id", r.EffectID,
		"fence", r.Fence, telemetry.KeyEpoch, found.Claim.Epoch, "status", r.Status, "state", found.State)
	if before != "" {
		return Effect{}, refused(CodeOtherOutcome, found, "fence %d has recorded another outcome; the first one stands, this one is kept as a receipt", r.Fence)
	}
	return Effect{}, refused(CodeFenced, found, "fence %d is no longer in force: effect %s is %s in epoch %d; the outcome is kept as a late receipt", r.Fence, r.EffectID, found.State, found.Claim.Epoch)
}

// programs finds an effect of a program.
func (s *Service) programs(ctx context.Context, namespace, id string) (Effect, error) {
	e, err := s.reader.Effect(ctx, namespace, id)
	if err != nil {
		return Effect{}, err
	}
	if e.OnDoubt == "" {
		return Effect{}, refused(CodeNotYours, e, "effect %s belongs to a tool call of run %s; only its worker records it", id, e.RunID)
	}
	return e, nil
}
