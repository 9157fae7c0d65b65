package tools

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Limit bounds how many attempts begin in a time, and how many are under way, in
// all processes together.
type Limit struct {
	Key         string // of the row that is locked
	Every       time.Duration
	Concurrency int64
	Says        string // for people
}

// Usage is what a limit knows when a call asks for its turn, by the database's
// clock.
type Usage struct {
	Now       time.Time
	LastStart time.Time // zero: never
	Running   int64     // attempts under way
	Ahead     int64     // calls that have waited longer
	Woken     int64     // of these, those that were just sent again
}

// crowded is when a call looks again that waits for another to end, which wakes
// it: the end may be lost with its worker.
const crowded = 10 * time.Second

// Wait is how long a call must wait for its turn; zero when it may begin. It is
// pure.
func (l Limit) Wait(u Usage) time.Duration {
	var wait time.Duration
	if l.Every > 0 && !u.LastStart.IsZero() {
		// Those ahead come first, unless they do not come.
		wait = u.LastStart.Add(time.Duration(1+u.Ahead) * l.Every).Sub(u.Now)
	}
	if l.Concurrency > 0 && u.Running+u.Woken >= l.Concurrency {
		wait = max(wait, crowded+min(time.Duration(u.Ahead)*50*time.Millisecond, time.Minute))
	}
	return max(wait, 0)
}

// Take asks for a turn.
type Take struct {
	Limits   []Limit
	Holder   string // of the turn
	Worker   string
	For      time.Duration // after it the turn is over, whatever was said
	Call     Call
	EffectID string // when the call has opened it
	// NoRow says that a call which must wait leaves nothing: somebody else asks again.
	NoRow bool
}

// Turns keeps limits.
type Turns interface {
	// TakeTurn takes a turn of all limits, or says how long the call must wait
	// and which limit says so. It then waits as a row, which Due takes when it is
	// time, also if the message is lost.
	TakeTurn(ctx context.Context, t Take) (wait time.Duration, says string, err error)
	// EndTurn gives a turn back and returns the calls that may begin now.
	EndTurn(ctx context.Context, limits []Limit, holder string) ([]Call, error)
}

// Hosted is a Kind that can say where a call's request goes.
type Hosted interface {
	// Address is the URL that an attempt would ask first; empty when none is
	// known.
	Address(ctx context.Context, r Request) string
}

// limitsOf lists what bounds the job's next request, in the order in which rows
// are locked.
func (s *Service) limitsOf(ctx context.Context, j *job) []Limit {
	var out []Limit
	if len(s.hostLimits) > 0 {
		if k, ok := s.kindOf(j.tool).(Hosted); ok {
			u, err := url.Parse(k.Address(ctx, Request{Tool: j.tool, Namespace: j.c.Namespace, Args: j.c.Args}))
			if err == nil {
				host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
				if l, ok := s.hostLimits[host]; ok {
					out = append(out, limitOf("host/"+host, "the host "+host, l))
				}
			}
		}
	}
	if l := j.plan.Limits; l != nil {
		out = append(out, limitOf("tool/"+j.c.Namespace+"/"+j.c.Tool, "the tool", *l))
	}
	return out
}

func limitOf(key, whose string, l spec.Limits) Limit {
	says := "the limit of " + whose + ":"
	if !l.Rate.IsZero() {
		says += " " + l.Rate.String()
	}
	if l.Concurrency > 0 {
		says += fmt.Sprintf(" %d at once", l.Concurrency)
	}
	return Limit{Key: key, Every: l.Rate.Every(), Concurrency: l.Concurrency, Says: says}
}

// turn takes a turn for one attempt of the job, which counts nothing before it. Call release when the attempt is over.
// Without a turn the call waits: as an error that names the wait while it is
// short, else as a row, and then ok is false.
func (s *Service) turn(ctx context.Context, j *job, effectID string) (release func(), ok bool, err error) {
	limits := s.limitsOf(ctx, j)
	if len(limits) == 0 {
		return func() {}, true, nil
	}
	holder := newAttemptID()
	wait, says, err := s.store.TakeTurn(ctx, Take{Limits: limits, Holder: holder, Worker: s.worker, For: j.plan.Timeout + turnGrace, Call: j.call(), EffectID: effectID, NoRow: j.discard})
	if err != nil {
		return nil, false, fmt.Errorf("ask for the turn of call %s: %w", j.c.CallID, err)
	}
	if wait > 0 {
		j.log.DebugContext(ctx, "call waits for its turn", "limit", says, "wait", wait)
		if wait <= longestNak || j.discard {
			return nil, false, fault.RetryAfter(wait, fmt.Errorf("call %s waits for %s", j.c.CallID, says))
		}
		return nil, false, nil
	}
	return sync.OnceFunc(func() { s.endTurn(ctx, j, limits, holder) }), true, nil
}

// turnGrace is how long after an attempt's time its turn may still be held.
const turnGrace = 10 * time.Second

// endTurn gives a turn back and sends those who waited for it. What is lost here
// is found by the sweep.
func (s *Service) endTurn(ctx context.Context, j *job, limits []Limit, holder string) {
	held := false
	for _, l := range limits {
		held = held || l.Concurrency > 0
	}
	if !held {
		return
	}
	ctx, cancel := outliving(ctx, recordGrace)
	defer cancel()
	calls, err := s.store.EndTurn(ctx, limits, holder)
	for _, c := range calls {
		if err == nil {
			err = s.sendAgain(ctx, c, "t"+holder)
		}
	}
	if err != nil {
		j.log.WarnContext(ctx, "the end of a turn was not told, who waits for it looks again by itself", telemetry.KeyErr, err)
	}
}

func (s *Service) sendAgain(ctx context.Context, c Call, suffix string) error {
	m, err := Again(c, suffix)
	if err != nil {
		return err
	}
	if err := s.bus.Publish(ctx, m); err != nil {
		return fmt.Errorf("send call %s again: %w", c.ID, err)
	}
	return nil
}
