package trigger

import (
	"context"
	"errors"
	"sync"
)

// ErrSuperseded is what Store.Insert says of a delivery whose Assumes, or whose
// target's version, is no longer current: nothing was stored.
var ErrSuperseded = errors.New("a definition has changed meanwhile")

// maxAssumed bounds how many webhooks a process remembers.
const maxAssumed = 4096

// assumptions are the versions of webhooks as they were last read. They save a
// question to the database and decide nothing: what is judged by them counts only
// when the statement that stores it finds them current, or a later read does.
type assumptions struct {
	mu   sync.Mutex
	last map[HookName]Webhook
}

// of returns what is assumed of a webhook. Only what one statement can store is:
// no limits, which are entered before, and no signal.
func (a *assumptions) of(namespace, name string) (Webhook, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	def, ok := a.last[HookName{namespace, name}]
	def.Assumed = true
	return def, ok
}

// note remembers what was just read.
func (a *assumptions) note(def Webhook) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hook := HookName{def.Namespace, def.Name}
	if def.Aimed == nil || def.Signal != nil || def.Paused || def.Limits != (Limits{}) {
		delete(a.last, hook)
		return
	}
	if a.last == nil || len(a.last) >= maxAssumed {
		a.last = map[HookName]Webhook{}
	}
	a.last[hook] = def
}

// sameVersions reports whether two readings of a webhook are of one version, and
// what they aim at too.
func sameVersions(a, b Webhook) bool {
	return a.Digest == b.Digest && a.Aimed != nil && b.Aimed != nil && a.Aimed.Ref == b.Aimed.Ref
}

// byAssumption takes a request by what is assumed of its webhook. It is done when
// the answer rests on rows; otherwise what was found counts only if a reading
// that begins now has the same versions, which the caller sees to.
func (s *Service) byAssumption(ctx context.Context, def Webhook, r Request) (answer HookAnswer, done bool, err error) {
	a, err := newAttempt(def, r)
	if err != nil {
		return HookAnswer{}, false, err
	}
	answer, err = s.hook(ctx, def, r, a)
	answer.Attempt = a
	return answer, err == nil && answer.RunID != "", err
}
